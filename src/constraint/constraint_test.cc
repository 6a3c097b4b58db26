// SPDX-License-Identifier: Apache-2.0
// Constraints over tokens: which may come, and how a state follows them.
#include "constraint/constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "constraint/constraint_cache.h"
#include "constraint/json_schema.h"
#include "constraint/pieces_tokenizer_for_tests.h"

namespace clover {
namespace {

const PiecesTokenizer& pieces() {
  static const PiecesTokenizer tokenizer = PiecesTokenizer::json_like();
  return tokenizer;
}

Constraint constrained(const Json& schema) {
  // The model knows a few ids more than the tokenizer has texts.
  static const auto words = std::make_shared<TokenWords>(pieces(), pieces().vocab_size() + 9);
  return {compile_json_schema(schema), words};
}

std::vector<Json> schemas() {
  std::ifstream file(std::string(CLOVER_SOURCE_DIR) + "/tests/data/constraint/cases.json");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::vector<Json> all = {
      {{"type", "object"}},
      Json::object(),
      {{"type", "string"}, {"minLength", 3}, {"maxLength", 60}},
      {{"type", "string"}, {"maxLength", 4}},
      {{"type", "number"}, {"minimum", -1}},
      parse_json(R"({"properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,
        "maximum":130},"tags":{"type":"array","items":{"enum":["a","ab","é"]},"maxItems":3}},
        "required":["name","tags"],"additionalProperties":{"type":"boolean"}})",
                 "a schema")};
  for (const Json& one : parse_json(text, "cases.json")) all.push_back(one.at("schema"));
  return all;
}

bool allows(const std::vector<uint64_t>& mask, int32_t token) {
  return (mask[static_cast<size_t>(token) / 64] >> (token % 64) & 1) != 0;
}

std::vector<int32_t> tokens_of(const std::vector<uint64_t>& mask, int32_t vocab) {
  std::vector<int32_t> tokens;
  for (int32_t token = 0; token < vocab; ++token)
    if (allows(mask, token)) tokens.push_back(token);
  return tokens;
}

// A random token for a while, then whatever leads to the end.
int32_t choose(const std::vector<int32_t>& tokens, uint64_t bits, bool to_end) {
  if (!to_end) return tokens[bits % tokens.size()];
  for (const int32_t wanted : {256, int('"'), int('}'), int(']'), int(':'), int('n'), int('0')})
    if (std::ranges::find(tokens, wanted) != tokens.end()) return wanted;
  return tokens.front();
}

// The mask is what every token alone says, in every state that random texts come through.
TEST(Constraint, TheMaskIsWhatEveryTokenAloneSays) {
  uint64_t walk = 0;
  for (const Json& schema : schemas()) {
    const Constraint constraint = constrained(schema);
    const int32_t vocab = constraint.words().vocab();
    ConstraintState state = constraint.start();
    std::vector<uint64_t> mask;
    ++walk;
    for (uint64_t step = 0; step < 25 && !state.ended; ++step) {
      constraint.allowed(state, mask);
      for (int32_t token = 0; token < vocab; ++token) {
        ConstraintState copy = state;
        ASSERT_EQ(constraint.advance(copy, token), allows(mask, token))
            << schema.dump() << " step " << step << " token " << token;
      }
      const std::vector<int32_t> tokens = tokens_of(mask, vocab);
      ASSERT_FALSE(tokens.empty()) << schema.dump();
      ASSERT_TRUE(constraint.advance(state, choose(tokens, random_bits(walk, step), false)));
    }
  }
}

// No way leads nowhere: every text can be ended, and is JSON then. End-of-text tokens come where
// the value is whole, and nothing comes behind them.
TEST(Constraint, EveryTextCanBeEnded) {
  uint64_t walk = 1000;
  for (const Json& schema : schemas()) {
    const Constraint constraint = constrained(schema);
    for (uint64_t length : {0, 3, 10, 60}) {
      ++walk;
      ConstraintState state = constraint.start();
      std::vector<int32_t> ids;
      std::vector<uint64_t> mask;
      while (!state.ended) {
        constraint.allowed(state, mask);
        EXPECT_EQ(allows(mask, 256), constraint.complete(state));
        EXPECT_EQ(allows(mask, 257), constraint.complete(state));
        const std::vector<int32_t> tokens = tokens_of(mask, constraint.words().vocab());
        ASSERT_FALSE(tokens.empty()) << schema.dump() << pieces().decode(ids, true);
        ids.push_back(choose(tokens, random_bits(walk, ids.size()), ids.size() >= length));
        ASSERT_LT(ids.back(), pieces().vocab_size());
        ASSERT_TRUE(constraint.advance(state, ids.back()));
        ASSERT_LT(ids.size(), 2000U) << schema.dump() << pieces().decode(ids, true);
      }
      const std::string text = pieces().decode(ids, true);
      EXPECT_TRUE(Json::accept(text)) << text;
      constraint.allowed(state, mask);
      EXPECT_TRUE(tokens_of(mask, constraint.words().vocab()).empty());
      EXPECT_FALSE(constraint.advance(state, 256));
    }
  }
}

