// SPDX-License-Identifier: Apache-2.0
#include "train/prompt_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/test_util.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(compressBound(text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

class PromptFile : public ::testing::Test {
 protected:
  std::vector<UserTurns> read(const std::string& text, bool skip_bad = false) {
    write_file(path_, text);
    std::vector<UserTurns> prompts;
    counts_ = read_prompts(path_, skip_bad, [&](UserTurns turns, const std::string& where) {
      prompts.push_back(std::move(turns));
      places_.push_back(where.substr(where.rfind(',') + 2));
    });
    return prompts;
  }
  std::string fault(const std::string& text, ErrorCode code = ErrorCode::kCorrupt) {
    return error_text([&] { read(text); }, code);
  }

  ScratchFolder folder_;
  std::string path_ = folder_ / "prompts";
  PromptFileCounts counts_;
  std::vector<std::string> places_;
};

TEST_F(PromptFile, JsonLinesOfEveryKind) {
  EXPECT_THAT(read("{\"prompt\":\"a b\",\"source\":1}\n"
                   "\n \t\r\n"
                   "{\"question_id\":3,\"turns\":[\"x\",\"y\"]}\r\n"
                   "{\"conversations\":[{\"from\":\"system\",\"value\":\"s\"},"
                   "{\"from\":\"human\",\"value\":\"q\"},{\"from\":\"gpt\",\"value\":\"no\"},"
                   "{\"from\":\"user\",\"value\":\"r\"}]}\n"
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"m\"},"
                   "{\"role\":\"assistant\",\"content\":null}]}"),
              ElementsAre(ElementsAre("a b"), ElementsAre("x", "y"), ElementsAre("q", "r"),
                          ElementsAre("m")));
  EXPECT_THAT(places_, ElementsAre("line 1", "line 4", "line 5", "line 6"));
  EXPECT_EQ(counts_.records, 4);
}

TEST_F(PromptFile, ShareGptListWithBracketsInStrings) {
  EXPECT_THAT(
      read(" [\n {\"id\":\"1\",\"conversations\":[{\"from\":\"human\",\"value\":\"],\\\"}[\"}]}"
           ",\n{\"conversations\":[]} , {\"prompt\":\"\\\\\"}]\n"),
      ElementsAre(ElementsAre("],\"}["), IsEmpty(), ElementsAre("\\")));
  EXPECT_THAT(places_, ElementsAre("item 1", "item 2", "item 3"));
}

TEST_F(PromptFile, BlankTurnsAreLeftOut) {
  EXPECT_THAT(read("{\"turns\":[\" \\n\",\"b\"]}\n{\"prompt\":\"\"}\n"),
              ElementsAre(ElementsAre("b"), IsEmpty()));
}

TEST_F(PromptFile, GzipIsReadWhateverTheName) {
  const std::string text = "{\"prompt\":\"zipped\"}\n";
  EXPECT_THAT(read(gzip(text)), ElementsAre(ElementsAre("zipped")));
}

TEST_F(PromptFile, BrokenGzipIsAnError) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += fmt::format("{{\"prompt\":\"{}\"}}\n", i * 7919 % 4999);
  const std::string whole = gzip(text);
  EXPECT_EQ(read(whole).size(), 5000u);
  for (const size_t size : {whole.size() / 2, whole.size() - 3})
    EXPECT_THAT(fault(whole.substr(0, size)), HasSubstr("gzip")) << size;
  std::string changed = whole;
  changed[whole.size() / 2] = static_cast<char>(changed[whole.size() / 2] ^ 0x55);
  EXPECT_THAT(fault(changed), HasSubstr(path_));
}

TEST_F(PromptFile, BadRecordsNameTheirPlaceAndField) {
  const std::string good = "{\"prompt\":\"a\"}\n";
  EXPECT_THAT(fault(good + "{\"prompt\":\"a\"\n"), HasSubstr("prompts, line 2"));
  EXPECT_THAT(fault(good + "\n17\n"), HasSubstr("line 3: not a JSON object"));
  EXPECT_THAT(fault(good + "{}"), HasSubstr("line 2: has none of prompt, turns"));
  EXPECT_THAT(fault("{\"prompt\":3}"), HasSubstr("line 1: prompt is no string"));
  EXPECT_THAT(fault("{\"turns\":\"a\"}"), HasSubstr("turns is no list"));
  EXPECT_THAT(fault("{\"turns\":[1]}"), HasSubstr("turns is no string"));
  EXPECT_THAT(fault("{\"conversations\":{}}"), HasSubstr("conversations is no list"));
  EXPECT_THAT(fault("{\"conversations\":[{\"value\":\"x\"}]}"), HasSubstr("without from"));
  EXPECT_THAT(fault("{\"conversations\":[{\"from\":\"human\"}]}"), HasSubstr("without value"));
  EXPECT_THAT(fault("{\"messages\":[{\"role\":\"user\",\"content\":[]}]}"),
              HasSubstr("content is no string"));
  EXPECT_THAT(fault(good + "{\"prompt\":\"\xff\"}"), HasSubstr("line 2"));
  EXPECT_THAT(fault("[{\"prompt\":\"a\"},]"), HasSubstr("item 2"));
  EXPECT_THAT(fault("[{\"prompt\":\"a\"}"), HasSubstr("not closed"));
  EXPECT_THAT(fault("[{\"prompt\":\"a\"}] x"), HasSubstr("follows"));
  EXPECT_THAT(fault("{\"prompt\":" + std::string(100000, '[') + "}"), HasSubstr("line 1"));
}

TEST_F(PromptFile, BadRecordsAreCountedWhenAsked) {
  EXPECT_THAT(read("{\"prompt\":\"a\"}\nnonsense\n{\"prompt\":\"b\"}\n{}\n", true),
              ElementsAre(ElementsAre("a"), ElementsAre("b")));
  EXPECT_EQ(counts_.bad, 2);
  EXPECT_THAT(error_text([&] { read("x\ny\n", true); }), HasSubstr("all 2 records are bad"));
}

TEST_F(PromptFile, HugeRecordsAreBoundedAndTheNextIsRead) {
  const std::string huge = "{\"prompt\":\"" + std::string(size_t{17} << 20, 'a') + "\"}\n";
  EXPECT_THAT(fault(huge), HasSubstr("line 1: more than 16 MiB"));
  EXPECT_THAT(read(gzip(huge + "{\"prompt\":\"b\"}"), true), ElementsAre(ElementsAre("b")));
  EXPECT_EQ(counts_.bad, 1);
}

TEST_F(PromptFile, FilesWithoutPrompts) {
  for (const char* text : {"", "\n\n ", "[]", " [ ] "})
    EXPECT_THAT(fault(text), HasSubstr("holds no prompt")) << text;
  EXPECT_THAT(error_text([&] { read_prompts(folder_ / "none", false, {}); }, ErrorCode::kNotFound),
              HasSubstr("none"));
  EXPECT_THAT(
      error_text([&] { read_prompts(folder_.path(), false, {}); }, ErrorCode::kInvalidArgument),
      HasSubstr("folder"));
}

}  // namespace
}  // namespace clover
