// SPDX-License-Identifier: Apache-2.0
#include "train/batch_source.h"

#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace clover {

BatchSource::BatchSource(BatchSourceOptions options, std::shared_ptr<const Model> target,
                         const std::string& fingerprint)
    : options_(std::move(options)), features_(std::move(target)), fingerprint_(fingerprint) {
  open(options_.shards);
  if (options_.cache.empty()) return;
  cache_.emplace(options_.cache, fingerprint_, features_.hidden());
  check_space();
}

void BatchSource::open(const std::vector<int64_t>& shards) {
  dataset_ = std::make_shared<const Dataset>(options_.folders, shards);
  if (dataset_->settings().fingerprint != fingerprint_)
    fail(ErrorCode::kInvalidArgument,
         "{} was written by another target ({}): train for that one, or distill again",
         options_.folders.front(), dataset_->settings().target);
  data_.emplace(dataset_, options_.batches);
}

void BatchSource::reopen(const std::vector<int64_t>& shards) { open(shards); }

uint64_t BatchSource::cache_bytes() const {
  return FeatureCache::bytes(std::ssize(data_->training()) + std::ssize(data_->held_out()),
                             data_->tokens(), features_.hidden());
}

void BatchSource::check_space() const {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(options_.cache, error);
  const auto there = static_cast<uint64_t>(std::filesystem::file_size(options_.cache));
  if (!error && cache_bytes() > there + space.available)
    fail(ErrorCode::kExhausted,
         "the features of all texts take {:.1f} GB in {}, but only {:.1f} GB are free: train "
         "without "
         "the cache",
         static_cast<double>(cache_bytes() - there) / 1e9, options_.cache,
         static_cast<double>(space.available) / 1e9);
}

std::string BatchSource::describe() const {
  std::string text =
      fmt::format("{} texts with {} tokens of answers ({} tokens in all); {} held out",
                  data_->training().size(), data_->response_tokens(), data_->tokens(),
                  data_->held_out().size());
  if (cache_)
    text += fmt::format("; features take {:.2f} GB on the disk",
                        static_cast<double>(cache_bytes()) / 1e9);
  return text;
}

TextRows BatchSource::labels(const TextBatch& texts) const {
  TextRows rows;
  for (const uint32_t i : texts) {
    const DistilledSample sample = data_->sample(i);
    rows.lengths.push_back(std::ssize(sample.ids));
    rows.tokens.insert(rows.tokens.end(), sample.ids.begin(), sample.ids.end());
    rows.loss.insert(rows.loss.end(), sample.mask.begin(), sample.mask.end());
  }
  return rows;
}

TextRows BatchSource::load(const TextBatch& texts) {
  const auto begin = Clock::now();
  TextRows rows = labels(texts);
  const auto hidden = static_cast<size_t>(features_.hidden());
  rows.features.resize(rows.tokens.size() * hidden);
  std::vector<std::vector<TokenId>> missing;
  std::vector<float*> places;
  float* out = rows.features.data();
  auto token = rows.tokens.begin();
  for (const int64_t length : rows.lengths) {
    std::vector<TokenId> text(token, token + length);
    token += length;
    const size_t size = text.size() * hidden;
    if (!cache_ || !cache_->read(text, out)) {
      places.push_back(out);
      missing.push_back(std::move(text));
    }
    out += size;
  }
  const std::vector<float> made = features_.run(missing);
  const float* from = made.data();
  for (size_t i = 0; i < missing.size(); ++i) {
    const size_t size = missing[i].size() * hidden;
    if (cache_) {
      // What is read later is what is used now, bit for bit.
      cache_->write(missing[i], from);
      cache_->read(missing[i], places[i]);
    } else {
      std::copy(from, from + size, places[i]);
    }
    from += size;
  }
  feature_seconds_ += ms_since(begin) / 1000;
  return rows;
}

}  // namespace clover
