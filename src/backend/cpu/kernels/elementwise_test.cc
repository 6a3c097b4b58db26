// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/test_util.h"

namespace clover {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kEps = 0x1p-24;  // relative error of one rounding

// Rows of random values with a stride, at a chosen misalignment.
struct Input {
  Misaligned memory;
  FloatRows rows;
  Input(int64_t n, int64_t cols, int64_t stride, int64_t shift, uint64_t seed, float scale = 1.0f)
      : memory(n * stride, shift) {
    Random random(seed);
    for (float& x : memory.values()) x = random.uniform(-scale, scale);
    rows = {n, cols, stride, memory.data()};
  }
};

struct Quantised {
  std::vector<int8_t> q;
  std::vector<float> scale;
  std::vector<int32_t> half_sums;
  std::vector<float> sums;
  QuantRows rows;
  explicit Quantised(const FloatRows& x)
      : q(static_cast<size_t>(x.rows * x.cols), 99),
        scale(q.size() / 32, -1.0f),
        half_sums(q.size() / 16, -1),
        sums(q.size() / 32, -1.0f) {
    rows = {x.rows, x.cols, q.data(), scale.data(), half_sums.data(), sums.data()};
  }
};

TEST(Quantise, EveryValueWithinHalfAStepAndSumsExact) {
  for (const int64_t n : {1, 2, 3, 7, 8, 9, 15, 21}) {
    for (const int64_t cols : {32, 96, 320}) {
      Input x(n, cols, cols + 5, n % 16, static_cast<uint64_t>(n * cols), 3.0f);
      Quantised out(x.rows);
      kernels_reference().quantise(x.rows, {0, n}, 0, out.rows);
      const int64_t blocks = cols / 32;
      for (int64_t r = 0; r < n; ++r) {
        const RowTile tile = row_tile(n, r);
        for (int64_t b = 0; b < blocks; ++b) {
          const auto at = static_cast<size_t>(tile.first * blocks + b * tile.rows + r - tile.first);
          const float* src = x.rows.x + r * x.rows.stride + b * 32;
          float amax = 0;
          for (int i = 0; i < 32; ++i) amax = std::max(amax, std::abs(src[i]));
          const float scale = out.scale[at];
          ASSERT_EQ(scale, amax / 127.0f);
          int32_t sums[2] = {0, 0};
          for (int i = 0; i < 32; ++i) {
            const int q = out.q[at * 32 + static_cast<size_t>(i)];
            ASSERT_LE(std::abs(q), 127);
            ASSERT_LE(std::abs(static_cast<double>(scale) * q - src[i]), scale * 0.5001);
            sums[i / 16] += q;
          }
          ASSERT_EQ(out.half_sums[2 * at], sums[0]);
          ASSERT_EQ(out.half_sums[2 * at + 1], sums[1]);
          ASSERT_EQ(out.sums[at], scale * static_cast<float>(sums[0] + sums[1]));
        }
      }
    }
  }
}

TEST(Quantise, AnyRangeOfRowsAndEverySetGivesTheSameBits) {
  for (const int64_t n : {1, 5, 8, 13}) {
    Input x(n, 96, 101, 3, static_cast<uint64_t>(n), 10.0f);
    // Blocks of zeros, denormals, huge values, infinities and NaN.
    float* row = x.memory.data() + (n - 1) * 101;
    for (int i = 0; i < 32; ++i) row[i] = 0.0f;
    for (int i = 32; i < 64; ++i) row[i] = static_cast<float>(i) * 1e-42f;
    for (int i = 64; i < 96; ++i) row[i] = (i % 2 == 0 ? 1.0f : -1.0f) * 3e38f;
    if (n > 1) x.memory.data()[40] = kInf;
    if (n > 8) {
      x.memory.data()[101 + 33] = kNan;
      x.memory.data()[101 + 50] = -kNan;
    }
    Quantised expected(x.rows);
    kernels_reference().quantise(x.rows, {0, n}, 0, expected.rows);
    for (const KernelTable* table : tables()) {
      Quantised out(x.rows);
      for (int64_t r = n - 1; r >= 0; --r) table->quantise(x.rows, {r, r + 1}, 0, out.rows);
      for (size_t b = 0; b < expected.scale.size(); ++b) {
        if (std::isnan(expected.scale[b])) continue;  // the bytes of such a block mean nothing
        ASSERT_EQ(std::memcmp(&out.q[b * 32], &expected.q[b * 32], 32), 0) << table->name << b;
        ASSERT_EQ(out.half_sums[2 * b], expected.half_sums[2 * b]) << table->name << b;
        ASSERT_EQ(out.half_sums[2 * b + 1], expected.half_sums[2 * b + 1]) << table->name << b;
      }
      EXPECT_TRUE(same_bits(out.scale, expected.scale)) << table->name;
      EXPECT_TRUE(same_bits(out.sums, expected.sums)) << table->name;
    }
    for (const int8_t q : expected.q) ASSERT_GE(q, -127);
  }
}

TEST(Quantise, NanAndInfinityGoIntoTheScaleOfTheirBlockOnly) {
  for (const KernelTable* table : tables()) {
    for (const float bad : {kNan, kInf, -kInf}) {
      Input x(1, 96, 96, 0, 4);
      x.memory.data()[37] = bad;
      Quantised out(x.rows);
      table->quantise(x.rows, {0, 1}, 0, out.rows);
      EXPECT_TRUE(std::isfinite(out.scale[0]) && std::isfinite(out.scale[2]));
      EXPECT_TRUE(std::isnan(out.scale[1])) << table->name;
      EXPECT_TRUE(std::isnan(out.sums[1])) << table->name;
    }
  }
}

TEST(RmsNorm, MatchesDoubleAndEverySetGivesTheSameBits) {
  Random random(7);
  for (const int64_t group : {1, 5, 15, 16, 17, 20, 64, 100, 576, 1500}) {
    for (const int64_t groups : {1, 3}) {
      const int64_t n = 3;
      const int64_t cols = group * groups;
      Input x(n, cols, cols + 7, group % 16, static_cast<uint64_t>(group), 5.0f);
      const std::vector<float> w = random.floats(group, 2.0f);
      const float eps = 1e-5f;
      std::vector<std::vector<float>> results;
      for (const KernelTable* table : tables()) {
        Misaligned out(n * (cols + 2), 5);
        table->rms_norm(x.rows, {0, n}, w.data(), group, eps, out.data(), cols + 2);
        results.emplace_back(out.values().begin(), out.values().end());
        EXPECT_TRUE(out.guards_intact());
        EXPECT_TRUE(same_bits(results[0], results.back())) << table->name;
      }
      for (int64_t r = 0; r < n; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
          const float* src = x.rows.x + r * x.rows.stride + c / group * group;
          double squares = 0;
          for (int64_t i = 0; i < group; ++i) squares += static_cast<double>(src[i]) * src[i];
          const double root = std::sqrt(squares / static_cast<double>(group) + eps);
          const double want = src[c % group] / root * w[static_cast<size_t>(c % group)];
          // The sum of squares: group / 16 + 5 roundings; then the rest.
          const double tolerance = (static_cast<double>(group) / 16 + 12) * kEps * std::abs(want);
          ASSERT_NEAR(results[0][static_cast<size_t>(r * (cols + 2) + c)], want, tolerance);
        }
        for (int64_t c = cols; c < cols + 2; ++c)
          ASSERT_EQ(results[0][static_cast<size_t>(r * (cols + 2) + c)], Misaligned::kGuard);
      }
    }
  }
}

