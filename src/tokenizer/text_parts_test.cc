// SPDX-License-Identifier: Apache-2.0
// The parts that the tokenizers are built from: UTF-8, streaming, patterns, merging, normalisation.
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "base/error.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/merges.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/split_regex.h"
#include "tokenizer/test_checkpoint.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace clover {
namespace {

// Expected texts are Python's bytes.decode("utf-8", errors="replace").
TEST(Utf8, InvalidBytesAreReplacedAsTheStandardSays) {
  const std::string r = "\xEF\xBF\xBD";
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"abc", "abc"},
      {"\x80", r},
      {"\xC3", r},
      {"\xC3(", r + "("},
      {"\xC0\x80", r + r},
      {"\xE2\x82", r},
      {"\xE2\x82x", r + "x"},
      {"\xE0\x80\x80", r + r + r},
      {"\xED\xA0\x80", r + r + r},
      {"\xF0\x9F\x98", r},
      {"\xF0\x9F\x98\xF0\x9F\x98\x80", r + "😀"},
      {"\xF4\x90\x80\x80", r + r + r + r},
      {"\xF5\x80", r + r},
      {"é\xFFé", "é" + r + "é"},
  };
  for (const auto& [bytes, text] : cases) EXPECT_EQ(utf8_replace_invalid(bytes), text);
}

TEST(ByteAlphabet, LettersAndBytesAreInverse) {
  for (int byte = 0; byte < 256; ++byte) {
    std::string letter;
    append_utf8(letter, byte_to_letter(static_cast<uint8_t>(byte)));
    EXPECT_EQ(letters_to_bytes(letter), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(byte_to_letter(' '), 0x120U);
  EXPECT_EQ(byte_to_letter('\n'), 0x10AU);
  EXPECT_FALSE(letters_to_bytes(" ").has_value());
  EXPECT_FALSE(letters_to_bytes("中").has_value());
}

// 256 tokens of one byte each, made from a GGUF vocabulary.
std::unique_ptr<Tokenizer> byte_tokenizer() {
  std::vector<std::string> tokens(256);
  for (int byte = 0; byte < 256; ++byte) {
    append_utf8(tokens[static_cast<size_t>(byte)], byte_to_letter(static_cast<uint8_t>(byte)));
  }
  FakeCheckpoint fake(Checkpoint::Format::kGguf);
  fake.set_text("tokenizer.ggml.model", "gpt2");
  fake.set_array("tokenizer.ggml.tokens", tokens);
  fake.set_array("tokenizer.ggml.merges", std::vector<std::string>{});
  return load_tokenizer(fake);
}

// C7: any bytes, one token each: every chunk is valid and all chunks are the whole text.
TEST(StreamDecoder, RandomBytesStreamAsTheWholeC7) {
  const auto tokenizer = byte_tokenizer();
  std::mt19937 random(7);
  const std::string pool = "aé中😀\xFF\x80\xE2\x82\xF0\x9F\xED\xA0\xC3";
  for (int round = 0; round < 3000; ++round) {
    std::vector<TokenId> ids;
    const size_t count = random() % 12;
    for (size_t i = 0; i < count; ++i) {
      ids.push_back(static_cast<uint8_t>(pool[random() % pool.size()]));
    }
    StreamDecoder stream(*tokenizer, true);
    std::string text;
    for (const TokenId id : ids) {
      const std::string chunk = stream.push(id);
      ASSERT_EQ(utf8_valid_prefix(chunk), chunk.size());
      text += chunk;
    }
    text += stream.finish();
    ASSERT_EQ(text, utf8_replace_invalid(tokenizer->decode(ids, true)));
    EXPECT_EQ(stream.finish(), "");
  }
}

TEST(StreamDecoder, HoldsBackUnfinishedCharactersOnly) {
  const auto tokenizer = byte_tokenizer();
  StreamDecoder stream(*tokenizer, true);
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.push(0xF0), "");
  EXPECT_EQ(stream.push(0x9F), "");
  EXPECT_EQ(stream.push(0x98), "");
  EXPECT_EQ(stream.push(0x80), "😀");
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
}

std::vector<std::string> matches_of(std::string_view pattern, std::string_view text) {
  std::vector<TextRange> ranges;
  SplitRegex(pattern).find_all(text, ranges);
  std::vector<std::string> out;
  for (const TextRange& r : ranges) out.emplace_back(text.substr(r.begin, r.end - r.begin));
  return out;
}

using Texts = std::vector<std::string>;

TEST(SplitRegex, SpeaksTheDialectOfTokenizerJson) {
  EXPECT_EQ(matches_of("\\s", "a\u00a0b\u3000c\u180ed"), (Texts{"\u00a0", "\u3000"}));
  EXPECT_EQ(matches_of("\\d+", "1٣x²"), (Texts{"1٣"}));
  EXPECT_EQ(matches_of("\\w+", "é_1-ça"), (Texts{"é_1", "ça"}));
  EXPECT_EQ(matches_of("\\h+", "ffg 0"), (Texts{"ff", "0"}));
  EXPECT_EQ(matches_of("[^\\s\\d]+", "a1 b"), (Texts{"a", "b"}));
  EXPECT_EQ(matches_of("[a[bc]d]+", "abcdx"), (Texts{"abcd"}));
  EXPECT_EQ(matches_of("^a$", "a\na"), (Texts{"a", "a"}));
  EXPECT_EQ(matches_of("(?i:'s)", "'S'ſ"), (Texts{"'S", "'ſ"}));
  EXPECT_EQ(matches_of("\\p{L}++", "ab1"), (Texts{"ab"}));
  EXPECT_EQ(matches_of("(?=b)|b", "abb"), (Texts{
                                              "",
                                              "",
                                          }));
}

TEST(SplitRegex, LiteralsAreQuoted) {
  std::vector<TextRange> ranges;
  SplitRegex::literal(".*中").find_all("a.*中b", ranges);
  EXPECT_EQ(ranges, (std::vector<TextRange>{{1, 6}}));
}

TEST(SplitRegex, UnsupportedPatternsAreNamed) {
  for (const char* pattern : {"(", "[a&&b]", "[a[^b]]", "a{1,3}+", "\\Ka", "(*COMMIT)a", "(?C1)a",
                              "[\\W]", "[]", "\\", "\\p{NoSuchScript}", "[a"}) {
    try {
      SplitRegex regex(pattern);
      ADD_FAILURE() << pattern;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << pattern;
    }
  }
}

// A pattern that backtracks exponentially ends in an error, not in a hang.
TEST(SplitRegex, HopelessPatternsAreStopped) {
  std::vector<TextRange> ranges;
  EXPECT_THROW(SplitRegex("(a+)+b").find_all(std::string(60, 'a') + "cb", ranges), Error);
}

// Joins the best pair again and again, by its definition.
std::vector<int32_t> merge_slowly(const MergeTable& table, std::vector<int32_t> symbols) {
  while (true) {
    MergeTable::Merge best;
    size_t place = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto merge = table.find(symbols[i], symbols[i + 1]);
      if (merge.rank < best.rank) {
        best = merge;
        place = i;
      }
    }
    if (best.rank == MergeTable::kNone) return symbols;
    symbols[place] = best.result;
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(place) + 1);
  }
}

