// SPDX-License-Identifier: Apache-2.0
#include "train/training_data.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace clover {
namespace {

// Texts are sorted by length among as many batches as these, which keeps the order random.
constexpr int64_t kBatchesOfGroup = 32;
constexpr uint64_t kSplitSalt = 0x68656c646f757400;

bool is_held_out(uint64_t hash, double share) {
  return random_uniform(stream_key(kSplitSalt, hash), 0) < share;
}

template <typename T>
void shuffle(std::vector<T>& values, uint64_t key) {
  for (size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[random_bits(key, i) % i]);
}

}  // namespace

TrainingData::TrainingData(std::shared_ptr<const Dataset> dataset,
                           const TrainingDataOptions& options)
    : dataset_(std::move(dataset)), options_(options) {
  if (options.max_length < 3 || options.batch_tokens < 1)
    fail(ErrorCode::kInvalidArgument, "a text needs at least 3 tokens and a batch 1, not {} and {}",
         options.max_length, options.batch_tokens);
  if (!(options.held_out_share >= 0 && options.held_out_share < 1))
    fail(ErrorCode::kInvalidArgument, "the held-out share must be from 0 to below 1, not {}",
         options.held_out_share);
  if (dataset_->size() > std::numeric_limits<uint32_t>::max())
    fail(ErrorCode::kUnsupported, "{} texts are more than training can number", dataset_->size());
  for (uint32_t i = 0; i < dataset_->size(); ++i) {
    if (is_held_out(dataset_->prompt_hash(i), options.held_out_share)) {
      held_out_.push_back(i);
      continue;
    }
    const int64_t response = cut_response(i);
    if (response == 0) continue;
    training_.push_back(i);
    tokens_ += length(i);
    response_tokens_ += response;
  }
  if (training_.empty())
    fail(ErrorCode::kInvalidArgument,
         "none of the {} texts has a token of an answer to train on within its first {} tokens",
         dataset_->size(), options.max_length);
}

int64_t TrainingData::length(uint32_t i) const {
  return std::min<int64_t>(dataset_->tokens(i), options_.max_length);
}

int64_t TrainingData::cut_response(uint32_t i) const {
  if (dataset_->tokens(i) <= options_.max_length) return dataset_->response_tokens(i);
  const DistilledSample cut = sample(i);
  return std::accumulate(cut.mask.begin(), cut.mask.end(), int64_t{0});
}

DistilledSample TrainingData::sample(uint32_t i) const {
  DistilledSample sample = dataset_->sample(i);
  const auto size = static_cast<size_t>(options_.max_length);
  if (sample.ids.size() > size) {
    sample.ids.resize(size);
    sample.mask.resize(size);
    sample.ended = false;
  }
  return sample;
}

std::vector<TextBatch> TrainingData::epoch(int64_t epoch) const {
  const uint64_t key = stream_key(options_.seed, static_cast<uint64_t>(epoch));
  std::vector<uint32_t> order = training_;
  shuffle(order, random_bits(key, 0));
  std::vector<TextBatch> batches;
  for (size_t begin = 0; begin < order.size();) {
    // A group of about kBatchesOfGroup batches.
    size_t end = begin;
    for (int64_t sum = 0; end < order.size() && sum < kBatchesOfGroup * options_.batch_tokens;)
      sum += length(order[end++]);
    std::stable_sort(order.begin() + static_cast<std::ptrdiff_t>(begin),
                     order.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](uint32_t a, uint32_t b) { return length(a) < length(b); });
    int64_t filled = options_.batch_tokens;
    for (; begin < end; ++begin) {
      const int64_t tokens = length(order[begin]);
      if (filled + tokens > options_.batch_tokens) {
        batches.emplace_back();
        filled = 0;
      }
      batches.back().push_back(order[begin]);
      filled += tokens;
    }
  }
  shuffle(batches, random_bits(key, 1));
  return batches;
}

std::vector<TextBatch> TrainingData::held_out_batches(int64_t count) const {
  std::vector<TextBatch> batches;
  int64_t filled = options_.batch_tokens;
  for (const uint32_t i : held_out_) {
    if (cut_response(i) == 0) continue;
    if (filled + length(i) > options_.batch_tokens) {
      if (std::ssize(batches) == count) break;
      batches.emplace_back();
      filled = 0;
    }
    batches.back().push_back(i);
    filled += length(i);
  }
  return batches;
}

std::vector<std::vector<TokenId>> TrainingData::held_out_prompts(int64_t count) const {
  std::vector<std::pair<uint64_t, uint32_t>> order;
  for (const uint32_t i : held_out_) order.emplace_back(dataset_->prompt_hash(i), i);
  std::sort(order.begin(), order.end());
  std::vector<std::vector<TokenId>> prompts;
  for (size_t k = 0; k < order.size() && std::ssize(prompts) < count; ++k) {
    if (k > 0 && order[k].first == order[k - 1].first) continue;
    DistilledSample sample = dataset_->sample(order[k].second);
    const auto answer = std::find(sample.mask.begin(), sample.mask.end(), 1);
    sample.ids.resize(static_cast<size_t>(answer - sample.mask.begin()));
    if (std::ssize(sample.ids) <= options_.max_length) prompts.push_back(std::move(sample.ids));
  }
  return prompts;
}

}  // namespace clover
