// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "backend/cpu/cpu_backend.h"

namespace clover {
namespace {

// Rows of one sequence, against some query heads of one KV head.
struct Task {
  int64_t sequence;
  Range rows;
  int64_t kv_head;
  Range heads;  // of the KV head's H / G
};

// Tiles of up to eight rows share every key they load; fewer where the scores of a tile would
// outgrow the second-level cache.
std::vector<Task> make_tasks(const AttentionPlan& plan, const AttentionParams& params,
                             int threads) {
  constexpr int64_t kScoreFloats = 128 * 1024;
  const int64_t group = params.heads / params.kv_heads;
  std::vector<Task> tasks;
  for (size_t s = 0; s < plan.sequences.size(); ++s) {
    const auto& sequence = plan.sequences[s];
    const int64_t end = sequence.first_row + sequence.rows;
    for (int64_t r = sequence.first_row; r < end;) {
      const int64_t length = plan.position[static_cast<size_t>(r)] + 1;
      const int64_t rows =
          std::min(std::clamp<int64_t>(kScoreFloats / (length * group), 1, 8), end - r);
      for (int64_t g = 0; g < params.kv_heads; ++g)
        tasks.push_back({static_cast<int64_t>(s), {r, r + rows}, g, {0, group}});
      r += rows;
    }
  }
  // Too few tasks to fill the threads evenly: give every query head its own.
  if (static_cast<int64_t>(tasks.size()) >= 4 * threads || group == 1) return tasks;
  std::vector<Task> split;
  for (const Task& task : tasks)
    for (int64_t h = 0; h < group; ++h)
      split.push_back({task.sequence, task.rows, task.kv_head, {h, h + 1}});
  return split;
}

// Infinities and NaN as the largest values, as KernelTable::to_f16 does.
void make_finite(const float* x, int64_t n, float* out) {
  constexpr float kMax = std::numeric_limits<float>::max();
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] < kMax ? std::max(x[i], -kMax) : kMax;
}

}  // namespace

Tensor CpuBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v, KvStore& kv,
                             int64_t layer, const AttentionPlan& plan,
                             const AttentionParams& params) {
  auto& store = static_cast<CpuKvStore&>(kv);
  Tensor out = empty(q.rows(), params.heads * params.head_dim);
  // Rows of a block share cache lines, so neighbours are stored by the same thread.
  for_rows(q.rows(), k.cols() * 2, [&](Range rows) {
    const bool wide = store.shape().type == DType::kF32;
    std::vector<uint16_t> halves(static_cast<size_t>(wide ? 0 : k.cols() * 2));
    std::vector<float> floats(static_cast<size_t>(wide ? k.cols() * 2 : 0));
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const auto sequence = std::upper_bound(
          plan.sequences.begin(), plan.sequences.end(), r,
          [](int64_t row, const AttentionPlan::Sequence& s) { return row < s.first_row; });
      const int64_t slot = plan.slot[static_cast<size_t>(r)];
      const int32_t block = (sequence - 1)->blocks[static_cast<size_t>(slot / kKvBlockTokens)];
      const int64_t address = block * kKvBlockTokens + slot % kKvBlockTokens;
      // A weight of zero has to hide a value, so only finite ones may get in.
      if (wide) {
        make_finite(k.row(r), k.cols(), floats.data());
        make_finite(v.row(r), v.cols(), floats.data() + k.cols());
        store.put<float>(layer, address, floats.data(), floats.data() + k.cols());
        continue;
      }
      kernels_.to_f16(k.row(r), k.cols(), halves.data());
      kernels_.to_f16(v.row(r), v.cols(), halves.data() + k.cols());
      store.put<uint16_t>(layer, address, halves.data(), halves.data() + k.cols());
    }
  });
  const std::vector<Task> tasks = make_tasks(plan, params, pool_.size());
  const int64_t group = params.heads / params.kv_heads;
  const auto run = [&](int64_t i, int thread) {
    const Task& task = tasks[static_cast<size_t>(i)];
    const int64_t first = task.rows.begin;
    const int64_t head = task.kv_head * group + task.heads.begin;
    AttentionTile tile;
    tile.kv = store.head(layer, task.kv_head,
                         plan.sequences[static_cast<size_t>(task.sequence)].blocks.data());
    tile.rows = task.rows.end - first;
    tile.heads = task.heads.end - task.heads.begin;
    tile.q = q.row(first) + head * params.head_dim;
    tile.q_stride = q.stride();
    tile.out = out.row(first) + head * params.head_dim;
    tile.out_stride = out.stride();
    tile.linear_len = plan.linear_len.data() + first;
    tile.tail_begin = plan.tail_begin.data() + first;
    tile.tail = plan.tail.data();
    tile.window = params.window;
    tile.scale = params.scale;
    tile.alibi = params.alibi_slopes.empty() ? nullptr : params.alibi_slopes.data() + head;
    std::vector<float>& scratch = scratch_[static_cast<size_t>(thread)];
    const auto need = static_cast<size_t>(attention_scratch(tile));
    if (scratch.size() < need) scratch.resize(need + need / 4);
    (store.shape().type == DType::kF16 ? kernels_.attention_f16 : kernels_.attention_f32)(
        tile, scratch.data());
  };
  int64_t keys = 0;
  for (const int64_t position : plan.position) keys += position + 1;
  if (keys * params.heads * params.head_dim < 2 * kKvBlockTokens * 1024) {
    for (int64_t i = 0; i < static_cast<int64_t>(tasks.size()); ++i) run(i, 0);
  } else {
    pool_.parallel_for(static_cast<int64_t>(tasks.size()), run);
  }
  return out;
}

}  // namespace clover
