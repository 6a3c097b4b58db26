// SPDX-License-Identifier: Apache-2.0
// tokenizer.json: parity with the reference on trained tokenizers, and broken documents.
#include "tokenizer/tokenizer_json.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tokenizer/test_checkpoint.h"
#include "tokenizer/test_fixtures.h"

namespace clover {
namespace {

const EncodeOptions kPlain{.add_special = false};

std::unique_ptr<Tokenizer> load_fixture(const std::string& name) {
  return tokenizer_from_json(read_fixture(name + ".tokenizer.json"), {});
}

class TokenizerJsonParity : public testing::TestWithParam<const char*> {};

// B4, B2: ids in trusted and untrusted text equal the reference's.
TEST_P(TokenizerJsonParity, IdsEqualTheReference) {
  const auto tokenizer = load_fixture(GetParam());
  expect_reference_ids(*tokenizer, std::string(GetParam()) + ".ids.json");
}

TEST_P(TokenizerJsonParity, DecodedTextEqualsTheReference) {
  const auto tokenizer = load_fixture(GetParam());
  const Json strings = read_fixture("strings.json");
  const Json ids = read_fixture(std::string(GetParam()) + ".ids.json");
  auto index = ids.at("start").get<size_t>();
  for (size_t i = 0; i < ids.at("plain").size(); ++i, index += ids.at("step").get<size_t>()) {
    const Json& node = ids.at("decoded")[i].is_null() ? strings.at(index) : ids.at("decoded")[i];
    const auto tokens = ids.at("plain")[i].get<std::vector<TokenId>>();
    const std::string decoded = utf8_replace_invalid(tokenizer->decode(tokens, false));
    EXPECT_EQ(decoded, node.get<std::string>()) << GetParam() << " " << Json(tokens);
    StreamDecoder stream(*tokenizer, false);  // C7
    std::string streamed;
    for (const TokenId id : tokens) streamed += stream.push(id);
    EXPECT_EQ(streamed + stream.finish(), decoded);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerJsonParity,
                         testing::Values("llama3_like", "qwen2_like", "gpt2_like", "tekken_like",
                                         "llama2_like", "metaspace_like", "behaviours_like",
                                         "whitespace_like"),
                         [](const auto& param) { return std::string(param.param); });

// A small document that tests break in many ways.
Json small_document() {
  return parse_json(R"({
    "added_tokens": [{"id": 5, "content": "<s>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]}}},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "aba": 3, "c": 4},
              "merges": ["a b", ["ab", "a"]]}
  })",
                    "document");
}

TEST(TokenizerJson, SmallDocumentMerges) {
  const auto tokenizer = tokenizer_from_json(small_document(), {});
  EXPECT_EQ(tokenizer->encode("abacab", false), (std::vector<TokenId>{5, 3, 4, 2}));
  EXPECT_EQ(tokenizer->vocab_size(), 6);
  EXPECT_EQ(tokenizer->bos(), 5);
}

// B1: whether the text brings its BOS or not, there is one.
TEST(TokenizerJson, BosComesOnceB1) {
  const auto tokenizer = tokenizer_from_json(small_document(), {});
  EXPECT_EQ(tokenizer->encode("a", true), (std::vector<TokenId>{5, 0}));
  EXPECT_EQ(tokenizer->encode("<s>a", true), (std::vector<TokenId>{5, 0}));
  EXPECT_EQ(tokenizer->encode("", true), (std::vector<TokenId>{5}));
  HfSettings settings;
  settings.add_bos = false;
  EXPECT_EQ(tokenizer_from_json(small_document(), settings)->encode("a", true),
            (std::vector<TokenId>{0}));
}

void expect_error(const Json& document, ErrorCode code, const std::string& part) {
  try {
    tokenizer_from_json(document, {});
    FAIL() << "no error, expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(TokenizerJson, BrokenDocumentsAreNamed) {
  struct Case {
    const char* pointer;
    const char* value;
    ErrorCode code;
    const char* part;
  };
  const Case cases[] = {
      {"/model", "null", ErrorCode::kCorrupt, "model"},
      {"/model", "[]", ErrorCode::kCorrupt, "model"},
      {"/model/type", "\"Unigram\"", ErrorCode::kUnsupported, "Unigram"},
      {"/model/type", "7", ErrorCode::kCorrupt, "type"},
      {"/model/vocab", "{}", ErrorCode::kCorrupt, "far beyond"},
      {"/model/vocab", "[]", ErrorCode::kCorrupt, "vocab"},
      {"/model/vocab/a", "-1", ErrorCode::kCorrupt, "\"a\""},
      {"/model/vocab/a", "2147483647", ErrorCode::kCorrupt, "\"a\""},
      {"/model/vocab/a", "18446744073709551615", ErrorCode::kCorrupt, "\"a\""},
      {"/model/vocab/a", "1.5", ErrorCode::kCorrupt, "\"a\""},
      {"/model/vocab/a", "1000000", ErrorCode::kCorrupt, "far beyond"},
      {"/model/vocab/a", "1", ErrorCode::kCorrupt, "share the id 1"},
      {"/model/merges", "[\"a x\"]", ErrorCode::kCorrupt, "\"x\""},
      {"/model/merges", "[\"a c\"]", ErrorCode::kCorrupt, "merge 0"},
      {"/model/merges", "[\"ab\"]", ErrorCode::kCorrupt, "\"ab\""},
      {"/model/merges", "[\"a b c\"]", ErrorCode::kCorrupt, "a b c"},
      {"/model/merges", "[[\"a\"]]", ErrorCode::kCorrupt, "merge 0"},
      {"/model/merges", "{}", ErrorCode::kCorrupt, "merges"},
      {"/model/unk_token", "\"nope\"", ErrorCode::kCorrupt, "nope"},
      {"/model/end_of_word_suffix", "\"</w>\"", ErrorCode::kUnsupported, "end_of_word_suffix"},
      {"/model/byte_fallback", "3", ErrorCode::kCorrupt, "byte_fallback"},
      {"/added_tokens/0/id", "4", ErrorCode::kCorrupt, "contradicts"},
      {"/added_tokens/0/content", "\"c\"", ErrorCode::kCorrupt, "contradicts"},
      {"/added_tokens/0/id", "null", ErrorCode::kCorrupt, "<s>"},
      {"/added_tokens/0/content", "3", ErrorCode::kCorrupt, "content"},
      {"/added_tokens", "{}", ErrorCode::kCorrupt, "added_tokens"},
      {"/normalizer", "{\"type\":\"Precompiled\"}", ErrorCode::kUnsupported, "Precompiled"},
      {"/pre_tokenizer", "{\"type\":\"UnicodeScripts\"}", ErrorCode::kUnsupported,
       "UnicodeScripts"},
      {"/pre_tokenizer", "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"}}",
       ErrorCode::kUnsupported, "compile"},
      {"/pre_tokenizer", "\"ByteLevel\"", ErrorCode::kCorrupt, "type"},
      {"/post_processor", "{\"type\":\"Odd\"}", ErrorCode::kUnsupported, "Odd"},
      {"/post_processor/special_tokens", "{}", ErrorCode::kCorrupt, "<s>"},
      {"/post_processor/special_tokens/<s>/ids", "[6]", ErrorCode::kCorrupt, "6"},
      {"/decoder", "{\"type\":\"CTC\"}", ErrorCode::kUnsupported, "CTC"},
  };
  for (const Case& c : cases) {
    Json document = small_document();
    document[Json::json_pointer(c.pointer)] = parse_json(c.value, "value");
    // An empty vocabulary may still hold added tokens, but its merges then name nothing.
    if (std::string(c.pointer) == "/model/vocab" && std::string(c.value) == "{}") {
      document["added_tokens"] = Json::array();
      expect_error(document, ErrorCode::kCorrupt, "empty");
      continue;
    }
    SCOPED_TRACE(std::string(c.pointer) + " = " + c.value);
    expect_error(document, c.code, c.part);
  }
}

// Steps that double the text thirty times end in an error.
TEST(TokenizerJson, RunawayNormalizersAreStopped) {
  Json document = small_document();
  Json steps = Json::array();
  for (int i = 0; i < 30; ++i) {
    steps.push_back(
        parse_json(R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"})", "step"));
  }
  document["normalizer"] = Json{{"type", "Sequence"}, {"normalizers", steps}};
  const auto tokenizer = tokenizer_from_json(document, {});
  EXPECT_THROW(tokenizer->encode("a", false), Error);
  EXPECT_EQ(tokenizer->encode("b", false, kPlain), std::vector<TokenId>{1});
}

// Every prefix of a document fails to parse or to load, and says so.
TEST(TokenizerJson, TruncatedDocumentsFail) {
  const std::string text = small_document().dump();
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_THROW(tokenizer_from_json(parse_json(text.substr(0, size), "document"), {}), Error);
  }
}

