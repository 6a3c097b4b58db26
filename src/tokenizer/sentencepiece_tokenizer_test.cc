// SPDX-License-Identifier: Apache-2.0
// tokenizer.model files in Hugging Face folders, and what the folder's other files say.
#include "tokenizer/sentencepiece_tokenizer.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "tokenizer/test_checkpoint.h"
#include "tokenizer/test_fixtures.h"

namespace clover {
namespace {

const EncodeOptions kPlain{.add_special = false};

FakeCheckpoint folder(const std::string& model) {
  FakeCheckpoint fake(Checkpoint::Format::kHuggingFace);
  fake.set_file("tokenizer.model", tokenizer_fixture_path(model));
  return fake;
}

double score_of(const Json& scores, const std::vector<TokenId>& ids) {
  double sum = 0;
  for (const TokenId id : ids) sum += scores.at(static_cast<size_t>(id)).get<double>();
  return sum;
}

// Versions of the library break ties between unigram segmentations differently: there the tokens
// may differ from the fixture, but not their total score.
TEST(SentencePieceTokenizer, IdsEqualTheReference) {
  for (const std::string name : {"spm_bpe", "spm_unigram"}) {
    const auto tokenizer = load_tokenizer(folder(name + ".model"));
    const Json ids = read_fixture(name + ".ids.json");
    const Json scores = read_fixture(name + ".vocab.json").at("scores");
    for (size_t i = 0; i < ids.at("strings").size(); ++i) {
      const auto text = ids.at("strings")[i].get<std::string>();
      const auto expected = ids.at("plain")[i].get<std::vector<TokenId>>();
      const auto found = tokenizer->encode(text, false, kPlain);
      if (name == "spm_unigram") {
        EXPECT_EQ(found.size(), expected.size()) << Json(text);
        EXPECT_NEAR(score_of(scores, found), score_of(scores, expected), 1e-3) << Json(text);
      } else {
        EXPECT_EQ(found, expected) << Json(text);
      }
      const Json& decoded = ids.at("decoded")[i];
      EXPECT_EQ(utf8_replace_invalid(tokenizer->decode(expected, false)),
                decoded.is_null() ? text : decoded.get<std::string>());
    }
  }
}

// B1, B2: BOS once, control tokens in trusted text only.
TEST(SentencePieceTokenizer, BosAndControlTokens) {
  const auto tokenizer = load_tokenizer(folder("spm_bpe.model"));
  EXPECT_EQ(tokenizer->bos(), 1);
  EXPECT_EQ(tokenizer->eos_ids(), (std::vector<TokenId>{2}));
  const auto ids = tokenizer->encode("the", false);
  EXPECT_EQ(ids.front(), 1);
  EXPECT_EQ(tokenizer->encode("<s>the", true), ids);
  const auto forged = tokenizer->encode("<s>the</s>", false, kPlain);
  EXPECT_EQ(std::count(forged.begin(), forged.end(), 1), 0);
  EXPECT_EQ(std::count(forged.begin(), forged.end(), 2), 0);
  EXPECT_EQ(tokenizer->decode(forged, true), "<s>the</s>");
}

TEST(SentencePieceTokenizer, FolderRulesAreHonoured) {
  FakeCheckpoint fake = folder("spm_bpe.model");
  const auto pieces = load_tokenizer(fake)->vocab_size();
  fake.set_document("tokenizer_config.json", parse_json(fmt::format(R"({{
    "add_bos_token": false, "add_eos_token": true, "eos_token": {{"content": "</s>"}},
    "added_tokens_decoder": {{"{}": {{"content": "<|im_end|>", "special": true}},
                              "{}": {{"content": "<tool>", "special": false}}}},
    "chat_template": [{{"name": "rag", "template": "R"}}, {{"name": "default", "template": "D"}}]
  }})",
                                                                    pieces, pieces + 1),
                                                        "config"));
  fake.set_document("generation_config.json",
                    parse_json(R"({"eos_token_id": [2, 3]})", "generation"));
  const auto tokenizer = load_tokenizer(fake);
  EXPECT_EQ(tokenizer->vocab_size(), pieces + 2);
  EXPECT_EQ(tokenizer->eos_ids(), (std::vector<TokenId>{2, 3, pieces}));
  EXPECT_EQ(tokenizer->chat_template(), "D");
  EXPECT_EQ(tokenizer->encode("<tool>", false), (std::vector<TokenId>{pieces + 1, 2}));
  EXPECT_EQ(tokenizer->encode("<|im_end|>", true), (std::vector<TokenId>{pieces, 2}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("the<tool>the", false), true), "the<tool> the");

  fake.set_document("generation_config.json",
                    parse_json(R"({"eos_token_id": 99999})", "generation"));
  EXPECT_THROW(load_tokenizer(fake), Error);
}

