// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "backend/backend.h"
#include "backend/cpu/test_util.h"
#include "base/error.h"
#include "base/thread_pool.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string error_of(const std::function<void()>& action, ErrorCode code) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code);
    return e.what();
  }
  return "no error";
}

WeightView view_of(const std::vector<float>& values, int64_t rows = 1) {
  return {DType::kF32, rows, static_cast<int64_t>(values.size()) / rows,
          reinterpret_cast<const std::byte*>(values.data())};
}

class CpuBackendTest : public ::testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<Backend> backend_ = make_cpu_backend({2, GetParam()});
  Tensor tensor(int64_t rows, int64_t cols, const std::vector<float>& values) {
    return backend_->from_host(rows, cols, values.data());
  }
  // The same values as columns of a wider tensor full of NaN.
  Tensor view(int64_t rows, int64_t cols, const std::vector<float>& values) {
    std::vector<float> wide(static_cast<size_t>(rows * (cols + 11)), kNan);
    for (int64_t r = 0; r < rows; ++r)
      std::copy_n(values.data() + r * cols, cols, wide.data() + r * (cols + 11) + 5);
    return backend_->columns(tensor(rows, cols + 11, wide), 5, cols);
  }
  MatrixPtr matrix(const WeightView& part) { return backend_->load_matrix({&part, 1}); }
  VectorPtr vector(const WeightView& part) { return backend_->load_vector({&part, 1}); }
};

INSTANTIATE_TEST_SUITE_P(Sets, CpuBackendTest, ::testing::ValuesIn(cpu_isas()),
                         [](const auto& isa) { return isa.param; });

TEST(MakeCpuBackend, NamesAndErrors) {
  const std::vector<std::string> isas = cpu_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.back(), "reference");
  for (const std::string& isa : isas) {
    EXPECT_THAT(make_cpu_backend({3, isa})->description(), "cpu, " + isa + ", 3 threads");
    EXPECT_THAT(make_cpu_backend({1, isa})->description(), "cpu, " + isa + ", 1 thread");
  }
  for (const std::string any : {"", "auto"})
    EXPECT_THAT(make_cpu_backend({1, any})->description(), HasSubstr(isas.front()));
  EXPECT_EQ(make_cpu_backend({0, ""})->threads(), granted_cores());
  for (const std::string bad : {"sse", "AVX2", "avx", "avx512 "})
    EXPECT_THAT(error_of(
                    [&] {
                      make_cpu_backend({1, bad});
                    },
                    ErrorCode::kInvalidArgument),
                HasSubstr("unknown instruction set " + bad));
  for (const int threads : {-1, 1025, std::numeric_limits<int>::max()})
    EXPECT_THAT(error_of(
                    [&] {
                      make_cpu_backend({threads, ""});
                    },
                    ErrorCode::kInvalidArgument),
                HasSubstr(fmt::format("{}", threads)));
}

