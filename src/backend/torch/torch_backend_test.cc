// SPDX-License-Identifier: Apache-2.0
// Every operation over ATen against the native backend's reference kernels.
#include "backend/torch_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "backend/cpu/attention_fixture.h"
#include "backend/cpu/test_util.h"
#include "base/error.h"

namespace clover {
namespace {

using ::testing::HasSubstr;

// Both add in float32 in different orders; values are of the order of 1.
constexpr float kNear = 2e-5f;

std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void expect_near(std::span<const float> got, std::span<const float> want, float tolerance = kNear) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], tolerance * std::max(1.0f, std::abs(want[i]))) << "value " << i;
}

class TorchBackendTest : public ::testing::Test {
 protected:
  const std::shared_ptr<Backend> torch_ = make_torch_backend({.threads = 1});
  const std::shared_ptr<Backend> native_ = make_cpu_backend({.threads = 1, .isa = "reference"});
  Random random_{1};

  // Runs an operation on both and compares.
  void compare(const std::function<Tensor(Backend&)>& body, float tolerance = kNear) {
    const Tensor got = body(*torch_);
    const Tensor want = body(*native_);
    ASSERT_EQ(got.rows(), want.rows());
    ASSERT_EQ(got.cols(), want.cols());
    expect_near(host(*torch_, got), host(*native_, want), tolerance);
  }
  Tensor input(Backend& b, int64_t rows, int64_t cols, uint64_t seed) const {
    return b.from_host(rows, cols, Random(seed).floats(rows * cols, 2.0f).data());
  }
  static MatrixPtr matrix(Backend& b, int64_t rows, int64_t cols, uint64_t seed,
                          DType type = DType::kF32) {
    const RandomWeight w(type, rows, cols, seed);
    return b.load_matrix({&w.view, 1});
  }
  static VectorPtr vector(Backend& b, int64_t size, uint64_t seed) {
    const RandomWeight w(DType::kF32, 1, size, seed);
    return b.load_vector({&w.view, 1});
  }
};

TEST_F(TorchBackendTest, DecodesWeightsOfEveryType) {
  const std::vector<int32_t> ids = {3, 0, 4, 3};
  for (const DType type : kWeightTypes) {
    SCOPED_TRACE(dtype_name(type));
    const RandomWeight w(type, 5, 256, 7);
    const std::vector<float> all = w.floats();
    const MatrixPtr table = torch_->load_matrix({&w.view, 1});
    const std::vector<float> got = host(*torch_, torch_->embed(*table, ids));
    for (size_t i = 0; i < ids.size(); ++i)
      EXPECT_TRUE(same_bits(row_of(got, 256, static_cast<int64_t>(i)), row_of(all, 256, ids[i])));
  }
}

TEST_F(TorchBackendTest, StacksMatricesAndNamesTheirTypes) {
  const RandomWeight a(DType::kQ4_1, 3, 32, 1), c(DType::kQ8_0, 2, 32, 2), d(DType::kF32, 2, 64, 3);
  const std::vector<WeightView> parts = {a.view, c.view, a.view};
  const MatrixPtr stacked = torch_->load_matrix(parts);
  EXPECT_EQ(stacked->rows(), 8);
  EXPECT_EQ(stacked->cols(), 32);
  EXPECT_EQ(stacked->bytes(), 8 * 32 * 4);
  EXPECT_EQ(stacked->type_name(), native_->load_matrix(parts)->type_name());
  const std::vector<WeightView> odd = {a.view, d.view};
  EXPECT_THAT(message_of([&] { torch_->load_matrix(odd); }), HasSubstr("32 and 64 columns"));
  const std::vector<int32_t> ids = {0, 3, 4, 5, 7};
  compare([&](Backend& b) { return b.embed(*b.load_matrix(parts), ids); }, 0.0f);
}

TEST_F(TorchBackendTest, MultipliesWithBiasAndResidual) {
  for (const int64_t rows : {1, 7}) {
    compare([&](Backend& b) { return b.linear(input(b, rows, 48, 1), *matrix(b, 20, 48, 2)); });
    compare([&](Backend& b) {
      const Tensor residual = input(b, rows, 20, 3);
      return b.linear(input(b, rows, 48, 1), *matrix(b, 20, 48, 2), vector(b, 20, 4).get(),
                      &residual);
    });
    compare([&](Backend& b) {
      return b.norm_linear(input(b, rows, 48, 1), *vector(b, 48, 5), 1e-5f, *matrix(b, 20, 48, 2),
                           vector(b, 20, 4).get());
    });
    compare([&](Backend& b) {
      const Tensor residual = input(b, rows, 20, 3);
      return b.swiglu_linear(input(b, rows, 96, 1), *matrix(b, 20, 48, 2), &residual);
    });
  }
}

