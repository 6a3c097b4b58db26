// SPDX-License-Identifier: Apache-2.0
// Row independence (A1, A9, A10): the bits of a row depend on its own path alone.
#include <gtest/gtest.h>

#include "base/random.h"
#include "model_fixtures.h"

namespace clover {
namespace {

using namespace testing_support;

struct Setting {
  std::string name;
  DType kv_type = DType::kF16;
  std::string label() const { return name + "_" + std::string(dtype_name(kv_type)); }
};
void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.label(); }

class RowIndependence : public ::testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    checkpoint_ = open_tiny(GetParam().name);
    tokens_ = read_expected(GetParam().name).tokens;
    tokens_.resize(std::min<size_t>(tokens_.size(), 75));
  }
  std::shared_ptr<const Model> load(const std::string& isa, int threads = 1) const {
    return Model::load(*checkpoint_, backend_for(isa, threads));
  }
  PassRows prompt(const Model& model, std::span<const int32_t> tokens, int64_t chunk) const {
    return run_prompt(model, tokens, GetParam().kv_type, chunk);
  }
  std::unique_ptr<KvStore> make_kv(const Model& model, int64_t blocks) const {
    return model.backend().make_kv_store(model.kv_shape(blocks, GetParam().kv_type));
  }

  std::unique_ptr<Checkpoint> checkpoint_;
  std::vector<int32_t> tokens_;
};

void expect_same(const PassRows& a, const PassRows& b) {
  EXPECT_TRUE(same_bits(a.hidden, b.hidden));
  EXPECT_TRUE(same_bits(a.logits, b.logits));
}

TEST_P(RowIndependence, AnyChunkingThreadsAndInstructionSet) {
  const auto first = load(cpu_isas().front());
  const PassRows whole = prompt(*first, tokens_, 512);
  for (const std::string& isa : cpu_isas()) {
    SCOPED_TRACE(isa);
    const auto model = load(isa);
    for (const int64_t chunk : {1, 2, 3, 7, 16, 33, 512}) {
      SCOPED_TRACE(chunk);
      expect_same(prompt(*model, tokens_, chunk), whole);
    }
    const auto threaded = load(isa, 2);
    expect_same(prompt(*threaded, tokens_, 20), whole);
    expect_same(prompt(*threaded, tokens_, 512), whole);
  }
}

// Parents of a random tree (or forest): any earlier row, or the committed end.
std::vector<int32_t> random_tree(int32_t rows, uint64_t seed) {
  std::vector<int32_t> parents(static_cast<size_t>(rows));
  for (int32_t r = 0; r < rows; ++r) {
    const double u = random_uniform(stream_key(seed, 0), static_cast<uint64_t>(r));
    parents[static_cast<size_t>(r)] = static_cast<int32_t>(u * (r + 1)) - 1;
  }
  return parents;
}

// The tokens on the way to `row`, which is last.
std::vector<int32_t> path_tokens(std::span<const int32_t> tokens, std::span<const int32_t> parents,
                                 int32_t row) {
  std::vector<int32_t> path;
  for (; row >= 0; row = parents[static_cast<size_t>(row)]) {
    path.insert(path.begin(), tokens[static_cast<size_t>(row)]);
  }
  return path;
}

TEST_P(RowIndependence, TreeEqualsItsPathsAsChains) {
  const auto model = load("auto");
  constexpr int64_t kCommitted = 21;
  const auto prefix = std::span<const int32_t>(tokens_).first(kCommitted);
  for (const int32_t size : {2, 5, 25, 33}) {
    SCOPED_TRACE(size);
    const auto kv = make_kv(*model, 5);
    const std::vector<int32_t> blocks = descending_blocks(0, 5);
    Batch start;
    add_chain(start, blocks, 0, prefix);
    run_pass(*model, *kv, start);
    const auto nodes = std::span<const int32_t>(tokens_).subspan(kCommitted, size_t(size));
    const std::vector<int32_t> parents = random_tree(size, 7);
    Batch tree;
    add_sequence(tree, blocks, kCommitted, nodes, parents);
    const PassRows rows = run_pass(*model, *kv, tree);
    for (int32_t r = 0; r < size; ++r) {
      std::vector<int32_t> chain(prefix.begin(), prefix.end());
      const std::vector<int32_t> path = path_tokens(nodes, parents, r);
      chain.insert(chain.end(), path.begin(), path.end());
      const PassRows alone = prompt(*model, chain, 512);
      const int64_t last = static_cast<int64_t>(chain.size()) - 1;
      EXPECT_TRUE(same_bits(rows.hidden_row(r), alone.hidden_row(last))) << "node " << r;
      EXPECT_TRUE(same_bits(rows.logits_row(r), alone.logits_row(last))) << "node " << r;
    }
  }
}