TEST_P(CpuBackendTest, EveryOperationTakesStridedViews) {
  Random random(1);
  const int64_t n = 9;
  const int64_t cols = 96;
  const std::vector<float> a = random.floats(n * cols, 3.0f);
  const std::vector<float> b = random.floats(n * cols, 3.0f);
  const std::vector<float> weights = random.floats(cols);
  const VectorPtr w = vector(view_of(weights));
  const VectorPtr heads = vector(view_of({weights.begin(), weights.begin() + 24}));
  const RandomWeight quantised(DType::kQ4_1, 20, cols, 1);
  const RandomWeight floats(DType::kBF16, 20, cols, 2);
  const MatrixPtr q = matrix(quantised.view);
  const MatrixPtr f = matrix(floats.view);
  const std::vector<float> residual = random.floats(n * 20);
  const auto same = [&](const Tensor& x, const Tensor& y) {
    return same_bits(host(*backend_, x), host(*backend_, y));
  };
  const Tensor plain = tensor(n, cols, a);
  const Tensor strided = view(n, cols, a);
  ASSERT_NE(strided.stride(), strided.cols());
  EXPECT_TRUE(same_bits(host(*backend_, strided), a));
  const Tensor plain_residual = tensor(n, 20, residual);
  const Tensor strided_residual = view(n, 20, residual);
  for (const MatrixPtr& m : {q, f}) {
    EXPECT_TRUE(same(backend_->linear(plain, *m, nullptr, &plain_residual),
                     backend_->linear(strided, *m, nullptr, &strided_residual)));
  }
  EXPECT_TRUE(same(backend_->rms_norm(plain, *w, 1e-5f), backend_->rms_norm(strided, *w, 1e-5f)));
  EXPECT_TRUE(
      same(backend_->rms_norm(plain, *heads, 1e-5f), backend_->rms_norm(strided, *heads, 1e-5f)));
  EXPECT_TRUE(same(backend_->swiglu(plain), backend_->swiglu(strided)));
  EXPECT_TRUE(same(backend_->scale(plain, 0.3f), backend_->scale(strided, 0.3f)));
  EXPECT_TRUE(
      same(backend_->add(plain, tensor(n, cols, b)), backend_->add(strided, view(n, cols, b))));
  const std::vector<int32_t> rows = {3, 0, 8, 3};
  EXPECT_TRUE(same(backend_->gather_rows(plain, rows), backend_->gather_rows(strided, rows)));
  EXPECT_EQ(backend_->log_sum_exp(plain), backend_->log_sum_exp(strided));
  const auto x = backend_->top_k(plain, 7);
  const auto y = backend_->top_k(strided, 7);
  for (size_t r = 0; r < x.size(); ++r)
    for (size_t i = 0; i < 7; ++i) {
      EXPECT_EQ(x[r][i].id, y[r][i].id);
      EXPECT_EQ(x[r][i].value, y[r][i].value);
    }
  const Tensor inner = backend_->columns(strided, 10, 3);
  EXPECT_EQ(inner.row(2)[1], a[2 * cols + 11]);
}

TEST_P(CpuBackendTest, PlainArithmetic) {
  const std::vector<float> a = Random(2).floats(3 * 5);
  const std::vector<float> b = Random(3).floats(3 * 5);
  const std::vector<float> sum = host(*backend_, backend_->add(tensor(3, 5, a), tensor(3, 5, b)));
  const std::vector<float> product = host(*backend_, backend_->scale(tensor(3, 5, a), -2.5f));
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(sum[i], a[i] + b[i]);
    EXPECT_EQ(product[i], a[i] * -2.5f);
  }
  const std::vector<int32_t> order = {2, 2, 0};
  const std::vector<float> rows = host(*backend_, backend_->gather_rows(tensor(3, 5, a), order));
  for (size_t r = 0; r < 3; ++r)
    for (size_t c = 0; c < 5; ++c)
      EXPECT_EQ(rows[r * 5 + c], a[static_cast<size_t>(order[r]) * 5 + c]);
  EXPECT_TRUE(host(*backend_, backend_->gather_rows(tensor(3, 5, a), {})).empty());
}

TEST_P(CpuBackendTest, EmptyBatchesPassThroughEveryOperation) {
  const std::vector<float> weights = Random(2).floats(64);
  const VectorPtr w = vector(view_of(weights));
  const RandomWeight q(DType::kQ8_0, 20, 64, 1);
  const RandomWeight f(DType::kF16, 20, 64, 1);
  const Tensor none = backend_->empty(0, 64);
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(backend_->linear(none, *matrix(q.view)).rows(), 0);
  EXPECT_EQ(backend_->linear(none, *matrix(f.view)).cols(), 20);
  EXPECT_EQ(backend_->embed(*matrix(q.view), {}).rows(), 0);
  EXPECT_EQ(backend_->rms_norm(none, *w, 1e-5f).rows(), 0);
  EXPECT_EQ(backend_->swiglu(none).cols(), 32);
  EXPECT_EQ(backend_->rope(none, 1, 64, {}, RopeLayout::kHalves).rows(), 0);
  EXPECT_TRUE(backend_->top_k(none, 3).empty());
  EXPECT_TRUE(backend_->log_sum_exp(none).empty());
}

