// SPDX-License-Identifier: Apache-2.0
// The default model: what it says, and the bits of its rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "engine/engine_fixtures.h"

namespace clover {
namespace {

using namespace engine_testing;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Checkpoint& checkpoint() {
  static const std::unique_ptr<Checkpoint> opened =
      open_checkpoint(CLOVER_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf");
  return *opened;
}

const Tokenizer& tokenizer() {
  static const std::unique_ptr<Tokenizer> loaded = load_tokenizer(checkpoint());
  return *loaded;
}

std::shared_ptr<const Model> load(int threads, const std::string& isa = "auto") {
  return Model::load(checkpoint(), make_cpu_backend({.threads = threads, .isa = isa}));
}

const std::shared_ptr<const Model>& shared_model() {
  static const std::shared_ptr<const Model> model = load(2);
  return model;
}

std::vector<TokenId> question(const std::string& text) {
  const std::vector<TextSpan> spans = {
      {"<|im_start|>user\n", true}, {text, false}, {"<|im_end|>\n<|im_start|>assistant\n", true}};
  return tokenizer().encode(spans, {});
}

Request greedy(const std::string& text, int64_t max_tokens) {
  return make_request(question(text), max_tokens);
}

TEST(SmolLm2, AnswersAFixedQuestion) {
  const Answer answer = run_alone(shared_model(), tokenizer(),
                                  greedy("What is the capital of France?", 60), {.context = 256});
  EXPECT_THAT(answer.text, HasSubstr("Paris"));
  EXPECT_EQ(answer.finish, FinishReason::kStop);
  EXPECT_TRUE(tokenizer().is_control(answer.ids.back()));
  EXPECT_THAT(answer.text, ::testing::Not(HasSubstr("<|im_end|>")));
  EXPECT_THAT(answer.faults, IsEmpty());
}

// C4, C7 with a real vocabulary: emoji come in pieces; the stream joins to the whole.
TEST(SmolLm2, StreamsWholeCharacters) {
  Request request = greedy("Repeat exactly: 🍀 日本語 é", 40);
  const Answer answer = run_alone(shared_model(), tokenizer(), request, {.context = 256});
  EXPECT_THAT(answer.faults, IsEmpty());
  EXPECT_EQ(answer.text, utf8_replace_invalid(tokenizer().decode(answer.ids, true)));
  EXPECT_EQ(answer.pieces > 1, true);
}

TEST(SmolLm2, EndsAtAStopString) {
  Request request = greedy("What is the capital of France?", 60);
  request.stop = {"Paris"};
  request.top_logprobs = 3;
  const Answer answer = run_alone(shared_model(), tokenizer(), request, {.context = 256});
  EXPECT_EQ(answer.finish, FinishReason::kStop);
  EXPECT_THAT(answer.text, ::testing::Not(HasSubstr("Paris")));
  EXPECT_THAT(answer.text, HasSubstr("capital"));
  EXPECT_THAT(utf8_replace_invalid(tokenizer().decode(answer.ids, true)), HasSubstr(answer.text));
  for (const OutputToken& token : answer.tokens) EXPECT_EQ(token.top.size(), 3U);
}

// A10, D9, D14, E3.
TEST(SmolLm2, EightAtOnceEqualEachAlone) {
  const char* questions[] = {"Hi!",
                             "Name three colours.",
                             "What is 2+2?",
                             "Why is the sky blue?",
                             "Write a line of Python.",
                             "Who are you?",
                             "Say nothing.",
                             "Count from one to ten, slowly, and tell me what you think of it."};
  Engine engine(shared_model(), tokenizer(),
                {.context = 128, .max_sequences = 6, .prefill_rows = 13});
  std::vector<Request> requests;
  std::vector<Answer> together(8);
  for (size_t i = 0; i < 8; ++i) {
    Request request = greedy(questions[i], 4 + 2 * static_cast<int64_t>(i));
    request.sampling.temperature = i % 2 ? 0.8f : 0.0f;
    request.sampling.seed = i;
    request.top_logprobs = 1;
    requests.push_back(request);
    submit(engine, request, together[i]);
    engine.step();
  }
  engine.run();
  for (size_t i = 0; i < 8; ++i)
    EXPECT_TRUE(same_answer(together[i],
                            run_alone(shared_model(), tokenizer(), requests[i], {.context = 128})))
        << questions[i];
}

// Rows of one sequence after `committed` tokens that are already stored.
std::vector<std::vector<float>> pass(const Model& model, KvStore& kv, int64_t committed,
                                     std::span<const int32_t> blocks,
                                     const std::vector<TokenId>& tokens,
                                     const std::vector<int32_t>& parents) {
  Batch batch;
  batch.tokens = tokens;
  batch.parents = parents;
  batch.wants_logits.assign(tokens.size(), 1);
  batch.sequences.push_back({blocks, committed, 0, static_cast<int64_t>(tokens.size())});
  const ForwardResult result = model.forward(batch, kv);
  std::vector<std::vector<float>> rows;
  for (int64_t r = 0; r < result.logits.rows(); ++r)
    rows.emplace_back(result.logits.row(r), result.logits.row(r) + model.config().vocab);
  return rows;
}

std::vector<int32_t> chain_parents(size_t rows) {
  std::vector<int32_t> parents(rows);
  std::iota(parents.begin(), parents.end(), -1);
  return parents;
}

class Rows {
 public:
  Rows(const Model& model, size_t blocks) : model_(model), blocks_(blocks) {
    std::iota(blocks_.rbegin(), blocks_.rend(), 0);
    kv_ = model.backend().make_kv_store(model.kv_shape(static_cast<int64_t>(blocks), DType::kF16));
  }
  // Reads tokens in chunks and returns the logits of all of them.
  std::vector<std::vector<float>> read(const std::vector<TokenId>& tokens, size_t chunk) {
    std::vector<std::vector<float>> all;
    for (size_t at = 0; at < tokens.size(); at += chunk) {
      const auto end = std::min(tokens.size(), at + chunk);
      const std::vector<TokenId> part(tokens.begin() + static_cast<int64_t>(at),
                                      tokens.begin() + static_cast<int64_t>(end));
      for (auto& row : tree(static_cast<int64_t>(at), part, chain_parents(part.size())))
        all.push_back(std::move(row));
    }
    return all;
  }
  std::vector<std::vector<float>> tree(int64_t committed, const std::vector<TokenId>& tokens,
                                       const std::vector<int32_t>& parents) {
    return pass(model_, *kv_, committed, blocks_, tokens, parents);
  }

 private:
  const Model& model_;
  std::vector<int32_t> blocks_;
  std::unique_ptr<KvStore> kv_;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

const std::vector<TokenId>& text() {
  static const std::vector<TokenId> ids = tokenizer().encode(
      "The four leaves of a clover stand for hope, faith, love and luck.", false);
  return ids;
}

// The same row by every way that leads to it: alone, in chunks, among 2 … 16 rows.
TEST(SmolLm2, ARowIsTheSameAloneAndAmongOthersA1) {
  const std::vector<TokenId> tokens(text().begin(), text().begin() + 16);
  for (const int threads : {1, 2}) {
    SCOPED_TRACE(threads);
    const auto model = load(threads);
    const auto alone = Rows(*model, 2).read(tokens, 1);
    for (size_t chunk = 2; chunk <= 16; ++chunk) {
      const auto rows = Rows(*model, 2).read(tokens, chunk);
      ASSERT_EQ(rows.size(), alone.size());
      for (size_t r = 0; r < rows.size(); ++r)
        EXPECT_TRUE(same_bits(rows[r], alone[r])) << "chunk " << chunk << ", row " << r;
    }
  }
}

// Every node of a tree equals the end of its path as a chain (A9).
TEST(SmolLm2, ANodeOfATreeEqualsItsPathA9) {
  const Model& model = *shared_model();
  const std::vector<TokenId> prefix(text().begin(), text().begin() + 7);
  const std::vector<TokenId> nodes = {300, 12, 4000, 900, 12, 777, 31, 5};
  const std::vector<int32_t> parents = {-1, 0, 0, 1, 2, 2, 4, 3};
  Rows rows(model, 2);
  rows.read(prefix, 16);
  const auto logits = rows.tree(7, nodes, parents);
  for (size_t node = 0; node < nodes.size(); ++node) {
    std::vector<TokenId> path;
    for (auto n = static_cast<int32_t>(node); n >= 0; n = parents[static_cast<size_t>(n)])
      path.insert(path.begin(), nodes[static_cast<size_t>(n)]);
    std::vector<TokenId> chain = prefix;
    chain.insert(chain.end(), path.begin(), path.end());
    EXPECT_TRUE(same_bits(logits[node], Rows(model, 2).read(chain, 16).back())) << node;
  }
}

// A1, F13: all instruction sets give the same bits. Few tokens: the reference is slow.
TEST(SmolLm2, EveryInstructionSetGivesTheSameBits) {
  const std::vector<TokenId> tokens(text().begin(), text().begin() + 5);
  const auto expected = Rows(*shared_model(), 1).read(tokens, 5);
  for (const std::string& isa : cpu_isas()) {
    SCOPED_TRACE(isa);
    const auto model = load(2, isa);
    Rows rows(*model, 1);
    const auto first = rows.read({tokens.begin(), tokens.begin() + 3}, 3);
    for (size_t r = 0; r < 3; ++r) EXPECT_TRUE(same_bits(first[r], expected[r])) << r;
    // The fourth and fifth token, and a sibling of the fourth, as a tree.
    const auto tree = rows.tree(3, {tokens[3], 99, tokens[4]}, {-1, -1, 0});
    EXPECT_TRUE(same_bits(tree[0], expected[3]));
    EXPECT_TRUE(same_bits(tree[2], expected[4]));
  }
}

}  // namespace
}  // namespace clover
