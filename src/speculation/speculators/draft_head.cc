// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/draft_head.h"

#include <cmath>

#include "speculation/speculators/probability_bin.h"

namespace clover {

std::vector<std::vector<Candidate>> best_candidates(Backend& backend, const DraftHead& head,
                                                    const HeadInput& input, int32_t depth,
                                                    int32_t width) {
  const Tensor logits =
      input.norm ? backend.norm_linear(input.states, *input.norm, input.eps, *head.matrix)
                 : backend.linear(input.states, *head.matrix);
  const std::vector<std::vector<TopEntry>> top = backend.top_k(logits, width);
  const std::vector<float> total = backend.log_sum_exp(logits);
  std::vector<std::vector<Candidate>> candidates(top.size());
  for (size_t r = 0; r < top.size(); ++r) {
    if (!std::isfinite(total[r])) continue;
    candidates[r].reserve(top[r].size());
    for (const TopEntry& entry : top[r]) {
      const float p = open_probability(std::exp(entry.value - total[r]));
      const int32_t token = head.ids.empty() ? entry.id : head.ids[static_cast<size_t>(entry.id)];
      candidates[r].push_back({token, p, depth_bin(depth, p)});
    }
  }
  return candidates;
}

}  // namespace clover
