// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "tokenizer/gguf_splits.h"
#include "tokenizer/test_checkpoint.h"
#include "tokenizer/test_fixtures.h"

namespace clover {
namespace {

const EncodeOptions kPlain{.add_special = false};

// A byte-level vocabulary: all bytes of "abc <|im_end>" and two merges, a control token (id 9), a
// user-defined one (10), and padding behind (11).
struct Bpe {
  std::vector<std::string> tokens = {"a", "b", "c", "Ġ",          "ab",      "Ġab",
                                     "<", "|", ">", "<|im_end|>", "<think>", "[PAD]"};
  std::vector<int64_t> types = {1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 4, 5};
  std::vector<std::string> merges = {"a b", "Ġ ab"};
  std::string model = "gpt2";
  std::string pre = "gpt-2";

  FakeCheckpoint checkpoint() const {
    FakeCheckpoint fake(Checkpoint::Format::kGguf);
    fake.set_text("tokenizer.ggml.model", model);
    if (!pre.empty()) fake.set_text("tokenizer.ggml.pre", pre);
    fake.set_array("tokenizer.ggml.tokens", tokens);
    fake.set_array("tokenizer.ggml.token_type", types);
    fake.set_array("tokenizer.ggml.merges", merges);
    return fake;
  }
};

TEST(GgufTokenizer, MergesAndAddedTokensB3) {
  const FakeCheckpoint fake = Bpe().checkpoint();
  const auto tokenizer = load_tokenizer(fake);
  EXPECT_EQ(tokenizer->kind(), "byte-level BPE");
  EXPECT_EQ(tokenizer->encode("ab abc", false), (std::vector<TokenId>{4, 5, 2}));
  EXPECT_EQ(tokenizer->encode("a<think>b", false), (std::vector<TokenId>{0, 10, 1}));
  EXPECT_EQ(tokenizer->encode("<|im_end|>", true), (std::vector<TokenId>{9}));
  const auto plain = tokenizer->encode("<|im_end|>", false);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), 9), 0);  // B2
  EXPECT_EQ(tokenizer->eos_ids(), (std::vector<TokenId>{9}));
  EXPECT_FALSE(tokenizer->bos().has_value());
  EXPECT_EQ(tokenizer->vocab_size(), 12);  // B12: padding counts, and decodes to its text
  EXPECT_EQ(tokenizer->token_bytes(11), "[PAD]");
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{5, 9, 0}, true), " aba");
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{5, 9, 0}, false), " ab<|im_end|>a");
}

// B1: BOS by the file's flag, by the kind's default, and never twice.
TEST(GgufTokenizer, BosByFlagAndDefaultB1) {
  struct Case {
    std::string pre;
    std::optional<bool> flag;
    bool added;
  };
  for (const Case& c : {Case{"gpt-2", {}, false}, Case{"gpt-2", true, true},
                        Case{"llama-bpe", {}, true}, Case{"llama-bpe", false, false}}) {
    Bpe bpe;
    bpe.pre = c.pre;
    FakeCheckpoint fake = bpe.checkpoint();
    fake.set_int("tokenizer.ggml.bos_token_id", 9);
    if (c.flag) fake.set_bool("tokenizer.ggml.add_bos_token", *c.flag);
    const auto tokenizer = load_tokenizer(fake);
    const std::vector<TokenId> with = {9, 0};
    EXPECT_EQ(tokenizer->encode("a", true), c.added ? with : std::vector<TokenId>{0}) << c.pre;
    EXPECT_EQ(tokenizer->encode("<|im_end|>a", true), with) << c.pre;
  }
}

TEST(GgufTokenizer, AllEndIdsAreHonoured) {
  FakeCheckpoint fake = Bpe().checkpoint();
  fake.set_int("tokenizer.ggml.eos_token_id", 2);
  fake.set_int("tokenizer.ggml.eot_token_id", 10);
  fake.set_int("tokenizer.ggml.eom_token_id", 0xFFFFFFFF);  // "none"
  EXPECT_EQ(load_tokenizer(fake)->eos_ids(), (std::vector<TokenId>{2, 9, 10}));
}