TEST_F(TorchBackendTest, NormalisesRowsAndHeads) {
  compare([&](Backend& b) { return b.rms_norm(input(b, 3, 48, 1), *vector(b, 48, 2), 1e-5f); });
  compare([&](Backend& b) { return b.rms_norm(input(b, 3, 48, 1), *vector(b, 16, 2), 1e-6f); });
  compare([&](Backend& b) {
    return b.rms_norm(b.columns(input(b, 3, 48, 1), 16, 32), *vector(b, 16, 2), 1e-6f);
  });
}

TEST_F(TorchBackendTest, RotatesTheFirstHeadsInBothLayouts) {
  RopeAngles angles;
  for (const int64_t rotary : {16, 8}) {
    angles.rotary_dim = rotary;
    angles.cos = Random(8).floats(5 * rotary / 2);
    angles.sin = Random(9).floats(5 * rotary / 2);
    for (const RopeLayout layout : {RopeLayout::kHalves, RopeLayout::kAdjacent})
      for (const int64_t heads : {2, 4})
        compare([&](Backend& b) { return b.rope(input(b, 5, 64, 1), heads, 16, angles, layout); });
  }
}

TEST_F(TorchBackendTest, GatesAddsScalesAndGathers) {
  compare([&](Backend& b) { return b.swiglu(input(b, 4, 34, 1)); });
  compare([&](Backend& b) { return b.silu(input(b, 4, 17, 1)); });
  compare([&](Backend& b) {
    const Tensor residual = input(b, 4, 17, 2);
    return b.silu(input(b, 4, 17, 1), &residual);
  });
  compare([&](Backend& b) { return b.add(input(b, 4, 17, 1), input(b, 4, 17, 2)); });
  compare([&](Backend& b) { return b.scale(input(b, 4, 17, 1), 0.37f); });
  const std::vector<int32_t> rows = {3, 3, 0};
  compare([&](Backend& b) { return b.gather_rows(b.columns(input(b, 4, 17, 1), 2, 9), rows); });
}

TEST_F(TorchBackendTest, GatesByCosine) {
  compare([&](Backend& b) {
    return b.cosine_gate(input(b, 4, 24, 1), input(b, 4, 24, 2), input(b, 4, 24, 3), 3);
  });
  // A vector without length counts as one of length 1e-8.
  const std::vector<float> zeros(24);
  compare([&](Backend& b) {
    const Tensor nothing = b.from_host(1, 24, zeros.data());
    const Tensor residual = input(b, 1, 24, 4);
    return b.cosine_gate(nothing, input(b, 1, 24, 2), input(b, 1, 24, 3), 2, &residual);
  });
  EXPECT_THAT(message_of([&] {
                const Tensor x = input(*torch_, 1, 24, 1);
                torch_->cosine_gate(x, x, x, 5);
              }),
              HasSubstr("24 columns do not split into 5 heads"));
}

TEST_F(TorchBackendTest, FindsTheLargestWithTiesByLowerIdAndWithoutNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = {1, 3, nan, 3, 2, -1, nan, nan, nan, nan, 0, nan};
  const auto got = torch_->top_k(torch_->from_host(2, 6, values.data()), 3);
  const auto want = native_->top_k(native_->from_host(2, 6, values.data()), 3);
  ASSERT_EQ(got.size(), want.size());
  for (size_t r = 0; r < got.size(); ++r) {
    ASSERT_EQ(got[r].size(), want[r].size());
    for (size_t i = 0; i < got[r].size(); ++i) {
      EXPECT_EQ(got[r][i].id, want[r][i].id);
      EXPECT_EQ(got[r][i].value, want[r][i].value);
    }
  }
  EXPECT_EQ(torch_->top_k(torch_->from_host(1, 2, values.data()), 9).front().size(), 2u);
  EXPECT_TRUE(torch_->top_k(torch_->from_host(1, 2, values.data()), 0).front().empty());
}

TEST_F(TorchBackendTest, SumsExponentials) {
  std::vector<float> values = random_.floats(3 * 100, 30.0f);
  values[0] = 1000.0f;
  expect_near(torch_->log_sum_exp(torch_->from_host(3, 100, values.data())),
              native_->log_sum_exp(native_->from_host(3, 100, values.data())), 1e-6f);
}

