// SPDX-License-Identifier: Apache-2.0
#include "train/ngram_texts.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "train/target_features.h"

namespace clover {
namespace {

// Tokens of texts that are read together.
constexpr int64_t kReadTokens = 1024;
// Less likely ones are not worth their place.
constexpr float kLeast = 0.004f;

// What the target says after rows of hidden states.
class NextTokens {
 public:
  explicit NextTokens(const Model& target) : target_(target) {}

  // One list for each of the rows of `states` [tokens][D] that are named.
  std::vector<std::vector<NextToken>> at(std::span<const float> states,
                                         std::span<const size_t> rows) const {
    const auto hidden = static_cast<size_t>(target_.config().hidden);
    std::vector<float> taken;
    taken.reserve(rows.size() * hidden);
    for (const size_t row : rows) {
      const auto state = states.subspan(row * hidden, hidden);
      taken.insert(taken.end(), state.begin(), state.end());
    }
    Backend& backend = target_.backend();
    const Tensor x =
        backend.from_host(std::ssize(rows), std::ssize(taken) / std::ssize(rows), taken.data());
    const Tensor logits = target_.logits(x);
    const std::vector<float> sums = backend.log_sum_exp(logits);
    std::vector<std::vector<NextToken>> out;
    for (const std::vector<TopEntry>& top : backend.top_k(logits, NgramTable::kMostNext)) {
      std::vector<NextToken>& next = out.emplace_back();
      for (const TopEntry& entry : top) {
        const float probability = std::exp(entry.value - sums[out.size() - 1]);
        if (probability >= kLeast) next.push_back({entry.id, probability});
      }
    }
    return out;
  }

 private:
  const Model& target_;
};

}  // namespace

bool count_ngrams(const std::shared_ptr<const Model>& target, const TrainingData& data,
                  const NgramProgress& progress, NgramCounts& counts) {
  TargetFeatures features(target);
  const NextTokens next_tokens(*target);
  const std::vector<uint32_t>& numbers = data.training();
  for (size_t begin = 0; begin < numbers.size();) {
    std::vector<std::vector<TokenId>> texts;
    std::vector<size_t> rows;  // whose next token is of an answer
    size_t tokens = 0;
    while (begin < numbers.size() && (texts.empty() || std::cmp_less(tokens, kReadTokens))) {
      const DistilledSample sample = data.sample(numbers[begin++]);
      for (size_t i = 1; i < sample.ids.size(); ++i)
        if (sample.mask[i] != 0) rows.push_back(tokens + i - 1);
      tokens += sample.ids.size();
      texts.push_back(sample.ids);
    }
    if (!rows.empty()) {
      const std::vector<std::vector<NextToken>> said = next_tokens.at(features.run(texts), rows);
      size_t text = 0, first = 0;  // the text that a row lies in, and its first row
      for (size_t i = 0; i < rows.size(); ++i) {
        while (rows[i] >= first + texts[text].size()) first += texts[text++].size();
        counts.add(std::span(texts[text]).first(rows[i] - first + 1), said[i]);
      }
    }
    if (progress && !progress(static_cast<int64_t>(begin), counts.rows())) return false;
  }
  return true;
}

}  // namespace clover
