// SPDX-License-Identifier: Apache-2.0
#include "backend/torch/torch_attention.h"

#include <algorithm>
#include <limits>
#include <span>

namespace clover {
namespace {

using Sequence = AttentionPlan::Sequence;

size_t index(int64_t i) { return static_cast<size_t>(i); }

int64_t address(const Sequence& sequence, int64_t slot) {
  return sequence.blocks[index(slot / kKvBlockTokens)] * kKvBlockTokens + slot % kKvBlockTokens;
}

at::Tensor on_device(const std::vector<int64_t>& values, const at::Tensor& like) {
  return at::tensor(values, at::kLong).to(like.device());
}

at::Tensor row_addresses(const AttentionPlan& plan, const at::Tensor& like) {
  std::vector<int64_t> addresses(plan.slot.size());
  for (const Sequence& s : plan.sequences)
    for (int64_t r = s.first_row; r < s.first_row + s.rows; ++r)
      addresses[index(r)] = address(s, plan.slot[index(r)]);
  return on_device(addresses, like);
}

// Whether the rows are a whole prompt from its first token on, so that they see one another only.
bool is_whole_prompt(const AttentionPlan& plan, const Sequence& s) {
  for (int64_t i = 0; i < s.rows; ++i) {
    const size_t r = index(s.first_row + i);
    if (plan.slot[r] != i || plan.linear_len[r] != i + 1 ||
        plan.tail_begin[r] != plan.tail_begin[r + 1])
      return false;
  }
  return true;
}

int64_t slots_seen(const AttentionPlan& plan, const Sequence& s) {
  int64_t slots = 0;
  for (int64_t r = s.first_row; r < s.first_row + s.rows; ++r) {
    slots = std::max(slots, plan.linear_len[index(r)]);
    for (int64_t i = plan.tail_begin[index(r)]; i < plan.tail_begin[index(r + 1)]; ++i)
      slots = std::max(slots, plan.tail[index(i)] + 1);
  }
  return slots;
}

// What is added to the products of a sequence's rows with its slots: minus infinity outside a row's
// path, ALiBi's bias on it. [1 or H, rows, slots]
at::Tensor path_bias(const AttentionPlan& plan, const Sequence& s, int64_t slots,
                     const AttentionParams& params) {
  const std::span<const float> slopes = params.alibi_slopes;
  const auto planes = std::max<int64_t>(static_cast<int64_t>(slopes.size()), 1);
  at::Tensor bias = at::full({planes, s.rows, slots}, -std::numeric_limits<float>::infinity());
  float* out = bias.data_ptr<float>();
  const auto see = [&](int64_t row, int64_t slot, int64_t key) {
    const int64_t own = plan.position[index(s.first_row + row)];
    if (params.window > 0 && own - key >= params.window) return;
    for (int64_t plane = 0; plane < planes; ++plane)
      out[(plane * s.rows + row) * slots + slot] =
          slopes.empty() ? 0.0f : slopes[index(plane)] * static_cast<float>(key - own);
  };
  for (int64_t row = 0; row < s.rows; ++row) {
    const size_t r = index(s.first_row + row);
    const int64_t linear = plan.linear_len[r];
    for (int64_t slot = 0; slot < linear; ++slot) see(row, slot, slot);
    for (int64_t i = plan.tail_begin[r]; i < plan.tail_begin[r + 1]; ++i)
      see(row, plan.tail[index(i)], linear + i - plan.tail_begin[r]);
  }
  return bias;
}

at::Tensor heads_first(const at::Tensor& rows, int64_t heads, int64_t head_dim) {
  return rows.reshape({1, rows.size(0), heads, head_dim}).transpose(1, 2);
}

}  // namespace

at::Tensor torch_attention(const AttentionRows& rows, TorchKvStore& kv, int64_t layer,
                           const AttentionPlan& plan, const AttentionParams& p) {
  kv.store(layer, row_addresses(plan, rows.q), rows.k, rows.v);
  const at::Tensor own_k = kv.rounded(rows.k);
  const at::Tensor own_v = kv.rounded(rows.v);
  std::vector<at::Tensor> outs;
  for (const Sequence& s : plan.sequences) {
    const at::Tensor q = heads_first(rows.q.narrow(0, s.first_row, s.rows), p.heads, p.head_dim);
    const bool causal = p.window == 0 && p.alibi_slopes.empty() && is_whole_prompt(plan, s);
    at::Tensor keys, values;
    std::optional<at::Tensor> bias;
    if (causal) {
      keys = own_k.narrow(0, s.first_row, s.rows);
      values = own_v.narrow(0, s.first_row, s.rows);
    } else {
      const int64_t slots = slots_seen(plan, s);
      std::vector<int64_t> addresses(index(slots));
      for (int64_t slot = 0; slot < slots; ++slot) addresses[index(slot)] = address(s, slot);
      std::tie(keys, values) = kv.load(layer, on_device(addresses, rows.q));
      bias = path_bias(plan, s, slots, p).to(rows.q.options()).unsqueeze(0);
    }
    const at::Tensor attended = at::scaled_dot_product_attention(
        q, heads_first(keys, p.kv_heads, p.head_dim), heads_first(values, p.kv_heads, p.head_dim),
        bias, 0.0, causal, static_cast<double>(p.scale), p.kv_heads != p.heads);
    outs.push_back(attended.transpose(1, 2).reshape({s.rows, p.heads * p.head_dim}));
  }
  return outs.size() == 1 ? outs.front() : at::cat(outs);
}

}  // namespace clover