TEST(Swiglu, MatchesDoubleAndEverySetGivesTheSameBits) {
  for (const int64_t cols : {1, 7, 15, 16, 17, 33, 100, 768}) {
    const int64_t n = 2;
    Input x(n, 2 * cols, 2 * cols + 3, cols % 7, static_cast<uint64_t>(cols), 20.0f);
    // The ends of the exponential's range.
    const float special[] = {0.0f, -0.0f, 86.9f, -86.9f, 87.5f, -87.5f, -88.5f, -300.0f, 1e30f};
    for (int64_t c = 0; c < std::min<int64_t>(cols, 9); ++c) x.memory.data()[c] = special[c];
    std::vector<std::vector<float>> results;
    for (const KernelTable* table : tables()) {
      Misaligned out(n * cols, 1);
      const FloatRows gate{n, cols, x.rows.stride, x.rows.x};
      const FloatRows up{n, cols, x.rows.stride, x.rows.x + cols};
      table->swiglu(gate, up, {0, n}, out.data(), cols);
      results.emplace_back(out.values().begin(), out.values().end());
      EXPECT_TRUE(out.guards_intact());
      EXPECT_TRUE(same_bits(results[0], results.back())) << table->name;
    }
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        const double gate = x.rows.x[r * x.rows.stride + c];
        const double up = x.rows.x[r * x.rows.stride + cols + c];
        const double want = gate / (1 + std::exp(-gate)) * up;
        // Beyond the clamp of the exponential the result is below 1e-34.
        ASSERT_NEAR(results[0][static_cast<size_t>(r * cols + c)], want,
                    4e-7 * std::abs(want) + 1e-34);
      }
    }
  }
}

