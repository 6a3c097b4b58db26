// SPDX-License-Identifier: Apache-2.0
// Sequences of made-up tokens for the tests of attention.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/test_util.h"

namespace clover {

struct AttentionCase {
  int64_t heads = 2;
  int64_t kv_heads = 1;
  int64_t head_dim = 16;
  DType type = DType::kF16;
  int64_t window = 0;
  bool alibi = false;
  std::string isa = "reference";
  int threads = 1;
};

// A row of a batch: which token (its query, key and value are functions of this number), where it
// is stored, and the slots that it sees, its own last.
struct AttentionRow {
  int64_t token = 0;
  int64_t slot = 0;
  std::vector<int64_t> path;
};
using SequenceRows = std::vector<AttentionRow>;

inline std::vector<int64_t> first_slots(int64_t n) {
  std::vector<int64_t> slots(static_cast<size_t>(n));
  std::iota(slots.begin(), slots.end(), 0);
  return slots;
}

// Tokens [begin, end) of `tokens` as a chain in slots of the same numbers.
inline SequenceRows chain(const std::vector<int64_t>& tokens, int64_t begin, int64_t end) {
  SequenceRows rows;
  for (int64_t i = begin; i < end; ++i)
    rows.push_back({tokens[static_cast<size_t>(i)], i, first_slots(i + 1)});
  return rows;
}

class AttentionWorld {
 public:
  static constexpr int64_t kLayers = 2;
  static constexpr int64_t kBlocks = 96;
  static constexpr int64_t kBlocksPerSequence = 24;

  // On a native backend, or another one.
  explicit AttentionWorld(const AttentionCase& c, std::shared_ptr<Backend> backend = nullptr)
      : case_(c), backend_(backend ? std::move(backend) : make_cpu_backend({c.threads, c.isa})) {
    store_ = backend_->make_kv_store({kLayers, c.kv_heads, c.head_dim, kBlocks, c.type});
    for (int64_t h = 0; h < c.heads; ++h) slopes_.push_back(0.5f / static_cast<float>(h + 1));
    // Blocks lie scattered: sequence s, place i is block (7 + 29 * (s + 4 i)) mod 96.
    for (int64_t s = 0; s < kBlocks / kBlocksPerSequence; ++s) {
      tables_.emplace_back();
      for (int64_t i = 0; i < kBlocksPerSequence; ++i)
        tables_.back().push_back(static_cast<int32_t>((7 + 29 * (s + 4 * i)) % kBlocks));
    }
  }

  // Values of one kind ('q', 'k' or 'v') of a token; `special` overrides them.
  std::vector<float> values(char kind, int64_t token) const {
    const int64_t n = (kind == 'q' ? case_.heads : case_.kv_heads) * case_.head_dim;
    const auto found = special.find({kind, token});
    if (found != special.end()) return std::vector<float>(static_cast<size_t>(n), found->second);
    return Random(static_cast<uint64_t>(token) * 3 + static_cast<uint64_t>(kind)).floats(n, 2.0f);
  }
  std::map<std::pair<char, int64_t>, float> special;

  // Runs one batch of rows of sequences 0, 1, … and returns [R][H * d].
  std::vector<float> run(const std::vector<SequenceRows>& sequences, int64_t layer = 0) {
    AttentionPlan plan;
    plan.tail_begin = {0};
    std::vector<float> q;
    std::vector<float> k;
    std::vector<float> v;
    for (size_t s = 0; s < sequences.size(); ++s) {
      if (sequences[s].empty()) continue;
      plan.sequences.push_back(
          {tables_[s], plan.rows(), static_cast<int64_t>(sequences[s].size())});
      for (const AttentionRow& row : sequences[s]) {
        append(q, values('q', row.token));
        append(k, values('k', row.token));
        append(v, values('v', row.token));
        add_row(plan, row);
      }
    }
    // One wide tensor, as a model has it: the inputs are views of its columns.
    const int64_t q_cols = case_.heads * case_.head_dim;
    const int64_t kv_cols = case_.kv_heads * case_.head_dim;
    Tensor wide = backend_->empty(plan.rows(), q_cols + 2 * kv_cols);
    for (int64_t r = 0; r < plan.rows(); ++r) {
      std::copy_n(q.data() + r * q_cols, q_cols, wide.row(r));
      std::copy_n(k.data() + r * kv_cols, kv_cols, wide.row(r) + q_cols);
      std::copy_n(v.data() + r * kv_cols, kv_cols, wide.row(r) + q_cols + kv_cols);
    }
    return host(*backend_, backend_->attention(backend_->columns(wide, 0, q_cols),
                                               backend_->columns(wide, q_cols, kv_cols),
                                               backend_->columns(wide, q_cols + kv_cols, kv_cols),
                                               *store_, layer, plan, params()));
  }

  AttentionParams params() const {
    AttentionParams p{case_.heads, case_.kv_heads, case_.head_dim, scale(), case_.window, {}};
    if (case_.alibi) p.alibi_slopes = slopes_;
    return p;
  }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(case_.head_dim)); }
  float slope(int64_t head) const {
    return case_.alibi ? slopes_[static_cast<size_t>(head)] : 0.0f;
  }
  int64_t columns() const { return case_.heads * case_.head_dim; }
  int64_t address(size_t sequence, int64_t slot) const {
    return tables_[sequence][static_cast<size_t>(slot / kKvBlockTokens)] * kKvBlockTokens +
           slot % kKvBlockTokens;
  }
  KvStore& store() { return *store_; }
  const std::vector<int32_t>& table(size_t sequence) const { return tables_[sequence]; }

 private:
  static void append(std::vector<float>& to, const std::vector<float>& from) {
    to.insert(to.end(), from.begin(), from.end());
  }
  static void add_row(AttentionPlan& plan, const AttentionRow& row) {
    int64_t linear = 0;
    const auto length = static_cast<int64_t>(row.path.size());
    while (linear < length && row.path[static_cast<size_t>(linear)] == linear) ++linear;
    plan.slot.push_back(row.slot);
    plan.position.push_back(length - 1);
    plan.linear_len.push_back(linear);
    plan.tail.insert(plan.tail.end(), row.path.begin() + linear, row.path.end());
    plan.tail_begin.push_back(static_cast<int64_t>(plan.tail.size()));
  }

  AttentionCase case_;
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<KvStore> store_;
  std::vector<float> slopes_;
  std::vector<std::vector<int32_t>> tables_;
};

// A tree of `nodes` rows below `prompt` committed tokens, each node's parent an earlier node or the
// last committed token. Token numbers start at `first_token`; slots follow the prompt's.
struct RandomTree {
  SequenceRows rows;
  std::vector<std::vector<int64_t>> tokens;  // of each node's path below the prompt
  RandomTree(int64_t prompt, int64_t nodes, int64_t first_token, uint64_t seed) {
    Random random(seed);
    for (int64_t i = 0; i < nodes; ++i) {
      const int64_t parent = random.between(-1, i);
      AttentionRow row{first_token + i, prompt + i, first_slots(prompt)};
      std::vector<int64_t> path;
      if (parent >= 0) {
        row.path = rows[static_cast<size_t>(parent)].path;
        path = tokens[static_cast<size_t>(parent)];
      }
      row.path.push_back(row.slot);
      path.push_back(row.token);
      rows.push_back(std::move(row));
      tokens.push_back(std::move(path));
    }
  }
};

}  // namespace clover
