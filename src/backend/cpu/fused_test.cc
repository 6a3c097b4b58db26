// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/backend.h"
#include "backend/cpu/test_util.h"

namespace clover {
namespace {

// A product with what makes its inputs gives the bits of the two steps one after the other: few
// rows, which every thread prepares for itself, and many, which they share; quantised and float
// weights, and a stack of both; more threads than blocks.
TEST(Fused, EqualsItsStepsA1) {
  const int64_t cols = 96;
  const int64_t outputs = 70;
  const RandomWeight quantised(DType::kQ4_1, outputs, cols, 1);
  const RandomWeight floats(DType::kBF16, outputs, cols, 2);
  const std::vector<std::vector<WeightView>> matrices = {
      {quantised.view}, {floats.view}, {quantised.view, floats.view}, {floats.view, floats.view}};
  Random random(3);
  const std::vector<float> weights = random.floats(cols);
  const WeightView norm_view{DType::kF32, 1, cols,
                             reinterpret_cast<const std::byte*>(weights.data())};
  const std::vector<float> bias_values = random.floats(2 * outputs);
  for (const std::string& isa : cpu_isas()) {
    for (const int threads : {1, 2, 5}) {
      const auto backend = make_cpu_backend({threads, isa});
      const VectorPtr norm = backend->load_vector({&norm_view, 1});
      for (const auto& parts : matrices) {
        const MatrixPtr w = backend->load_matrix(parts);
        const WeightView bias_view{DType::kF32, 1, w->rows(),
                                   reinterpret_cast<const std::byte*>(bias_values.data())};
        const VectorPtr bias = backend->load_vector({&bias_view, 1});
        for (const int64_t n : {1, 2, 3, 8, 9, 170, 200}) {
          SCOPED_TRACE(
              fmt::format("{}, {} threads, {} parts, {} rows", isa, threads, parts.size(), n));
          const Tensor x =
              backend->from_host(n, 2 * cols, random.floats(n * 2 * cols, 3.0f).data());
          const Tensor half = backend->columns(x, 7, cols);
          const Tensor residual =
              backend->from_host(n, w->rows(), random.floats(n * w->rows()).data());
          const Tensor normed = backend->rms_norm(half, *norm, 1e-5f);
          ASSERT_TRUE(
              same_bits(host(*backend, backend->norm_linear(half, *norm, 1e-5f, *w, bias.get())),
                        host(*backend, backend->linear(normed, *w, bias.get()))));
          ASSERT_TRUE(same_bits(
              host(*backend, backend->swiglu_linear(x, *w, &residual)),
              host(*backend, backend->linear(backend->swiglu(x), *w, nullptr, &residual))));
        }
      }
    }
  }
}

}  // namespace
}  // namespace clover