// A drafter's way: one pass per depth, each over its own rows, beside another sequence's.
TEST_P(RowIndependence, TreeSentDepthByDepthEqualsTheTreeInOnePass) {
  const auto model = load("auto");
  constexpr int64_t kCommitted = 21;
  const std::span<const int32_t> tokens = tokens_;
  const std::vector<int32_t> blocks = descending_blocks(0, 4), other = descending_blocks(4, 4);
  const std::vector<int32_t> parents = {-1, -1, 0, 0, 1, 2, 3, 3, 4, 5, 7, 7, 8};
  const std::vector<size_t> cuts = {0, 2, 5, 9, 13};  // depths
  const std::span<const int32_t> nodes = tokens.subspan(kCommitted, parents.size());
  const auto kv = make_kv(*model, 8), kv_whole = make_kv(*model, 8);
  for (KvStore* store : {kv.get(), kv_whole.get()}) {
    Batch start;
    add_chain(start, blocks, 0, tokens.first(kCommitted));
    add_chain(start, other, 0, tokens.subspan(3, 30));
    run_pass(*model, *store, start);
  }
  Batch whole;
  add_sequence(whole, blocks, kCommitted, nodes, parents);
  const PassRows rows = run_pass(*model, *kv_whole, whole);
  for (size_t d = 0; d + 1 < cuts.size(); ++d) {
    Batch level;
    add_chain(level, other, 30, tokens.subspan(40, 3));
    const auto own = nodes.subspan(cuts[d], cuts[d + 1] - cuts[d]);
    add_chain(level, blocks, kCommitted, own);
    level.sequences[1].stored_parents = std::span(parents).first(cuts[d]);
    for (size_t i = 0; i < own.size(); ++i) {
      const int32_t parent = parents[cuts[d] + i];
      level.parents[3 + i] = parent < 0 ? -1 : Batch::stored_row(parent);
    }
    const PassRows part = run_pass(*model, *kv, level);
    for (size_t i = 0; i < own.size(); ++i) {
      const auto row = static_cast<int64_t>(cuts[d] + i);
      const auto part_row = static_cast<int64_t>(3 + i);
      EXPECT_TRUE(same_bits(part.logits_row(part_row), rows.logits_row(row))) << "node " << row;
      EXPECT_TRUE(same_bits(part.hidden_row(part_row), rows.hidden_row(row))) << "node " << row;
    }
  }
}

TEST_P(RowIndependence, SequencesTogetherEqualEachAlone) {
  const auto model = load("auto", 2);
  const std::span<const int32_t> tokens = tokens_;
  // A prompt of 40, a decoding step after 20, a tree of 6 after 33 (across a block's edge).
  const auto kv = make_kv(*model, 12);
  const std::vector<int32_t> a = {11, 0, 5}, b = {2, 9}, c = {1, 10, 4};
  const std::vector<int32_t> parents = {-1, 0, 0, 1, 2, 2};
  Batch start;
  add_chain(start, b, 0, tokens.subspan(1, 20));
  add_chain(start, c, 0, tokens.subspan(2, 33));
  run_pass(*model, *kv, start);
  Batch mixed;
  add_chain(mixed, a, 0, tokens.first(40));
  add_chain(mixed, b, 20, tokens.subspan(21, 1));
  add_sequence(mixed, c, 33, tokens.subspan(35, 6), parents);
  const PassRows together = run_pass(*model, *kv, mixed);

  const PassRows alone_a = prompt(*model, tokens.first(40), 512);
  const PassRows alone_b = prompt(*model, tokens.subspan(1, 21), 512);
  for (int64_t r = 0; r < 40; ++r) {
    EXPECT_TRUE(same_bits(together.logits_row(r), alone_a.logits_row(r))) << "row " << r;
  }
  EXPECT_TRUE(same_bits(together.logits_row(40), alone_b.logits_row(20)));
  for (int32_t r = 0; r < 6; ++r) {
    std::vector<int32_t> chain(tokens.begin() + 2, tokens.begin() + 35);
    const std::vector<int32_t> path = path_tokens(tokens.subspan(35, 6), parents, r);
    chain.insert(chain.end(), path.begin(), path.end());
    const PassRows alone = prompt(*model, chain, 512);
    EXPECT_TRUE(same_bits(together.logits_row(41 + r),
                          alone.logits_row(static_cast<int64_t>(chain.size()) - 1)))
        << "node " << r;
  }
}