TEST(Silu, MatchesDoubleAndEverySetGivesTheSameBits) {
  for (const int64_t cols : {1, 7, 16, 33, 576}) {
    for (const bool with_residual : {false, true}) {
      const int64_t n = 3;
      Input x(n, cols, cols + 2, cols % 5, static_cast<uint64_t>(cols), 30.0f);
      Input add(n, cols, cols + 9, 3, static_cast<uint64_t>(cols) + 1, 3.0f);
      const FloatRows residual = with_residual ? add.rows : FloatRows{};
      std::vector<std::vector<float>> results;
      for (const KernelTable* table : tables()) {
        Misaligned out(n * cols, 3);
        table->silu(x.rows, residual, {0, n}, out.data(), cols);
        results.emplace_back(out.values().begin(), out.values().end());
        EXPECT_TRUE(out.guards_intact());
        EXPECT_TRUE(same_bits(results[0], results.back())) << table->name;
      }
      for (int64_t r = 0; r < n; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
          const double v = x.rows.x[r * x.rows.stride + c];
          const double plain = v / (1 + std::exp(-v));
          const double want = plain + (with_residual ? add.rows.x[r * add.rows.stride + c] : 0.0);
          ASSERT_NEAR(results[0][static_cast<size_t>(r * cols + c)], want,
                      4e-7 * std::abs(plain) + kEps * std::abs(want) + 1e-34);
        }
      }
    }
  }
}

// cos(q, k) in double precision, with the smallest length that counts.
double cosine(const float* q, const float* k, int64_t n) {
  double dot = 0, qq = 0, kk = 0;
  for (int64_t i = 0; i < n; ++i) {
    dot += static_cast<double>(q[i]) * k[i];
    qq += static_cast<double>(q[i]) * q[i];
    kk += static_cast<double>(k[i]) * k[i];
  }
  return dot / std::max(std::sqrt(qq), 1e-8) / std::max(std::sqrt(kk), 1e-8);
}

TEST(CosineGate, MatchesDoubleAndEverySetGivesTheSameBits) {
  for (const int64_t group : {1, 5, 16, 20, 64, 96}) {
    for (const bool with_residual : {false, true}) {
      const int64_t n = 4;
      const int64_t cols = 3 * group;
      const auto seed = static_cast<uint64_t>(group);
      Input q(n, cols, cols + 1, 2, seed, 5.0f);
      Input k(n, cols, cols, 5, seed + 1, 0.2f);
      Input v(n, cols, cols + 7, 1, seed + 2, 2.0f);
      Input add(n, cols, cols + 3, 0, seed + 3, 2.0f);
      for (int64_t i = 0; i < group; ++i) k.memory.data()[i] = 0.0f;            // no direction
      for (int64_t i = 0; i < group; ++i) q.memory.data()[group + i] = 1e-20f;  // too short
      const GateInputs in{q.rows, k.rows, v.rows, with_residual ? add.rows : FloatRows{}};
      std::vector<std::vector<float>> results;
      for (const KernelTable* table : tables()) {
        Misaligned out(n * cols, 7);
        table->cosine_gate(in, {0, n}, group, out.data(), cols);
        results.emplace_back(out.values().begin(), out.values().end());
        EXPECT_TRUE(out.guards_intact());
        EXPECT_TRUE(same_bits(results[0], results.back())) << table->name;
      }
      for (int64_t r = 0; r < n; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
          const int64_t head = c / group * group;
          const double likeness = cosine(q.rows.x + r * q.rows.stride + head,
                                         k.rows.x + r * k.rows.stride + head, group);
          const double value = v.rows.x[r * v.rows.stride + c];
          const double own = with_residual ? add.rows.x[r * add.rows.stride + c] : 0.0;
          // Sums of `group` products: the error is relative to their absolute values, at most 1.
          ASSERT_NEAR(results[0][static_cast<size_t>(r * cols + c)], own + likeness * value,
                      (static_cast<double>(group) / 16 + 12) * 2 * kEps *
                          (std::abs(value) + std::abs(own)));
        }
      }
    }
  }
}

