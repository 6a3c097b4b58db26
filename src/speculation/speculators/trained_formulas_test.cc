// SPDX-License-Identifier: Apache-2.0
// Every member of the Clover family and EAGLE-1 against the formulas in double precision.
#include <gtest/gtest.h>

#include "speculation/speculators/trained_cases.h"
#include "speculation/speculators/trained_reference.h"

namespace clover {
namespace {

using namespace testing_support;

class TrainedFormulas : public ::testing::TestWithParam<TrainedCase> {};

TEST_P(TrainedFormulas, ProbabilitiesAlongAChainEqualTheFormulas) {
  const TrainedCase& test = GetParam();
  const Target target(test.model);
  // Without a norm on its input, EAGLE-1's features grow with every step; less noise bounds them.
  Package package =
      shaken_package(target, test.options, test.options.type == "eagle" ? 0.02f : 0.1f);
  // What a file holds: BF16 or float32, here the latter.
  const auto speculator = open_written(target, package)(host_of(target));
  Reference reference(package, target);
  const Script script(target, random_tokens(5, 40, 64), 3);
  speculator->begin(1);
  int64_t stored = 0;
  for (const int64_t known : {2, 20, 23}) {
    const Stored part{1, &script, stored, known - 1 - stored};
    observe(*speculator, target, {&part, 1});
    stored = known - 1;
    const std::vector<DraftSequence> sequences = {drafting(1, script, known)};
    speculator->start(sequences);
    const int64_t depth = std::min<int64_t>(speculator->max_depth() - 1, 6);
    const std::vector<int32_t> drafts = random_tokens(static_cast<uint64_t>(known), depth, 64);
    const Candidates got =
        draft_chain(*speculator, 0, script.tokens[static_cast<size_t>(stored)], drafts, 1000);
    const std::vector<Reference::Row> want = reference.chain(script, known, drafts);
    ASSERT_EQ(got.size(), want.size());
    for (size_t d = 0; d < got.size(); ++d) {
      ASSERT_EQ(got[d].size(), want[d].size()) << d;
      for (size_t i = 0; i < got[d].size(); ++i) {
        const Candidate& candidate = got[d][i];
        const auto at = static_cast<size_t>(candidate.token);  // draft ids are the lowest tokens
        ASSERT_LT(at, want[d].size());
        const double p = std::clamp(want[d][at], 1e-4, 0.999);
        ASSERT_NEAR(candidate.probability, p, 2e-4 * p + 1e-6) << "depth " << d << " token " << at;
        ASSERT_GE(candidate.bin, 0);
        ASSERT_LT(candidate.bin, speculator->bins());
        ASSERT_LE(candidate.probability, got[d][i == 0 ? 0 : i - 1].probability);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Family, TrainedFormulas, ::testing::ValuesIn(trained_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace clover
