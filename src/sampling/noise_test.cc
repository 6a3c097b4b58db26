// SPDX-License-Identifier: Apache-2.0
#include "sampling/noise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "sampling/reference_for_tests.h"
#include "sampling/sampling.h"

namespace clover {
namespace {

constexpr int kBins = 64;

// The uniform number that a Gumbel value stands for.
double uniform_of(float gumbel) { return std::exp(-std::exp(-static_cast<double>(gumbel))); }
int bin_of(float gumbel, int bins) {
  return std::min(bins - 1, static_cast<int>(uniform_of(gumbel) * bins));
}

double chi_square(const std::vector<int64_t>& counts, int64_t total) {
  const double expected = static_cast<double>(total) / static_cast<double>(counts.size());
  double sum = 0.0;
  for (const int64_t n : counts) sum += (n - expected) * (n - expected) / expected;
  return sum;
}

TEST(Noise, ExponentialMatchesItsDefinition) {
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 1048573) {
    const double v = (static_cast<double>(bits) + 0.5) * 0x1.0p-32;
    const float e = exponential_from_bits(static_cast<uint32_t>(bits));
    EXPECT_NEAR(e / -std::log1p(-v), 1.0, 1e-6) << bits;
  }
  EXPECT_NEAR(exponential_from_bits(0), 0x1.0p-33, 1e-16);
  EXPECT_NEAR(exponential_from_bits(~0u), 33 * std::log(2.0), 1e-4);
}

TEST(Noise, NoneExceedsTheStatedBound) {
  EXPECT_LE(-approx_log(exponential_from_bits(0) / kNoiseBlock), kMaxGumbel);
  EXPECT_GE(-approx_log(exponential_from_bits(~0u) + exponential_from_bits(~0u)), -4.0f);
}

TEST(Noise, EachBlockHasItsGreatestAtOneLane) {
  for (uint64_t key = 0; key < 200; ++key) {
    const BlockNoise noise(mix64(key), 3);
    int equal = 0;
    for (uint32_t lane = 0; lane < kNoiseBlock; ++lane) {
      const float g = noise.of_lane(mix64(key), lane);
      EXPECT_LE(g, noise.greatest() + 1e-5f);
      equal += g == noise.greatest() ? 1 : 0;
    }
    EXPECT_GE(equal, 1);
  }
}

TEST(Noise, IsGumbelOverTokensPositionsAndSeeds) {
  struct Axis {
    const char* name;
    std::function<float(int64_t)> noise;
  };
  const Axis axes[] = {
      {"tokens", [](int64_t i) { return gumbel_noise(1, 2, static_cast<int32_t>(i)); }},
      {"positions", [](int64_t i) { return gumbel_noise(1, static_cast<uint64_t>(i), 77); }},
      {"seeds", [](int64_t i) { return gumbel_noise(static_cast<uint64_t>(i), 9, 77); }},
      {"high seeds", [](int64_t i) { return gumbel_noise(static_cast<uint64_t>(i) << 40, 9, 5); }},
  };
  constexpr int64_t kDraws = 200000;
  for (const Axis& axis : axes) {
    std::vector<int64_t> counts(kBins);
    double sum = 0.0;
    double squares = 0.0;
    for (int64_t i = 0; i < kDraws; ++i) {
      const float g = axis.noise(i);
      ++counts[bin_of(g, kBins)];
      sum += g;
      squares += static_cast<double>(g) * g;
    }
    EXPECT_LT(chi_square(counts, kDraws), chi_square_limit(kBins - 1)) << axis.name;
    const double mean = sum / kDraws;
    EXPECT_NEAR(mean, 0.57722, 5 * 1.2825 / std::sqrt(kDraws)) << axis.name;
    EXPECT_NEAR(squares / kDraws - mean * mean, 1.64493, 0.03) << axis.name;
  }
}

// Pairs of neighbours along each axis fall evenly into the cells of a square.
TEST(Noise, NeighboursAreIndependent) {
  struct Pair {
    const char* name;
    std::function<float(int64_t)> first;
    std::function<float(int64_t)> second;
  };
  const auto at = [](uint64_t seed, uint64_t position, int64_t token) {
    return gumbel_noise(seed, position, static_cast<int32_t>(token));
  };
  const Pair pairs[] = {
      {"tokens t, t+1", [&](int64_t i) { return at(3, 4, 2 * i); },
       [&](int64_t i) { return at(3, 4, 2 * i + 1); }},
      {"tokens one block apart", [&](int64_t i) { return at(3, 4, i / 128 * 256 + i % 128); },
       [&](int64_t i) { return at(3, 4, i / 128 * 256 + 128 + i % 128); }},
      {"positions p, p+1, same token", [&](int64_t i) { return at(3, 4, i); },
       [&](int64_t i) { return at(3, 5, i); }},
      {"positions p, p+1 over positions", [&](int64_t i) { return at(3, 2 * i, 11); },
       [&](int64_t i) { return at(3, 2 * i + 1, 11); }},
      {"seeds 0 and 1", [&](int64_t i) { return at(0, i, 11); },
       [&](int64_t i) { return at(1, i, 11); }},
      {"seed and position swapped", [&](int64_t i) { return at(i, 7, 11); },
       [&](int64_t i) { return at(7, i + 8, 11); }},
  };
  constexpr int kSide = 16;
  constexpr int64_t kDraws = 200000;
  for (const Pair& pair : pairs) {
    std::vector<int64_t> counts(kSide * kSide);
    for (int64_t i = 0; i < kDraws; ++i) {
      ++counts[bin_of(pair.first(i), kSide) * kSide + bin_of(pair.second(i), kSide)];
    }
    EXPECT_LT(chi_square(counts, kDraws), chi_square_limit(kSide * kSide - 1)) << pair.name;
  }
}

// Within a block the noise is built from its greatest value; the number of lanes in the top
// sixteenth must still be binomial, as for independent values.
TEST(Noise, CountsWithinABlockAreBinomial) {
  constexpr int64_t kBlocks = 4000;
  double sum = 0.0;
  double squares = 0.0;
  for (int64_t b = 0; b < kBlocks; ++b) {
    int count = 0;
    for (int32_t i = 0; i < 128; ++i) {
      count +=
          uniform_of(gumbel_noise(5, 6, static_cast<int32_t>(b * 128 + i))) > 15.0 / 16 ? 1 : 0;
    }
    sum += count;
    squares += static_cast<double>(count) * count;
  }
  const double mean = sum / kBlocks;
  const double variance = squares / kBlocks - mean * mean;
  EXPECT_NEAR(mean, 8.0, 5 * std::sqrt(7.5 / kBlocks));
  EXPECT_NEAR(variance, 7.5, 5 * 7.5 * std::sqrt(2.0 / kBlocks));
}

TEST(Noise, IsAFunctionOfItsArguments) {
  std::set<float> values;
  for (int i = 0; i < 3; ++i) values.insert(gumbel_noise(42, 1000, 7));
  EXPECT_EQ(values.size(), 1u);
  EXPECT_NE(gumbel_noise(42, 1000, 7), gumbel_noise(42, 1001, 7));
  EXPECT_NE(gumbel_noise(42, 1000, 7), gumbel_noise(43, 1000, 7));
  EXPECT_NE(gumbel_noise(42, 1000, 7), gumbel_noise(42, 1000, 8));
  EXPECT_TRUE(std::isfinite(gumbel_noise(~0ull, ~0ull, 0x7fffffff)));
}

}  // namespace
}  // namespace clover