TEST(CosineGate, AVectorWithItselfIsWeightedByOneAndWithItsNegativeByMinusOne) {
  Input x(1, 64, 64, 0, 9, 3.0f);
  Input minus(1, 64, 64, 0, 9, 3.0f);
  for (float& value : minus.memory.values()) value = -value;
  for (const KernelTable* table : tables()) {
    std::vector<float> same(64), opposite(64);
    table->cosine_gate({x.rows, x.rows, x.rows, {}}, {0, 1}, 16, same.data(), 64);
    table->cosine_gate({x.rows, minus.rows, x.rows, {}}, {0, 1}, 16, opposite.data(), 64);
    for (int i = 0; i < 64; ++i) {
      ASSERT_NEAR(same[static_cast<size_t>(i)], x.rows.x[i], 1e-6);
      ASSERT_NEAR(opposite[static_cast<size_t>(i)], -x.rows.x[i], 1e-6);
    }
  }
}

TEST(ToF16, RoundsToNearestEvenAndClampsInEverySet) {
  std::vector<float> x = {0.0f,       -0.0f, 1.0f,    65504.0f, 65519.0f, 65520.0f, 1e30f,
                          -1e30f,     kInf,  -kInf,   1e-8f,    2.98e-8f, 5.96e-8f, -6e-5f,
                          6.1035e-5f, 0.1f,  2049.0f, 2051.0f,  1e-40f,   -65505.f};
  Random random(3);
  for (int i = 0; i < 200; ++i)
    x.push_back(std::ldexp(random.uniform(-1, 1), static_cast<int>(random.between(-30, 18))));
  for (const KernelTable* table : tables()) {
    for (int64_t n = 0; n <= static_cast<int64_t>(x.size()); n += n < 40 ? 1 : 37) {
      std::vector<uint16_t> out(x.size() + 16, 0xabcd);
      table->to_f16(x.data(), n, out.data());
      for (int64_t i = 0; i < n; ++i) {
        const float clamped = std::clamp(x[static_cast<size_t>(i)], -65504.0f, 65504.0f);
        ASSERT_EQ(out[static_cast<size_t>(i)], f32_to_f16(clamped)) << table->name << " " << i;
      }
      for (size_t i = static_cast<size_t>(n); i < out.size(); ++i) ASSERT_EQ(out[i], 0xabcd);
    }
    // NaN becomes finite too: a weight of zero has to hide every value of a KV store.
    const std::vector<float> nan(17, kNan);
    std::vector<uint16_t> out(17);
    table->to_f16(nan.data(), 17, out.data());
    for (const uint16_t h : out) EXPECT_EQ(h, 0x7bff) << table->name;
  }
}

TEST(LogSumExp, MatchesDoubleAndEverySetGivesTheSameBits) {
  for (const int64_t n : {1, 2, 15, 16, 17, 31, 33, 1000, 5003}) {
    for (const float spread : {0.01f, 5.0f, 1000.0f}) {
      Input x(1, n, n, n % 16, static_cast<uint64_t>(n), spread);
      if (n > 20) x.memory.data()[19] = -kInf;
      double top = -kInf;
      for (int64_t i = 0; i < n; ++i) top = std::max<double>(top, x.rows.x[i]);
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += std::exp(x.rows.x[i] - top);
      const double want = top + std::log(sum);
      const double tolerance =
          (static_cast<double>(n) / 16 + 10) * 2 * kEps + 2 * kEps * std::abs(want);
      const float first = kernels_reference().log_sum_exp(x.rows.x, n);
      EXPECT_NEAR(first, want, tolerance) << n << " " << spread;
      for (const KernelTable* table : tables())
        EXPECT_EQ(table->log_sum_exp(x.rows.x, n), first) << table->name << " " << n;
    }
  }
}

TEST(LogSumExp, InfinitiesAndNan) {
  for (const KernelTable* table : tables()) {
    for (const int64_t n : {1, 16, 20}) {
      std::vector<float> x(static_cast<size_t>(n), -kInf);
      EXPECT_EQ(table->log_sum_exp(x.data(), n), -kInf) << table->name;
      x.back() = 2.5f;
      EXPECT_EQ(table->log_sum_exp(x.data(), n), 2.5f) << table->name;
      x.front() = kInf;
      EXPECT_EQ(table->log_sum_exp(x.data(), n), kInf) << table->name;
      x.back() = kNan;
      EXPECT_TRUE(std::isnan(table->log_sum_exp(x.data(), n))) << table->name << " " << n;
      std::fill(x.begin(), x.end(), kNan);
      EXPECT_TRUE(std::isnan(table->log_sum_exp(x.data(), n))) << table->name << " " << n;
    }
    EXPECT_EQ(table->log_sum_exp(nullptr, 0), -kInf);
  }
}

}  // namespace
}  // namespace clover