TEST(GgufTokenizer, ChatTemplateIsGivenOut) {
  FakeCheckpoint fake = Bpe().checkpoint();
  EXPECT_FALSE(load_tokenizer(fake)->chat_template().has_value());
  fake.set_text("tokenizer.chat_template", "{{ x }}");
  EXPECT_EQ(load_tokenizer(fake)->chat_template(), "{{ x }}");
}

TEST(GgufTokenizer, TemplatesMayNameSpecialTokens) {
  FakeCheckpoint fake = Bpe().checkpoint();
  EXPECT_TRUE(load_tokenizer(fake)->template_tokens().empty());
  fake.set_int("tokenizer.ggml.bos_token_id", 9);
  fake.set_int("tokenizer.ggml.eos_token_id", 10);
  fake.set_int("tokenizer.ggml.padding_token_id", 32000);  // not there: no reason to refuse a file
  const auto tokenizer = load_tokenizer(fake);
  const std::map<std::string, std::string> expected = {
      {"bos_token", std::string(tokenizer->token_bytes(9))},
      {"eos_token", std::string(tokenizer->token_bytes(10))}};
  EXPECT_EQ(tokenizer->template_tokens(), expected);
}

void expect_error(const FakeCheckpoint& fake, ErrorCode code, const std::string& part) {
  try {
    load_tokenizer(fake);
    FAIL() << "no error, expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(GgufTokenizer, BrokenKeysAreNamed) {
  Bpe bpe;
  expect_error(FakeCheckpoint(Checkpoint::Format::kGguf), ErrorCode::kNotFound, "model");
  bpe.model = "rwkv";
  expect_error(bpe.checkpoint(), ErrorCode::kUnsupported, "rwkv");
  bpe = Bpe();
  bpe.pre = "no-such-split";
  expect_error(bpe.checkpoint(), ErrorCode::kUnsupported, "llama-bpe");
  bpe = Bpe();
  bpe.types.pop_back();
  expect_error(bpe.checkpoint(), ErrorCode::kCorrupt, "token_type");
  bpe = Bpe();
  bpe.tokens.clear();
  expect_error(bpe.checkpoint(), ErrorCode::kNotFound, "tokens");
  bpe = Bpe();
  bpe.merges = {"a z"};
  expect_error(bpe.checkpoint(), ErrorCode::kCorrupt, "\"z\"");
  bpe.merges = {"ab"};
  expect_error(bpe.checkpoint(), ErrorCode::kCorrupt, "\"ab\"");
  FakeCheckpoint fake = Bpe().checkpoint();
  fake.set_int("tokenizer.ggml.eos_token_id", 12);
  expect_error(fake, ErrorCode::kCorrupt, "eos_token_id");
}

TEST(GgufTokenizer, EveryKnownSplitCompiles) {
  const std::string text = "It's 12345 o'clock;\n\n  naïve 中文 café\t x\r\n...";
  for (const char* name : {"default", "gpt-2", "smollm", "llama3", "llama-v3", "llama-bpe", "qwen2",
                           "tekken", "gpt-4o", "falcon", "deepseek-coder", "deepseek-v3",
                           "deepseek-r1-qwen", "glm4", "command-r"}) {
    const GgufSplit split = gguf_split(name);
    std::string buffer = text;
    std::vector<TextRange> pieces;
    split.pre_tokenizer.apply(buffer, true, pieces);
    std::string joined;
    for (const TextRange& piece : pieces)
      joined += buffer.substr(piece.begin, piece.end - piece.begin);
    EXPECT_EQ(joined, text) << name;
    EXPECT_GT(pieces.size(), 10U) << name;
  }
}

// The same vocabulary as a SentencePiece file, read by the reference library, and as GGUF arrays,
// read by our own merging.
FakeCheckpoint sentencepiece_gguf() {
  const Json vocabulary = read_fixture("spm_bpe.vocab.json");
  FakeCheckpoint fake(Checkpoint::Format::kGguf);
  fake.set_text("tokenizer.ggml.model", "llama");
  fake.set_array("tokenizer.ggml.tokens", vocabulary.at("tokens").get<std::vector<std::string>>());
  fake.set_array("tokenizer.ggml.scores", vocabulary.at("scores").get<std::vector<double>>());
  fake.set_array("tokenizer.ggml.token_type", vocabulary.at("types").get<std::vector<int64_t>>());
  fake.set_int("tokenizer.ggml.bos_token_id", 1);
  fake.set_int("tokenizer.ggml.eos_token_id", 2);
  fake.set_int("tokenizer.ggml.unknown_token_id", 0);
  return fake;
}

TEST(GgufTokenizer, SentencePieceEqualsTheReferenceB4) {
  const FakeCheckpoint fake = sentencepiece_gguf();
  const auto tokenizer = load_tokenizer(fake);
  EXPECT_EQ(tokenizer->kind(), "SentencePiece BPE");
  const Json ids = read_fixture("spm_bpe.ids.json");
  ASSERT_GT(ids.at("strings").size(), 500U);
  for (size_t i = 0; i < ids.at("strings").size(); ++i) {
    const auto text = ids.at("strings")[i].get<std::string>();
    const auto expected = ids.at("plain")[i].get<std::vector<TokenId>>();
    EXPECT_EQ(tokenizer->encode(text, false, kPlain), expected) << Json(text);
    const Json& decoded = ids.at("decoded")[i];
    EXPECT_EQ(utf8_replace_invalid(tokenizer->decode(expected, false)),
              decoded.is_null() ? text : decoded.get<std::string>());
  }
}

// B2: neither a control token nor a byte token can be spelled, even where merges would build it.
TEST(GgufTokenizer, SentencePieceTextCanNotSpellControlTokensB2) {
  FakeCheckpoint fake(Checkpoint::Format::kGguf);
  fake.set_text("tokenizer.ggml.model", "llama");
  fake.set_array("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<s>", "<0x41>", "<",
                                                                   "s", ">", "<s", "▁", "0x41"});
  fake.set_array("tokenizer.ggml.scores", std::vector<double>(9, 0.0));
  fake.set_array("tokenizer.ggml.token_type", std::vector<int64_t>{2, 3, 6, 1, 1, 1, 1, 1, 1});
  fake.set_bool("tokenizer.ggml.add_space_prefix", false);
  fake.set_bool("tokenizer.ggml.add_bos_token", false);
  fake.set_int("tokenizer.ggml.unknown_token_id", 0);
  const auto tokenizer = load_tokenizer(fake);
  EXPECT_EQ(tokenizer->encode("<s>", false), (std::vector<TokenId>{6, 5}));
  EXPECT_EQ(tokenizer->encode("<s>", true), (std::vector<TokenId>{1}));
  EXPECT_EQ(tokenizer->encode("A", false), (std::vector<TokenId>{2}));
  EXPECT_EQ(tokenizer->encode("zz", false), (std::vector<TokenId>{0}));
}

TEST(GgufTokenizer, BrokenScoresAreNamed) {
  FakeCheckpoint fake(Checkpoint::Format::kGguf);
  fake.set_text("tokenizer.ggml.model", "llama");
  fake.set_array("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  expect_error(fake, ErrorCode::kCorrupt, "scores");
  fake.set_array("tokenizer.ggml.scores",
                 std::vector<double>{0.0, std::numeric_limits<double>::quiet_NaN()});
  expect_error(fake, ErrorCode::kCorrupt, "finite");
}

// B6 for text that is one piece to its end.
TEST(GgufTokenizer, SentencePieceLongRunsB6) {
  const auto tokenizer = load_tokenizer(sentencepiece_gguf());
  for (const std::string unit : {"a", " ", "\n", "😀", "he"}) {
    std::string text;
    while (text.size() < 100'000) text += unit;
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false, kPlain), true), text);
  }
}

}  // namespace
}  // namespace clover