TEST_P(RowIndependence, LogitsOfSomeRowsEqualThoseOfAll) {
  const auto model = load("auto");
  const auto kv = make_kv(*model, 2);
  const std::vector<int32_t> blocks = {1, 0};
  Batch batch;
  add_chain(batch, blocks, 0, std::span<const int32_t>(tokens_).first(19));
  const PassRows all = run_pass(*model, *kv, batch);
  batch.wants_logits.assign(19, 0);
  EXPECT_TRUE(run_pass(*model, *kv, batch).logits.empty());
  batch.wants_logits[4] = batch.wants_logits[18] = 1;
  const ForwardResult result = model->forward(batch, *kv);
  ASSERT_EQ(result.logits.rows(), 2);
  EXPECT_EQ(result.logits_row[4], 0);
  EXPECT_EQ(result.logits_row[18], 1);
  EXPECT_EQ(result.logits_row[5], -1);
  const PassRows some = run_pass(*model, *kv, batch);
  EXPECT_TRUE(same_bits(some.logits_row(0), all.logits_row(4)));
  EXPECT_TRUE(same_bits(some.logits_row(1), all.logits_row(18)));
  EXPECT_TRUE(same_bits(some.hidden, all.hidden));
}

// After a tree pass the chosen path is moved into place; what follows is as if it had been a chain.
TEST_P(RowIndependence, CommittedPathContinuesAsAChain) {
  const auto model = load("auto");
  const std::span<const int32_t> tokens = tokens_;
  const std::vector<int32_t> blocks = {3, 1};
  const auto kv = make_kv(*model, 4);
  Batch start, tree, next;
  add_chain(start, blocks, 0, tokens.first(12));
  run_pass(*model, *kv, start);
  const std::vector<int32_t> parents = {-1, 0, 0, 2, 2};
  add_sequence(tree, blocks, 12, tokens.subspan(12, 5), parents);
  run_pass(*model, *kv, tree);
  // Keep rows 0, 2, 4 (slots 12, 14, 16) as slots 12, 13, 14.
  const auto address = [&](int64_t slot) {
    return int64_t{blocks[static_cast<size_t>(slot / kKvBlockTokens)]} * kKvBlockTokens +
           slot % kKvBlockTokens;
  };
  const std::vector<KvStore::Move> moves = {{address(14), address(13)}, {address(16), address(14)}};
  kv->move(moves);
  add_chain(next, blocks, 15, tokens.subspan(17, 3));
  const PassRows rows = run_pass(*model, *kv, next);
  std::vector<int32_t> chain(tokens.begin(), tokens.begin() + 12);
  for (const size_t i : {12, 14, 16, 17, 18, 19}) chain.push_back(tokens[i]);
  const PassRows alone = prompt(*model, chain, 512);
  for (int64_t r = 0; r < 3; ++r) {
    EXPECT_TRUE(same_bits(rows.logits_row(r), alone.logits_row(15 + r))) << "row " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tiny, RowIndependence,
    ::testing::Values(Setting{"llama3", DType::kF16}, Setting{"llama3", DType::kF32},
                      Setting{"mistral", DType::kF16}, Setting{"qwen3", DType::kF16},
                      Setting{"llama_head80", DType::kF16}, Setting{"baichuan_13b", DType::kF16},
                      Setting{"gguf_llama3", DType::kF16}, Setting{"gguf_llama_q8_0", DType::kF16},
                      Setting{"gguf_qwen3_q4_0", DType::kF16},
                      Setting{"gguf_llama_q4_1", DType::kF16},
                      Setting{"gguf_llama_q4_k", DType::kF16}),
    [](const auto& test) { return test.param.label(); });

}  // namespace
}  // namespace clover
