// SPDX-License-Identifier: Apache-2.0
// Attention against a softmax in double.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "backend/cpu/attention_fixture.h"

namespace clover {
namespace {

constexpr double kEps = 0x1p-24;

float stored(float x, DType type) {
  if (type == DType::kF32) return x;
  return f16_to_f32(f32_to_f16(std::clamp(x, -65504.0f, 65504.0f)));
}

// Checks one row's output against the definition. `tokens` are those of the row's path.
void check_row(const AttentionWorld& world, const AttentionCase& c,
               const std::vector<int64_t>& tokens, std::span<const float> got) {
  const auto length = static_cast<int64_t>(tokens.size());
  const int64_t start = c.window > 0 ? std::max<int64_t>(0, length - c.window) : 0;
  const int64_t d = c.head_dim;
  const std::vector<float> q = world.values('q', tokens.back());
  std::vector<std::vector<float>> k;
  std::vector<std::vector<float>> v;
  for (const int64_t token : tokens) {
    k.push_back(world.values('k', token));
    v.push_back(world.values('v', token));
  }
  for (int64_t h = 0; h < c.heads; ++h) {
    const int64_t g = h / (c.heads / c.kv_heads);
    std::vector<double> score(static_cast<size_t>(length));
    double top = -std::numeric_limits<double>::infinity();
    double score_error = 0;
    for (int64_t i = start; i < length; ++i) {
      double dot = 0;
      double size = 0;
      for (int64_t j = 0; j < d; ++j) {
        const double product =
            static_cast<double>(q[static_cast<size_t>(h * d + j)]) *
            stored(k[static_cast<size_t>(i)][static_cast<size_t>(g * d + j)], c.type);
        dot += product;
        size += std::abs(product);
      }
      const double distance = static_cast<double>(world.slope(h)) * static_cast<double>(length - i);
      score[static_cast<size_t>(i)] =
          dot * world.scale() + static_cast<double>(world.slope(h)) * (i - (length - 1));
      score_error = std::max(score_error,
                             kEps * (size * world.scale() * static_cast<double>(d + 3) + distance));
      top = std::max(top, score[static_cast<size_t>(i)]);
    }
    double sum = 0;
    for (int64_t i = start; i < length; ++i) sum += std::exp(score[static_cast<size_t>(i)] - top);
    // Each weight is off by twice the scores' error (its own and the maximum's), the exponential's
    // 2e-7 and the rounding of its argument; numerator and denominator alike.
    const double relative =
        2 * (2 * score_error + 2e-7 + 20 * kEps) + 2 * static_cast<double>(length + 4) * kEps;
    for (int64_t j = 0; j < d; ++j) {
      double want = 0;
      double size = 0;
      for (int64_t i = start; i < length; ++i) {
        const double part =
            std::exp(score[static_cast<size_t>(i)] - top) / sum *
            stored(v[static_cast<size_t>(i)][static_cast<size_t>(g * d + j)], c.type);
        want += part;
        size += std::abs(part);
      }
      ASSERT_NEAR(got[static_cast<size_t>(h * d + j)], want, relative * size)
          << "head " << h << " of " << length << " tokens";
    }
  }
}

// A prompt of `length` tokens in two chunks on every instruction set; checks a few rows by value
// and all of them for equal bits.
void check_prompt(AttentionCase c, int64_t length) {
  SCOPED_TRACE(fmt::format("{} / {} heads of {}, {}, window {}, alibi {}, {} tokens", c.heads,
                           c.kv_heads, c.head_dim, dtype_name(c.type), c.window, c.alibi, length));
  const std::vector<int64_t> tokens = first_slots(length);
  const int64_t split = length - std::min<int64_t>(length, 11);
  std::vector<float> first;
  for (const std::string& isa : cpu_isas()) {
    c.isa = isa;
    AttentionWorld world(c);
    if (split > 0) world.run({chain(tokens, 0, split)});
    const std::vector<float> out = world.run({chain(tokens, split, length)});
    if (first.empty()) {
      first = out;
      for (const int64_t row : {split, (split + length) / 2, length - 1})
        check_row(world, c, {tokens.begin(), tokens.begin() + row + 1},
                  row_of(out, world.columns(), row - split));
    }
    ASSERT_TRUE(same_bits(out, first)) << isa;
  }
}

TEST(Attention, GroupedHeadsOfEverySizeMatchDouble) {
  int round = 0;
  for (const int64_t ratio : {1, 2, 3, 5}) {
    for (const int64_t head_dim : {16, 20, 64, 80, 96, 128}) {
      for (const DType type : {DType::kF16, DType::kF32}) {
        const int64_t kv_heads = 1 + round % 2;
        const int64_t window = round % 3 == 0 ? 13 : 0;
        check_prompt(
            {ratio * kv_heads, kv_heads, head_dim, type, window, round % 5 == 1, "", 1 + round % 3},
            37);
        ++round;
      }
    }
  }
}

TEST(Attention, LengthsAroundBlockEdgesMatchDouble) {
  for (const int64_t length : {1, 2, 15, 16, 17, 31, 32, 33, 300})
    for (const DType type : {DType::kF16, DType::kF32})
      check_prompt({3, 1, 20, type, 0, false, "", 2}, length);
}

// Windows that start inside a block, at its edges, longer than the sequence, and of one token.
TEST(Attention, WindowsMatchDouble) {
  for (const int64_t window : {1, 2, 15, 16, 17, 20, 32, 47, 1000})
    for (const bool alibi : {false, true})
      check_prompt({2, 1, 16, DType::kF16, window, alibi, "", 2}, 50);
}

TEST(Attention, TreeRowsMatchDouble) {
  for (const int64_t window : {0, 3, 20}) {
    const AttentionCase c{6, 2, 64, DType::kF16, window, window == 20, "", 2};
    AttentionWorld world(c);
    const int64_t prompt = 29;
    const std::vector<int64_t> tokens = first_slots(prompt);
    world.run({chain(tokens, 0, prompt)});
    const RandomTree tree(prompt, 25, 1000, 5);
    const std::vector<float> out = world.run({tree.rows});
    for (size_t i = 0; i < tree.rows.size(); ++i) {
      std::vector<int64_t> path = tokens;
      path.insert(path.end(), tree.tokens[i].begin(), tree.tokens[i].end());
      check_row(world, c, path, row_of(out, world.columns(), static_cast<int64_t>(i)));
    }
  }
}

// Scores far apart: the softmax must neither overflow nor lose the sharp winner.
TEST(Attention, HugeScoresStayFinite) {
  for (const DType type : {DType::kF16, DType::kF32}) {
    for (const std::string& isa : cpu_isas()) {
      const AttentionCase c{1, 1, 16, type, 0, false, isa, 1};
      AttentionWorld world(c);
      for (int64_t t = 0; t < 20; ++t) world.special[{'q', t}] = 1000.0f;
      for (int64_t t = 0; t < 20; ++t) world.special[{'k', t}] = t == 4 ? 3000.0f : -3000.0f;
      const std::vector<float> out = world.run({chain(first_slots(20), 0, 20)});
      for (int64_t r = 4; r < 20; ++r)
        for (int64_t j = 0; j < 16; ++j)
          ASSERT_EQ(out[static_cast<size_t>(r * 16 + j)],
                    stored(world.values('v', 4)[static_cast<size_t>(j)], type))
              << isa;
    }
  }
}

TEST(Attention, NoRowsGiveNoOutput) {
  AttentionWorld world({});
  EXPECT_TRUE(world.run({}).empty());
}

}  // namespace
}  // namespace clover
