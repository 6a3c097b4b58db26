// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/draft_head.h"

#include <algorithm>
#include <cmath>

namespace clover {

int32_t draft_bin(int32_t depth, float log_probability) {
  const int32_t row = std::clamp(depth, 0, kBinDepths - 1);
  const float steps = std::clamp(-2.0f * log_probability, 0.0f, kBinsPerDepth - 1.0f);
  return row * kBinsPerDepth + static_cast<int32_t>(steps);
}

std::vector<std::vector<Candidate>> best_candidates(Backend& backend, const DraftHead& head,
                                                    const Tensor& states, int32_t depth,
                                                    int32_t width) {
  constexpr float kLeast = 1e-6f;
  const Tensor logits = backend.linear(states, *head.matrix);
  const std::vector<std::vector<TopEntry>> top = backend.top_k(logits, width);
  const std::vector<float> total = backend.log_sum_exp(logits);
  std::vector<std::vector<Candidate>> candidates(top.size());
  for (size_t r = 0; r < top.size(); ++r) {
    if (!std::isfinite(total[r])) continue;
    candidates[r].reserve(top[r].size());
    for (const TopEntry& entry : top[r]) {
      const float log_probability = entry.value - total[r];
      const int32_t token = head.ids.empty() ? entry.id : head.ids[static_cast<size_t>(entry.id)];
      candidates[r].push_back({token, std::clamp(std::exp(log_probability), kLeast, 1.0f - kLeast),
                               draft_bin(depth, log_probability)});
    }
  }
  return candidates;
}

}  // namespace clover