// Big enough to be shared between threads, and small.
TEST_P(CpuBackendTest, RopeRotatesPairsInBothLayouts) {
  for (const int64_t n : {1, 40}) {
    for (const RopeLayout layout : {RopeLayout::kHalves, RopeLayout::kAdjacent}) {
      for (const int64_t rotary : {0, 2, 8, 20}) {
        const int64_t heads = 3;
        const int64_t head_dim = 20;
        const int64_t cols = (heads + 1) * head_dim;  // the last head is left alone
        const std::vector<float> x = Random(4).floats(n * cols);
        RopeAngles angles{rotary, {}, {}};
        Random random(5);
        for (int64_t i = 0; i < n * rotary / 2; ++i) {
          const float angle = random.uniform(-3, 3);
          angles.cos.push_back(std::cos(angle));
          angles.sin.push_back(std::sin(angle));
        }
        for (const Tensor& in : {tensor(n, cols, x), view(n, cols, x)}) {
          const std::vector<float> got =
              host(*backend_, backend_->rope(in, heads, head_dim, angles, layout));
          std::vector<float> want = x;
          for (int64_t r = 0; r < n; ++r)
            for (int64_t h = 0; h < heads; ++h)
              for (int64_t i = 0; i < rotary / 2; ++i) {
                const bool halves = layout == RopeLayout::kHalves;
                const int64_t base = r * cols + h * head_dim;
                const auto p = static_cast<size_t>(base + (halves ? i : 2 * i));
                const auto q = static_cast<size_t>(base + (halves ? i + rotary / 2 : 2 * i + 1));
                const float cos = angles.cos[static_cast<size_t>(r * rotary / 2 + i)];
                const float sin = angles.sin[static_cast<size_t>(r * rotary / 2 + i)];
                want[p] = x[p] * cos - x[q] * sin;
                want[q] = x[q] * cos + x[p] * sin;
              }
          for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 4e-7) << i;
        }
      }
    }
  }
}

TEST_P(CpuBackendTest, TopKOrdersByValueThenLowerId) {
  const std::vector<float> x = {1, 5, 5, -kInf, 5, 2, -0.0f, 0.0f};
  const auto ids = [&](int k) {
    std::vector<int32_t> out;
    const auto rows = backend_->top_k(tensor(1, 8, x), k);
    for (const TopEntry& e : rows[0]) {
      EXPECT_EQ(e.value, x[static_cast<size_t>(e.id)]);
      out.push_back(e.id);
    }
    return out;
  };
  EXPECT_THAT(ids(1), ElementsAre(1));
  EXPECT_THAT(ids(3), ElementsAre(1, 2, 4));
  EXPECT_THAT(ids(8), ElementsAre(1, 2, 4, 5, 0, 6, 7, 3));
  EXPECT_THAT(ids(100), ElementsAre(1, 2, 4, 5, 0, 6, 7, 3));
  EXPECT_TRUE(ids(0).empty());
  EXPECT_TRUE(ids(-1).empty());
}

TEST_P(CpuBackendTest, TopKEqualsASort) {
  Random random(8);
  const int64_t n = 4;
  const int64_t cols = 5003;
  std::vector<float> x(static_cast<size_t>(n * cols));
  // Many ties in the first half of the rows, none in the others.
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = i < x.size() / 2 ? static_cast<float>(random.between(0, 50)) : random.uniform(-9, 9);
  for (const int k : {1, 2, 8, 64, 5002, 5003}) {
    const auto got = backend_->top_k(tensor(n, cols, x), k);
    for (int64_t r = 0; r < n; ++r) {
      std::vector<int32_t> ids(static_cast<size_t>(cols));
      for (int32_t i = 0; i < cols; ++i) ids[static_cast<size_t>(i)] = i;
      const float* row = x.data() + r * cols;
      std::stable_sort(ids.begin(), ids.end(),
                       [&](int32_t a, int32_t b) { return row[a] > row[b]; });
      ASSERT_EQ(got[static_cast<size_t>(r)].size(), static_cast<size_t>(k));
      for (size_t i = 0; i < static_cast<size_t>(k); ++i)
        ASSERT_EQ(got[static_cast<size_t>(r)][i].id, ids[i]);
    }
  }
  // NaN has no place in an order: the rest is ordered as if it was not there.
  std::vector<float> with_nan = x;
  for (size_t i = 0; i < x.size(); i += 7) {
    with_nan[i] = kNan;
    x[i] = -kInf;
  }
  const auto got = backend_->top_k(tensor(n, cols, with_nan), 64);
  const auto expected = backend_->top_k(tensor(n, cols, x), 64);
  for (size_t r = 0; r < got.size(); ++r)
    for (size_t i = 0; i < 64; ++i) ASSERT_EQ(got[r][i].id, expected[r][i].id);
  const std::vector<float> none(300, kNan);
  EXPECT_TRUE(backend_->top_k(tensor(1, 300, none), 3).front().empty());
}

