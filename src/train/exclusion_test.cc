// SPDX-License-Identifier: Apache-2.0
#include "train/exclusion.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "checkpoint/test_util.h"

namespace clover {
namespace {

constexpr const char* kQuestion =
    "Compose an engaging travel blog post about a recent trip to Hawaii, highlighting culture.";

TEST(WordHashes, CaseFormsAndPunctuationMakeNoDifference) {
  EXPECT_EQ(word_hashes("The  QUICK,(brown) fox!"), word_hashes("the quick\nbrown—fox"));
  EXPECT_EQ(word_hashes("STRASSE"), word_hashes("straße"));
  EXPECT_EQ(word_hashes("ﬁne Ａ１"), word_hashes("fine a1"));
  EXPECT_EQ(word_hashes("caf\u00e9"), word_hashes("cafe\u0301"));
  EXPECT_NE(word_hashes("ab"), word_hashes("a b"));
  EXPECT_NE(word_hashes("ab"), word_hashes("ba"));
  EXPECT_TRUE(word_hashes(" .,;!? —\t\n").empty());
  EXPECT_TRUE(word_hashes("").empty());
  EXPECT_EQ(word_hashes("日本語 text").size(), 4u);
  EXPECT_EQ(word_hashes("a\xff\xfe z").size(), 2u);
}

TEST(ExclusionSet, TenWordsInARowMatchAndNineDoNot) {
  ExclusionSet set;
  EXPECT_TRUE(set.empty());
  EXPECT_FALSE(set.matches(kQuestion));
  set.add(kQuestion);
  EXPECT_TRUE(set.matches(kQuestion));
  EXPECT_TRUE(set.matches("please compose AN engaging travel blog post about a recent trip, now"));
  EXPECT_FALSE(set.matches("compose an engaging travel blog post about a recent walk to Hawaii"));
  EXPECT_TRUE(
      set.matches("about a recent trip to Hawaii? highlighting culture: blog post about a recent "
                  "trip to hawaii highlighting culture"));
  EXPECT_FALSE(set.matches("highlighting culture"));
  EXPECT_FALSE(set.matches(""));
}

TEST(ExclusionSet, ShortTextsMatchAsAWhole) {
  ExclusionSet set;
  set.add("Who wrote Hamlet?");
  set.add("...");
  EXPECT_TRUE(set.matches("who wrote hamlet"));
  EXPECT_FALSE(set.matches("who wrote hamlet first"));
  EXPECT_FALSE(set.matches("wrote hamlet"));
  EXPECT_FALSE(set.matches(""));
}

TEST(ExclusionSet, EveryTurnOfAFileCounts) {
  const ScratchFolder folder;
  write_file(folder / "q", "{\"turns\":[\"first\",\"" + std::string(kQuestion) + "\"]}\n");
  ExclusionSet set;
  set.add_file(folder / "q");
  EXPECT_TRUE(set.matches("First!"));
  EXPECT_TRUE(set.matches(kQuestion));
  error_text([&] { set.add_file(folder / "none"); }, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace clover