TEST(MergeTable, ShortAndLongTextsMergeByDefinition) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    MergeTable table;
    for (int32_t i = 0; i < 40; ++i) {
      // Ranks repeat, as scores of SentencePiece do.
      table.add(static_cast<int32_t>(random() % 14), static_cast<int32_t>(random() % 14),
                {static_cast<uint32_t>(random() % 20), 4 + static_cast<int32_t>(random() % 10)});
    }
    for (const size_t size : {0, 1, 2, 7, 47, 48, 49, 50, 200}) {
      std::vector<int32_t> symbols(size);
      for (int32_t& s : symbols)
        s = static_cast<int32_t>(random() % 5) - (random() % 30 == 0 ? 5 : 0);
      const auto expected = merge_slowly(table, symbols);
      table.apply(symbols);
      ASSERT_EQ(symbols, expected) << size;
    }
  }
}

TEST(Normalizer, FormsOfUnicode) {
  EXPECT_EQ(unicode_normalize("e\u0301", UnicodeForm::kNfc), "é");
  EXPECT_EQ(unicode_normalize("é", UnicodeForm::kNfd), "e\u0301");
  EXPECT_EQ(unicode_normalize("ﬁ²", UnicodeForm::kNfkc), "fi2");
  EXPECT_EQ(unicode_normalize("Å", UnicodeForm::kNfc), "Å");
  EXPECT_EQ(unicode_normalize("한", UnicodeForm::kNfd), "\u1112\u1161\u11ab");
  EXPECT_EQ(unicode_normalize("a\u0301\u0323", UnicodeForm::kNfd), "a\u0323\u0301");
  EXPECT_EQ(unicode_normalize("\u1112\u1161\u11ab", UnicodeForm::kNfc), "한");
}

// B6: marks out of order would take an exchange sort 10^11 steps.
TEST(Normalizer, LongRunsOfMarksTakeLittleTimeB6) {
  std::string text = "a";
  for (int i = 0; i < 250'000; ++i) text += i % 2 == 0 ? "\u0301" : "\u0323";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(unicode_normalize(text, UnicodeForm::kNfd).size(), text.size());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(AddedTokens, LongestMatchAndFlags) {
  AddedTokenMatcher matcher;
  matcher.add({.content = "<a>", .id = 1});
  matcher.add({.content = "<a>>", .id = 2});
  matcher.add({.content = "<c>", .id = 3, .control = true});
  matcher.add({.content = "w", .id = 4, .single_word = true});
  matcher.add({.content = "<l>", .id = 5, .lstrip = true, .rstrip = true});
  matcher.add({.content = "", .id = 6});
  const auto ids = [&](std::string_view text, bool trusted) {
    std::vector<TextSection> sections;
    matcher.split(
        text, [&](TextRange) { return trusted; }, sections);
    std::string out;
    for (const TextSection& s : sections) {
      out += s.id >= 0
                 ? std::to_string(s.id)
                 : "[" + std::string(text.substr(s.range.begin, s.range.end - s.range.begin)) + "]";
    }
    return out;
  };
  EXPECT_EQ(ids("x<a>><a>", false), "[x]21");
  EXPECT_EQ(ids("<c>", false), "[<c>]");
  EXPECT_EQ(ids("<c><a", true), "3[<a]");
  EXPECT_EQ(ids("w sw w.", false), "4[ sw ]4[.]");
  EXPECT_EQ(ids("a \n<l>\u3000b", false), "[a]5[b]");
  EXPECT_EQ(ids("\x80 <l>\xFF", false), "[\x80]5[\xFF]");
  EXPECT_EQ(ids("", true), "");
}

}  // namespace
}  // namespace clover
