// SPDX-License-Identifier: Apache-2.0
#include "train/draft_vocab.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace clover {

DraftVocab choose_draft_vocab(const TrainingData& data, int64_t size) {
  const int64_t vocab = data.dataset().settings().vocab;
  if (size < 1 || size > vocab)
    fail(ErrorCode::kInvalidArgument, "a draft vocabulary of {} tokens: the target has {}", size,
         vocab);
  std::vector<int64_t> counts(static_cast<size_t>(vocab));
  for (const uint32_t i : data.training()) {
    const DistilledSample sample = data.sample(i);
    for (size_t t = 0; t < sample.ids.size(); ++t)
      counts[static_cast<size_t>(sample.ids[t])] += sample.mask[t];
  }
  DraftVocab chosen;
  chosen.tokens.resize(static_cast<size_t>(vocab));
  std::iota(chosen.tokens.begin(), chosen.tokens.end(), 0);
  std::stable_sort(chosen.tokens.begin(), chosen.tokens.end(), [&](int32_t a, int32_t b) {
    return counts[static_cast<size_t>(a)] > counts[static_cast<size_t>(b)];
  });
  chosen.tokens.resize(static_cast<size_t>(size));
  int64_t covered = 0;
  for (const int32_t token : chosen.tokens) covered += counts[static_cast<size_t>(token)];
  const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  chosen.coverage = all > 0 ? static_cast<double>(covered) / static_cast<double>(all) : 0.0;
  std::sort(chosen.tokens.begin(), chosen.tokens.end());
  return chosen;
}

}  // namespace clover