// D10: a state is the same however its text was cut into tokens, and trying tokens on a copy leaves
// it as it was.
TEST(Constraint, AStateDependsOnTheTextAloneD10) {
  const Constraint constraint = constrained(
      parse_json(R"({"properties":{"name":{"type":"string"},"age":{"type":"integer"}}})", "it"));
  const std::string text = R"({"name": "hello world", "age": 12)";
  ConstraintState bytes = constraint.start();
  for (const char c : text) ASSERT_TRUE(constraint.advance(bytes, static_cast<uint8_t>(c)));
  ConstraintState cut = constraint.start();
  for (size_t at = 0; at < text.size();) {
    int32_t longest = static_cast<uint8_t>(text[at]);
    for (int32_t token = 258; token < pieces().vocab_size(); ++token)
      if (text.substr(at).starts_with(pieces().token_bytes(token)) &&
          pieces().token_bytes(token).size() > pieces().token_bytes(longest).size())
        longest = token;
    const ConstraintState before = cut;
    ConstraintState tried = cut;
    for (int32_t token = 0; token < pieces().vocab_size(); ++token) {
      tried = cut;
      constraint.advance(tried, token);
      ASSERT_EQ(cut, before);
    }
    ASSERT_TRUE(constraint.advance(cut, longest));
    at += pieces().token_bytes(longest).size();
  }
  EXPECT_EQ(cut, bytes);
}

TEST(Constraint, ControlTokensAndIdsOutsideAreNoText) {
  const Constraint constraint = constrained({{"type", "string"}});
  ConstraintState state = constraint.start();
  ASSERT_TRUE(constraint.advance(state, '"'));
  for (const int32_t token : {-1, 256, 257, pieces().vocab_size(), 1 << 30}) {
    ConstraintState copy = state;
    EXPECT_FALSE(constraint.advance(copy, token)) << token;
  }
  // The same characters as an ordinary token are text.
  ConstraintState copy = state;
  const int32_t piece = [] {
    for (int32_t token = 258; token < pieces().vocab_size(); ++token)
      if (pieces().token_bytes(token) == "<|end|") return token;
    return -1;
  }();
  EXPECT_TRUE(constraint.advance(copy, piece));
  EXPECT_FALSE(copy.ended);
}

TEST(ConstraintCache, KeepsTheLastOnes) {
  ConstraintCache cache(pieces(), pieces().vocab_size());
  const Json schema = {{"type", "integer"}};
  const auto first = cache.find(schema);
  EXPECT_EQ(cache.find(schema), first);
  for (int i = 0; i < 20; ++i) {
    cache.find({{"const", i}});
    if (i < 10) cache.find(schema);  // what is asked for stays
    EXPECT_TRUE(i != 10 || cache.find(schema) == first);
  }
  EXPECT_THROW(cache.find({{"pattern", "x"}}), Error);
  ConstraintState state = first->start();  // one that was dropped still serves whoever has it
  EXPECT_TRUE(first->advance(state, '1'));
  EXPECT_TRUE(first->complete(state));
}

// Masks that were found are kept, and dropped when there are too many; both change nothing.
TEST(Constraint, KeptMasksChangeNothing) {
  const Json schema = {{"type", "array"}, {"maxItems", 1000000}};
  const Constraint kept = constrained(schema);
  ConstraintState state = kept.start();
  ASSERT_TRUE(kept.advance(state, '['));
  std::vector<uint64_t> mask;
  std::vector<uint64_t> again;
  for (int i = 0; i < 3000; ++i) {  // every count of items is a state of its own
    kept.allowed(state, mask);
    if (i % 100 == 0) {
      constrained(schema).allowed(state, again);
      ASSERT_EQ(mask, again);
    }
    ASSERT_TRUE(kept.advance(state, '1'));
    ASSERT_TRUE(kept.advance(state, ','));
  }
}

}  // namespace
}  // namespace clover
