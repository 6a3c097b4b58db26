// SPDX-License-Identifier: Apache-2.0
// Draws against enumerated distributions, and large rows against the plain double implementation.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "sampling/reference_for_tests.h"
#include "sampling/sampling.h"

namespace clover {
namespace {

constexpr int32_t kVocab = 16;
const std::vector<int32_t> kPrompt = {1, 4, 4, 9};
const std::vector<int32_t> kOutput = {2, 4, 4, 11, 15, 2};
const std::vector<int32_t> kEos = {3};

struct Case {
  const char* name;
  SamplingParams params;
};

std::vector<Case> cases() {
  const float inf = std::numeric_limits<float>::infinity();
  return {
      {"plain", {}},
      {"top_k", {.top_k = 5}},
      {"top_p", {.top_p = 0.8f}},
      {"min_p", {.min_p = 0.1f}},
      {"penalties",
       {.repetition_penalty = 1.4f, .presence_penalty = 0.5f, .frequency_penalty = 0.3f}},
      {"bias and min_tokens",
       {.logit_bias = {{0, 1.5f}, {5, -inf}, {7, -0.7f}}, .min_tokens = 100}},
      {"all",
       {.top_k = 12,
        .top_p = 0.93f,
        .min_p = 0.02f,
        .repetition_penalty = 0.8f,
        .presence_penalty = -0.5f,
        .frequency_penalty = 0.25f,
        .logit_bias = {{6, 2.0f}, {8, -1.0f}},
        .min_tokens = 100}},
  };
}

// D7: 200,000 draws of each combination of options; the pending tokens stand for verified rows.
class DrawDistribution : public testing::TestWithParam<float> {};

TEST_P(DrawDistribution, D7FollowsTheEnumeratedDistribution) {
  constexpr int64_t kDraws = 200000;
  const std::vector<float> logits = normal_row(77, kVocab, 1.5);
  for (Case& c : cases()) {
    c.params.temperature = GetParam();
    c.params.seed = 20240607;
    SamplerState state(c.params, kEos, kVocab);
    state.add_prompt(kPrompt);
    for (size_t i = 0; i < 4; ++i) state.commit(kOutput[i]);
    const std::span<const int32_t> pending = std::span(kOutput).subspan(4);
    std::vector<int64_t> counts(kVocab);
    for (int64_t p = 0; p < kDraws; ++p) ++counts[state.draw(logits, p, pending, -1).id];

    const ReferenceDistribution expected = reference_distribution(
        c.params, reference_logits(c.params, logits, kPrompt, kOutput, kEos));
    ASSERT_GT(expected.margin, 1e-4) << c.name;
    double chi_square = 0.0;
    int cells = 0;
    for (int32_t id = 0; id < kVocab; ++id) {
      const double mean = expected.probabilities[id] * kDraws;
      if (mean == 0.0) {
        EXPECT_EQ(counts[id], 0) << c.name << ": token " << id;
        continue;
      }
      // Cells too rare for the chi-square approximation are bounded one by one.
      if (mean < 10.0) {
        EXPECT_LT(counts[id], mean + 7 * std::sqrt(mean) + 7) << c.name << ": token " << id;
        continue;
      }
      chi_square += (counts[id] - mean) * (counts[id] - mean) / mean;
      ++cells;
    }
    ASSERT_GT(cells, 1) << c.name;
    EXPECT_LT(chi_square, chi_square_limit(cells - 1)) << c.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Temperatures, DrawDistribution, testing::Values(0.5f, 1.0f, 1.5f),
                         [](const auto& temperature) {
                           return "T" + std::to_string(static_cast<int>(temperature.param * 10));
                         });

// The tokens that stay, and their probabilities, on rows as large as real vocabularies.
TEST(LargeVocabulary, AgreesWithThePlainImplementation) {
  int decided = 0;
  for (const int32_t vocab : {49152, 151936}) {
    for (const double scale : {0.5, 2.0, 5.0}) {
      const std::vector<float> logits = normal_row(vocab + 1, vocab, scale);
      for (Case& c : cases()) {
        if (c.params.top_p < 1.0f && scale < 1.0) c.params.top_p = 0.3f;
        c.params.temperature = 0.9f;
        SamplerState state(c.params, kEos, vocab);
        state.add_prompt(kPrompt);
        for (const int32_t id : kOutput) state.commit(id);
        const std::vector<float> z = state.process(logits, {});
        const ReferenceDistribution expected = reference_distribution(
            c.params, reference_logits(c.params, logits, kPrompt, kOutput, kEos));
        double total = 0.0;
        for (const float x : z) total += std::exp(static_cast<double>(x));
        int64_t other_kept = 0;
        double worst = 0.0;
        for (int32_t i = 0; i < vocab; ++i) {
          const double p = std::exp(static_cast<double>(z[i])) / total;
          const bool kept = z[i] > -std::numeric_limits<float>::infinity();
          other_kept += kept != (expected.probabilities[i] > 0.0) ? 1 : 0;
          if (kept) worst = std::max(worst, std::abs(p / expected.probabilities[i] - 1.0));
        }
        // Rounding may decide a token at the boundary, and only there.
        if (expected.margin > 1e-5) {
          EXPECT_EQ(other_kept, 0) << c.name << " " << vocab << " " << scale;
          EXPECT_LT(worst, 1e-5) << c.name << " " << vocab << " " << scale;
          ++decided;
        } else {
          EXPECT_LE(other_kept, 2) << c.name << " " << vocab << " " << scale;
        }
      }
    }
  }
  EXPECT_GE(decided, 20);
}

// D8: at T = 1.5 the entropy of what is drawn is that of the tempered distribution.
TEST(LargeVocabulary, D8EntropyFollowsTheTemperature) {
  const std::vector<float> logits = normal_row(9, 2000, 3.0);
  for (const float t : {0.5f, 1.0f, 1.5f}) {
    const SamplingParams params{.temperature = t, .seed = 4};
    const SamplerState state(params, {}, 2000);
    const ReferenceDistribution d =
        reference_distribution(params, std::vector<double>(logits.begin(), logits.end()));
    double entropy = 0.0;
    double square = 0.0;
    for (const double p : d.probabilities) {
      entropy -= p > 0 ? p * std::log(p) : 0.0;
      square += p > 0 ? p * std::log(p) * std::log(p) : 0.0;
    }
    constexpr int64_t kDraws = 20000;
    double sum = 0.0;
    for (int64_t p = 0; p < kDraws; ++p) {
      sum -= std::log(d.probabilities[state.draw(logits, p, {}, -1).id]);
    }
    EXPECT_NEAR(sum / kDraws, entropy, 5 * std::sqrt((square - entropy * entropy) / kDraws)) << t;
  }
}

}  // namespace
}  // namespace clover