// Prompts, chains behind them and trees, in one batch and in several.
TEST_F(TorchBackendTest, AttendsAlongPaths) {
  const std::vector<AttentionCase> cases = {
      {.type = DType::kF32},
      {.heads = 6, .kv_heads = 2, .head_dim = 8, .type = DType::kF16},
      {.heads = 2, .kv_heads = 2, .type = DType::kF32, .window = 5},
      {.heads = 4, .kv_heads = 2, .type = DType::kF32, .alibi = true},
      {.heads = 4, .kv_heads = 1, .type = DType::kF16, .window = 3, .alibi = true}};
  for (const AttentionCase& c : cases) {
    SCOPED_TRACE(c.heads * 100 + c.window);
    AttentionWorld torch(c, torch_);
    AttentionWorld native(c);
    const auto step = [&](const std::vector<SequenceRows>& rows, int64_t layer) {
      expect_near(torch.run(rows, layer), native.run(rows, layer), 1e-5f);
    };
    std::vector<int64_t> tokens(40);
    std::iota(tokens.begin(), tokens.end(), 100);
    for (const int64_t layer : {0, 1}) {
      step({chain(tokens, 0, 20), chain(tokens, 0, 3)}, layer);
      step({chain(tokens, 20, 21), RandomTree(3, 9, 500, 4).rows}, layer);
      step({RandomTree(21, 17, 700, 5).rows, {}, chain(tokens, 0, 33)}, layer);
    }
  }
}

TEST_F(TorchBackendTest, MovesKeysAndValuesOneAfterTheOther) {
  const AttentionCase c{.type = DType::kF32};
  AttentionWorld torch(c, torch_);
  AttentionWorld native(c);
  std::vector<int64_t> tokens(24);
  std::iota(tokens.begin(), tokens.end(), 0);
  for (AttentionWorld* world : {&torch, &native}) {
    world->run({chain(tokens, 0, 24)});
    const auto at = [&](int64_t slot) { return world->address(0, slot); };
    const std::vector<KvStore::Move> moves = {
        {at(20), at(18)}, {at(18), at(19)}, {at(5), at(5)}, {at(3), at(20)}, {at(20), at(2)}};
    world->store().move(moves);
  }
  const SequenceRows last = {{900, 24, first_slots(25)}};
  expect_near(torch.run({last}), native.run({last}));
}

TEST_F(TorchBackendTest, NarrowProductsStayNear) {
  const std::shared_ptr<Backend> narrow = make_torch_backend({.threads = 2, .type = DType::kBF16});
  const auto body = [&](Backend& b) {
    return b.linear(input(b, 3, 64, 1), *matrix(b, 16, 64, 2), vector(b, 16, 3).get());
  };
  const std::vector<float> got = host(*narrow, body(*narrow));
  const std::vector<float> want = host(*native_, body(*native_));
  expect_near(got, want, 0.1f);
  EXPECT_GE(first_difference(got, want), 0) << "nothing was rounded";
  EXPECT_THAT(narrow->description(), HasSubstr("bfloat16"));
}

TEST_F(TorchBackendTest, RefusesTokensOutsideTheTable) {
  const MatrixPtr table = matrix(*torch_, 4, 32, 1);
  const std::vector<int32_t> high = {0, 4}, low = {-1};
  EXPECT_THAT(message_of([&] { torch_->embed(*table, high); }),
              HasSubstr("token id 4 is outside the vocabulary of 4"));
  EXPECT_THAT(message_of([&] { torch_->embed(*table, low); }), HasSubstr("token id -1"));
}

TEST_F(TorchBackendTest, TurnsTheLibrarysComplaintsIntoErrors) {
  EXPECT_THAT(message_of([&] { torch_->add(input(*torch_, 2, 3, 1), input(*torch_, 2, 5, 1)); }),
              HasSubstr("libtorch, a sum"));
}

TEST_F(TorchBackendTest, RefusesDevicesAndTypesThatAreNotThere) {
  const auto start = [](const std::string& device) {
    return message_of([&] { make_torch_backend({.device = device}); });
  };
  for (const std::string device : {"gpu", "", "cuda:", "cuda:x", "cuda:-1", "cuda:99999", "cpu:0"})
    EXPECT_THAT(start(device), HasSubstr("there is no device '" + device + "'")) << device;
  EXPECT_THAT(start("cuda:999"), HasSubstr("device cuda:999: this"));
  EXPECT_THAT(message_of([] { make_torch_backend({.type = DType::kF16}); }),
              HasSubstr("not in F16"));
  EXPECT_THAT(message_of([&] {
                torch_->make_kv_store({1, 1, 8, 1, DType::kQ8_0});
              }),
              HasSubstr("Q8_0"));
}

TEST_F(TorchBackendTest, MeasuresTheMachine) {
  const MachinePeak peak = torch_->measure_peak(8 << 20);
  EXPECT_GT(peak.read_gbytes_per_s, 0.0);
  EXPECT_GT(peak.float_gmac_per_s, 0.0);
  EXPECT_GT(peak.int8_gmac_per_s, 0.0);
}

}  // namespace
}  // namespace clover