TEST(SentencePieceTokenizer, TemplatesMayNameSpecialTokens) {
  using Tokens = std::map<std::string, std::string>;
  FakeCheckpoint fake = folder("spm_bpe.model");
  EXPECT_EQ(load_tokenizer(fake)->template_tokens(), (Tokens{{"bos_token", "<s>"}}));
  fake.set_document(
      "tokenizer_config.json",
      parse_json(R"({"eos_token": {"content": "</s>"}, "pad_token": null})", "config"));
  fake.set_document("special_tokens_map.json",
                    parse_json(R"({"eos_token": "<x>", "pad_token": "<pad>"})", "map"));
  EXPECT_EQ(load_tokenizer(fake)->template_tokens(),
            (Tokens{{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"pad_token", "<pad>"}}));
}

// legacy = false: only the text's first section gets a space.
TEST(SentencePieceTokenizer, LaterSectionsGetNoSpaceWithoutLegacy) {
  FakeCheckpoint fake = folder("spm_bpe.model");
  fake.set_document("tokenizer_config.json", parse_json(R"({"legacy": false})", "config"));
  const auto tokenizer = load_tokenizer(fake);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("the</s>the", true), false), "<s> the</s>the");
  const auto ids = tokenizer->encode("the", false, kPlain);
  EXPECT_EQ(ids, load_tokenizer(folder("spm_bpe.model"))->encode("the", false, kPlain));
}

TEST(SentencePieceTokenizer, InvalidUtf8KeepsItsBytes) {
  const auto tokenizer = load_tokenizer(folder("spm_bpe.model"));
  const std::string text = "the\xFF\xC3 he\xE2\x82";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false, kPlain), false), text);
}

TEST(SentencePieceTokenizer, BrokenFilesAreErrors) {
  const std::string good = read_fixture_text("spm_bpe.model");
  const std::string path =
      (std::filesystem::temp_directory_path() / "clover_broken_tokenizer.model").string();
  FakeCheckpoint fake(Checkpoint::Format::kHuggingFace);
  fake.set_file("tokenizer.model", path);
  for (const std::string& bytes :
       {std::string(), std::string("not a model"), std::string(5000, '\xFF')}) {
    std::ofstream(path, std::ios::binary) << bytes;
    EXPECT_THROW(load_tokenizer(fake), Error) << bytes.size();
  }
  std::remove(path.c_str());
  EXPECT_THROW(load_tokenizer(fake), Error);
}

TEST(LoadTokenizer, FolderWithoutTokenizerIsNotFound) {
  try {
    load_tokenizer(FakeCheckpoint(Checkpoint::Format::kHuggingFace));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  }
}

TEST(LoadTokenizer, TemplateFileOverridesTheConfiguration) {
  FakeCheckpoint fake(Checkpoint::Format::kHuggingFace);
  fake.set_document("tokenizer.json", read_fixture("qwen2_like.tokenizer.json"));
  fake.set_document("tokenizer_config.json", parse_json(R"({"chat_template": "C"})", "config"));
  EXPECT_EQ(load_tokenizer(fake)->chat_template(), "C");
  fake.set_file("chat_template.jinja", tokenizer_fixture_path("qwen2_like.tokenizer.json"));
  EXPECT_EQ(load_tokenizer(fake)->chat_template()->front(), '{');
  EXPECT_EQ(load_tokenizer(fake)->eos_ids().size(), 2U);  // <|endoftext|>, <|im_end|>
}

}  // namespace
}  // namespace clover
