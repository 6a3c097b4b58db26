// SPDX-License-Identifier: Apache-2.0
#include "train/target_features.h"

#include <numeric>

namespace clover {
namespace {

// Rows of one pass: enough for the kernels' full speed, few enough for the caches.
constexpr int64_t kPassRows = 1024;

}  // namespace

std::vector<float> TargetFeatures::run(std::span<const std::vector<TokenId>> texts) {
  int64_t tokens = 0;
  for (const std::vector<TokenId>& text : texts) tokens += std::ssize(text);
  std::vector<float> features(static_cast<size_t>(tokens * hidden()));
  float* out = features.data();
  for (size_t begin = 0; begin < texts.size();) {
    size_t end = begin;
    int64_t rows = 0;
    do {
      rows += std::ssize(texts[end++]);
    } while (end < texts.size() && rows + std::ssize(texts[end]) <= kPassRows);
    run_some(texts.subspan(begin, end - begin), out);
    out += rows * hidden();
    begin = end;
  }
  return features;
}

void TargetFeatures::run_some(std::span<const std::vector<TokenId>> texts, float* out) {
  int64_t blocks = 0;
  for (const std::vector<TokenId>& text : texts) blocks += kv_blocks_for(std::ssize(text));
  if (blocks == 0) return;
  if (!kv_ || kv_->shape().blocks < blocks)
    kv_ = target_->backend().make_kv_store(target_->kv_shape(blocks, DType::kF16));
  std::vector<int32_t> table(static_cast<size_t>(blocks));
  std::iota(table.begin(), table.end(), 0);
  Batch batch;
  size_t first_block = 0;
  for (const std::vector<TokenId>& text : texts) {
    if (text.empty()) continue;
    const auto count = static_cast<size_t>(kv_blocks_for(std::ssize(text)));
    const int64_t first_row = batch.rows();
    batch.sequences.push_back({.blocks = std::span(table).subspan(first_block, count),
                               .first_row = first_row,
                               .rows = std::ssize(text)});
    first_block += count;
    batch.tokens.insert(batch.tokens.end(), text.begin(), text.end());
    for (int64_t row = 0; row < std::ssize(text); ++row)
      batch.parents.push_back(row == 0 ? -1 : static_cast<int32_t>(first_row + row - 1));
  }
  batch.wants_logits.assign(batch.tokens.size(), 0);
  target_->backend().to_host(target_->forward(batch, *kv_).hidden, out);
}

}  // namespace clover