// B3: added tokens that are not special are one id in anybody's text.
TEST(TokenizerJson, UserDefinedTokensAreOneIdB3) {
  const auto tokenizer = load_fixture("qwen2_like");
  for (const char* text : {"<think>", "</think>", "<tool_call>", "</tool_call>"}) {
    EXPECT_EQ(tokenizer->encode(text, false, kPlain), std::vector<TokenId>{*tokenizer->find(text)});
    EXPECT_FALSE(tokenizer->is_control(*tokenizer->find(text)));
  }
}

// Where spans are cut does not matter, except for control tokens.
TEST(TokenizerJson, SpansAreJoinedBeforeSplitting) {
  const auto tokenizer = load_fixture("llama3_like");
  const std::string text = "The water is high</s> and brown<|eot_id|> in 1234";
  const auto whole = tokenizer->encode(text, true);
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const std::vector<TextSpan> spans = {{text.substr(0, cut), true}, {text.substr(cut), true}};
    EXPECT_EQ(tokenizer->encode(spans, {}), whole) << cut;
    const std::vector<TextSpan> users = {{text.substr(0, cut), false}, {text.substr(cut), false}};
    EXPECT_EQ(tokenizer->encode(users, {}), tokenizer->encode(text, false)) << cut;
  }
  // B2: half of a control token from the template and half from the user is none.
  const std::vector<TextSpan> halves = {{"<|eot", true}, {"_id|>", false}};
  EXPECT_EQ(tokenizer->encode(halves, {}), tokenizer->encode("<|eot_id|>", false));
}