TEST_P(CpuBackendTest, LogSumExpOfRows) {
  const std::vector<float> x = {0, 0, 0, 0, -kInf, 3, -kInf, -kInf, -kInf, -kInf, -kInf, -kInf};
  EXPECT_THAT(backend_->log_sum_exp(tensor(3, 4, x)),
              ElementsAre(::testing::FloatNear(std::log(4.0f), 1e-6f), 3.0f, -kInf));
}

TEST_P(CpuBackendTest, EmbedTakesRowsOfEveryTypeAndRefusesIdsOutside) {
  for (const DType type : kWeightTypes) {
    const RandomWeight weight(type, 50, 256, 6);
    const MatrixPtr table = matrix(weight.view);
    const std::vector<int32_t> ids = {49, 0, 17, 17, 33};
    const std::vector<float> got = host(*backend_, backend_->embed(*table, ids));
    const std::vector<float> want = weight.floats();
    for (size_t i = 0; i < ids.size(); ++i)
      for (int64_t c = 0; c < 256; ++c)
        ASSERT_NEAR(got[i * 256 + static_cast<size_t>(c)],
                    want[static_cast<size_t>(ids[i] * 256 + c)], 4e-3)
            << dtype_name(type);
    for (const int32_t bad :
         {-1, 50, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
      const std::vector<int32_t> with_bad = {1, bad};
      EXPECT_THAT(error_of([&] { backend_->embed(*table, with_bad); }, ErrorCode::kInvalidArgument),
                  HasSubstr(fmt::format("token id {} is outside the vocabulary of 50", bad)));
    }
  }
}

TEST_P(CpuBackendTest, LinearRefusesRowsOfAnotherWidth) {
  const RandomWeight weight(DType::kQ4_0, 20, 64, 1);
  const MatrixPtr w = matrix(weight.view);
  for (const int64_t cols : {32, 63, 96})
    EXPECT_THAT(error_of([&] { backend_->linear(backend_->empty(2, cols), *w); },
                         ErrorCode::kInvalidArgument),
                HasSubstr(fmt::format("a matrix of 64 inputs cannot take rows of {}", cols)));
}

TEST_P(CpuBackendTest, VectorsAppendTheirPartsAsFloats) {
  const std::vector<float> a = {1.5f, -2.0f};
  const uint16_t halves[] = {f32_to_f16(0.25f), f32_to_f16(-3.0f), f32_to_f16(7.0f)};
  const WeightView parts[] = {view_of(a),
                              {DType::kF16, 3, 1, reinterpret_cast<const std::byte*>(halves)}};
  const VectorPtr v = backend_->load_vector(parts);
  ASSERT_EQ(v->size(), 5);
  const std::vector<float> zero(32, 0.0f);
  const std::vector<float> none(5 * 32, 0.0f);
  // A bias on a product of zero shows its values.
  EXPECT_THAT(
      host(*backend_, backend_->linear(tensor(1, 32, zero), *matrix(view_of(none, 5)), v.get())),
      ElementsAre(1.5f, -2.0f, 0.25f, -3.0f, 7.0f));
  const WeightView integers{DType::kI32, 1, 2, reinterpret_cast<const std::byte*>(a.data())};
  EXPECT_THAT(error_of([&] { vector(integers); }, ErrorCode::kUnsupported), HasSubstr("I32"));
}

}  // namespace
}  // namespace clover
