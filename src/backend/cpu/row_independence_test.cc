// SPDX-License-Identifier: Apache-2.0
// Invariant 1 (field report A1): a row's bits depend on that row alone, never on how many other
// rows there are, what they hold, the thread count or the instruction set.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/backend.h"
#include "backend/cpu/test_util.h"

namespace clover {
namespace {

class RowIndependence : public ::testing::TestWithParam<DType> {};

std::string type_label(const ::testing::TestParamInfo<DType>& info) {
  return std::string(dtype_name(info.param));
}

constexpr int64_t kRows = 33;

// Every batch size from 2 to 33 somewhere in the sweep, all of them for the fastest set.
std::vector<int64_t> batch_sizes(size_t set) {
  if (set != 0) return {2, 3, 5, 7, 8, 9, 16, 31, 33};
  std::vector<int64_t> all;
  for (int64_t n = 2; n <= kRows; ++n) all.push_back(n);
  return all;
}

TEST_P(RowIndependence, A1LinearRowAloneEqualsRowAmongOthers) {
  const DType type = GetParam();
  const int64_t cols = is_quantised(type) ? (block_elements(type) == 256 ? 256 : 96) : 77;
  const int64_t outputs = 40;
  const RandomWeight weight(type, outputs, cols, 3);
  Random random(11);
  const std::vector<float> x = random.floats(kRows * cols, 2.0f);
  const std::vector<float> bias_values = random.floats(outputs);
  const std::vector<float> residual = random.floats(kRows * outputs);
  std::vector<float> expected(static_cast<size_t>(kRows * outputs));
  bool have_expected = false;
  const std::vector<std::string> sets = cpu_isas();
  for (size_t set = 0; set < sets.size(); ++set) {
    for (const int threads : {1, 2, 3}) {
      const auto backend = make_cpu_backend({threads, sets[set]});
      const MatrixPtr w = backend->load_matrix({&weight.view, 1});
      const WeightView bias_view{DType::kF32, 1, outputs,
                                 reinterpret_cast<const std::byte*>(bias_values.data())};
      const VectorPtr bias = backend->load_vector({&bias_view, 1});
      const auto run = [&](int64_t first, int64_t n) {
        const Tensor in = backend->from_host(n, cols, x.data() + first * cols);
        const Tensor add = backend->from_host(n, outputs, residual.data() + first * outputs);
        return host(*backend, backend->linear(in, *w, bias.get(), &add));
      };
      // Rows alone on several threads: some of them, since every loop is a handshake.
      for (int64_t r = 0; r < kRows; r += threads == 1 ? 1 : 16) {
        const std::vector<float> alone = run(r, 1);
        if (!have_expected) std::copy(alone.begin(), alone.end(), expected.begin() + r * outputs);
        ASSERT_TRUE(same_bits(alone, row_of(expected, outputs, r)))
            << sets[set] << ", " << threads << " threads, row " << r << " alone";
      }
      have_expected = true;
      for (const int64_t n : batch_sizes(set)) {
        const int64_t first = kRows - n;
        const std::vector<float> together = run(first, n);
        ASSERT_TRUE(same_bits(together, std::span<const float>(expected).subspan(
                                            static_cast<size_t>(first * outputs))))
            << sets[set] << ", " << threads << " threads, " << n << " rows";
      }
    }
  }
}

// The neighbours' values play no part either, be they NaN.
TEST_P(RowIndependence, NanStaysInItsRowAndReachesItsOutputs) {
  const DType type = GetParam();
  const int64_t cols = is_quantised(type) ? 512 : 70;
  const int64_t outputs = 20;
  const RandomWeight weight(type, outputs, cols, 4);
  const std::vector<float> clean = Random(12).floats(9 * cols);
  for (const std::string& isa : cpu_isas()) {
    const auto backend = make_cpu_backend({2, isa});
    const MatrixPtr w = backend->load_matrix({&weight.view, 1});
    const auto run = [&](const std::vector<float>& x) {
      return host(*backend, backend->linear(backend->from_host(9, cols, x.data()), *w));
    };
    const std::vector<float> expected = run(clean);
    const float inf = std::numeric_limits<float>::infinity();
    for (const float bad : {std::nanf(""), inf, -inf}) {
      for (const int64_t row : {0, 3, 8}) {
        std::vector<float> x = clean;
        x[static_cast<size_t>(row * cols + cols / 3)] = bad;
        const std::vector<float> got = run(x);
        for (int64_t r = 0; r < 9; ++r) {
          if (r != row) {
            EXPECT_TRUE(same_bits(row_of(got, outputs, r), row_of(expected, outputs, r))) << isa;
            continue;
          }
          for (const float y : row_of(got, outputs, r)) EXPECT_FALSE(std::isfinite(y)) << isa;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RowIndependence, ::testing::ValuesIn(kWeightTypes), type_label);

// Stacked matrices of several types, enough panels for many chunks, and a strided view as input.
TEST(RowIndependenceOfViews, A1StackedMatrixAndStridedInput) {
  const RandomWeight a(DType::kQ4_1, 300, 256, 1);
  const RandomWeight b(DType::kF16, 50, 256, 2);
  const RandomWeight c(DType::kQ6_K, 33, 256, 3);
  const WeightView parts[] = {a.view, b.view, c.view};
  constexpr int64_t kWide = 256 + 19;
  const std::vector<float> x = Random(5).floats(26 * kWide);
  std::vector<float> expected;
  for (const std::string& isa : cpu_isas()) {
    for (const int threads : {1, 2, 3}) {
      const auto backend = make_cpu_backend({threads, isa});
      const MatrixPtr w = backend->load_matrix(parts);
      const Tensor wide = backend->from_host(26, kWide, x.data());
      const std::vector<float> all =
          host(*backend, backend->linear(backend->columns(wide, 5, 256), *w));
      if (expected.empty()) expected = all;
      ASSERT_TRUE(same_bits(all, expected)) << isa << " " << threads;
      for (const int64_t r : {0, 13, 25}) {
        const Tensor one = backend->from_host(1, 256, x.data() + r * kWide + 5);
        ASSERT_TRUE(same_bits(host(*backend, backend->linear(one, *w)), row_of(all, 383, r)))
            << isa << " " << threads << " " << r;
      }
    }
  }
}

// Norms and the gated unit on rows alone and together, above and below the size that is shared
// between threads.
TEST(RowIndependenceOfRows, A1NormAndSwiglu) {
  const int64_t cols = 576;
  const std::vector<float> x = Random(6).floats(33 * cols, 3.0f);
  const std::vector<float> weights = Random(7).floats(cols);
  const WeightView view{DType::kF32, 1, cols, reinterpret_cast<const std::byte*>(weights.data())};
  std::vector<float> norm;
  std::vector<float> gated;
  for (const std::string& isa : cpu_isas()) {
    for (const int threads : {1, 3}) {
      const auto backend = make_cpu_backend({threads, isa});
      const VectorPtr w = backend->load_vector({&view, 1});
      const Tensor all = backend->from_host(33, cols, x.data());
      const std::vector<float> norms = host(*backend, backend->rms_norm(all, *w, 1e-6f));
      const std::vector<float> gates = host(*backend, backend->swiglu(all));
      if (norm.empty()) norm = norms;
      if (gated.empty()) gated = gates;
      ASSERT_TRUE(same_bits(norms, norm)) << isa;
      ASSERT_TRUE(same_bits(gates, gated)) << isa;
      for (int64_t r = 0; r < 33; ++r) {
        const Tensor one = backend->from_host(1, cols, x.data() + r * cols);
        ASSERT_TRUE(
            same_bits(host(*backend, backend->rms_norm(one, *w, 1e-6f)), row_of(norm, cols, r)));
        ASSERT_TRUE(same_bits(host(*backend, backend->swiglu(one)), row_of(gated, cols / 2, r)));
      }
    }
  }
}

// The gates of speculators, on rows alone and together, with strided inputs.
TEST(RowIndependenceOfRows, A1SiluAndCosineGate) {
  const int64_t cols = 576;
  const int64_t heads = 9;
  const std::vector<float> x = Random(8).floats(33 * 3 * cols, 3.0f);
  const std::vector<float> residual = Random(9).floats(33 * cols);
  std::vector<float> gated;
  std::vector<float> smooth;
  for (const std::string& isa : cpu_isas()) {
    for (const int threads : {1, 3}) {
      const auto backend = make_cpu_backend({threads, isa});
      const auto run = [&](int64_t first, int64_t n, std::vector<float>& gate,
                           std::vector<float>& unit) {
        const Tensor qkv = backend->from_host(n, 3 * cols, x.data() + first * 3 * cols);
        const Tensor add = backend->from_host(n, cols, residual.data() + first * cols);
        const Tensor q = backend->columns(qkv, 0, cols);
        const Tensor k = backend->columns(qkv, cols, cols);
        const Tensor v = backend->columns(qkv, 2 * cols, cols);
        gate = host(*backend, backend->cosine_gate(q, k, v, heads, &add));
        unit = host(*backend, backend->silu(v, &add));
      };
      std::vector<float> gates, units;
      run(0, 33, gates, units);
      if (gated.empty()) gated = gates;
      if (smooth.empty()) smooth = units;
      ASSERT_TRUE(same_bits(gates, gated)) << isa;
      ASSERT_TRUE(same_bits(units, smooth)) << isa;
      for (int64_t r = 0; r < 33; ++r) {
        run(r, 1, gates, units);
        ASSERT_TRUE(same_bits(gates, row_of(gated, cols, r)));
        ASSERT_TRUE(same_bits(units, row_of(smooth, cols, r)));
      }
    }
  }
}

}  // namespace
}  // namespace clover