TEST(TokenizerJson, InvalidUtf8KeepsItsBytes) {
  const std::string text = "a\xFF\xC3 b\xE2\x82";
  for (const char* name : {"qwen2_like", "llama2_like"}) {
    const auto tokenizer = load_fixture(name);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, false, kPlain), false), text) << name;
  }
}

// B6: long runs take linear time in every kind of tokenizer.
TEST_P(TokenizerJsonParity, LongRunsAreTokenizedB6) {
  const auto tokenizer = load_fixture(GetParam());
  for (const std::string unit : {"a", " ", "\n", "😀", "1", "\xCC\x81\xCC\xA3"}) {
    std::string text;
    while (text.size() < 60'000) text += unit;
    EXPECT_GE(tokenizer->encode(text, false).size(), 0U);
  }
}

TEST(TokenizerJson, IdsOutsideTheVocabularyAreErrors) {
  const auto tokenizer = load_fixture("qwen2_like");
  for (const TokenId id : {-1, tokenizer->vocab_size(), 0x7FFFFFFF}) {
    EXPECT_THROW(tokenizer->token_bytes(id), Error);
    EXPECT_THROW(tokenizer->decode(std::vector<TokenId>{id}, true), Error);
    EXPECT_THROW(tokenizer->is_control(id), Error);
  }
}

}  // namespace
}  // namespace clover
