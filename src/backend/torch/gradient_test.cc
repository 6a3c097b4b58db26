// SPDX-License-Identifier: Apache-2.0
// H8: gradients of every operation against finite differences, in double precision.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "backend/cpu/test_util.h"
#include "backend/torch/torch_values.h"
#include "backend/torch_backend.h"

namespace clover {
namespace {

constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-7;  // of values of the order of 1: the differences' own error

class GradientTest : public ::testing::Test {
 protected:
  using Inputs = std::vector<at::Tensor>;
  using Body = std::function<Tensor(const Inputs&)>;

  static at::Tensor values(int64_t rows, int64_t cols, uint64_t seed) {
    const std::vector<float> floats = Random(seed).floats(rows * cols, 1.5f);
    return at::tensor(floats).reshape({rows, cols}).to(at::kDouble);
  }
  // A scalar to which every output contributes differently.
  static at::Tensor weigh(const Tensor& out) {
    const at::Tensor& y = unwrap(out);
    return (y * values(y.size(0), y.size(1), 99)).sum();
  }

  // Compares the gradient in every value of every input.
  static void check(Inputs inputs, const Body& body) {
    for (at::Tensor& input : inputs) input.set_requires_grad(true);
    weigh(body(inputs)).backward();
    for (size_t i = 0; i < inputs.size(); ++i) {
      ASSERT_TRUE(inputs[i].grad().defined()) << "input " << i << " has no gradient";
      const at::Tensor gradient = inputs[i].grad().contiguous();
      double* x = inputs[i].data_ptr<double>();
      for (int64_t at = 0; at < inputs[i].numel(); ++at) {
        const double before = x[at];
        double sides[2];
        for (const int side : {0, 1}) {
          x[at] = before + (side == 0 ? -kStep : kStep);
          sides[side] = weigh(body(inputs)).item<double>();
        }
        x[at] = before;
        const double want = (sides[1] - sides[0]) / (2 * kStep);
        const double got = gradient.data_ptr<double>()[at];
        ASSERT_NEAR(got, want, kTolerance * std::max(1.0, std::abs(want)))
            << "input " << i << ", value " << at;
      }
    }
  }
  static Tensor in(const at::Tensor& x) { return wrap(x); }
  static TorchMatrix matrix(const at::Tensor& x) { return {x, "F64"}; }
  static TorchVector vector(const at::Tensor& x) { return TorchVector(x.reshape({-1})); }

  const std::shared_ptr<Backend> b_ = make_torch_backend({.threads = 1, .type = DType::kF64});
};

TEST_F(GradientTest, EmbeddingsAndRows) {
  const std::vector<int32_t> ids = {2, 0, 2};
  check({values(4, 5, 1)}, [&](const Inputs& x) { return b_->embed(matrix(x[0]), ids); });
  check({values(4, 5, 1)}, [&](const Inputs& x) { return b_->gather_rows(in(x[0]), ids); });
  check({values(4, 5, 1)}, [&](const Inputs& x) { return b_->columns(in(x[0]), 1, 3); });
}

TEST_F(GradientTest, Products) {
  check({values(3, 6, 1), values(4, 6, 2), values(1, 4, 3), values(3, 4, 4)}, [&](const Inputs& x) {
    const TorchVector bias = vector(x[2]);
    const Tensor residual = in(x[3]);
    return b_->linear(in(x[0]), matrix(x[1]), &bias, &residual);
  });
  check({values(3, 6, 1), values(1, 6, 2), values(4, 6, 3), values(1, 4, 4)}, [&](const Inputs& x) {
    const TorchVector bias = vector(x[3]);
    return b_->norm_linear(in(x[0]), vector(x[1]), 1e-5f, matrix(x[2]), &bias);
  });
  check({values(3, 8, 1), values(5, 4, 2), values(3, 5, 3)}, [&](const Inputs& x) {
    const Tensor residual = in(x[2]);
    return b_->swiglu_linear(in(x[0]), matrix(x[1]), &residual);
  });
}

TEST_F(GradientTest, NormsAndGates) {
  check({values(3, 6, 1), values(1, 6, 2)},
        [&](const Inputs& x) { return b_->rms_norm(in(x[0]), vector(x[1]), 1e-5f); });
  check({values(3, 6, 1), values(1, 2, 2)},
        [&](const Inputs& x) { return b_->rms_norm(in(x[0]), vector(x[1]), 1e-5f); });
  check({values(3, 6, 1)}, [&](const Inputs& x) { return b_->swiglu(in(x[0])); });
  check({values(3, 6, 1), values(3, 6, 2)}, [&](const Inputs& x) {
    const Tensor residual = in(x[1]);
    return b_->silu(in(x[0]), &residual);
  });
  check({values(3, 6, 1), values(3, 6, 2)},
        [&](const Inputs& x) { return b_->add(in(x[0]), in(x[1])); });
  check({values(3, 6, 1)}, [&](const Inputs& x) { return b_->scale(in(x[0]), 0.3f); });
  check({values(3, 6, 1), values(3, 6, 2), values(3, 6, 3), values(3, 6, 4)}, [&](const Inputs& x) {
    const Tensor residual = in(x[3]);
    return b_->cosine_gate(in(x[0]), in(x[1]), in(x[2]), 2, &residual);
  });
}

TEST_F(GradientTest, Rotation) {
  const RopeAngles angles = {4, Random(5).floats(3 * 2), Random(6).floats(3 * 2)};
  for (const RopeLayout layout : {RopeLayout::kHalves, RopeLayout::kAdjacent})
    check({values(3, 20, 1)},
          [&](const Inputs& x) { return b_->rope(in(x[0]), 2, 6, angles, layout); });
}

// Whole prompts, where rows see the batch's own keys, and drafted rows that see stored ones.
class AttentionGradientTest : public GradientTest {
 protected:
  static constexpr int64_t kRows = 4;

  void check_attention(const AttentionParams& params) {
    const int64_t q_cols = params.heads * params.head_dim;
    const int64_t kv_cols = params.kv_heads * params.head_dim;
    const std::vector<int32_t> blocks = {1, 0};
    AttentionPlan prompt;
    prompt.sequences = {{blocks, 0, kRows}};
    prompt.tail_begin.assign(kRows + 1, 0);
    AttentionPlan drafted;
    drafted.sequences = {{blocks, 0, 2}};
    drafted.tail_begin = {0, 1, 3};
    drafted.tail = {17, 17, 18};
    for (int64_t t = 0; t < kRows; ++t) {
      prompt.slot.push_back(t);
      prompt.position.push_back(t);
      prompt.linear_len.push_back(t + 1);
    }
    drafted.slot = {17, 18};
    drafted.position = {2, 3};
    drafted.linear_len = {2, 2};
    check(
        {values(kRows, q_cols, 1), values(kRows, kv_cols, 2), values(kRows, kv_cols, 3),
         values(2, q_cols, 4), values(2, kv_cols, 5), values(2, kv_cols, 6)},
        [&](const Inputs& x) {
          const auto kv = b_->make_kv_store({1, params.kv_heads, params.head_dim, 2, DType::kF32});
          const Tensor first = b_->attention(in(x[0]), in(x[1]), in(x[2]), *kv, 0, prompt, params);
          const Tensor second =
              b_->attention(in(x[3]), in(x[4]), in(x[5]), *kv, 0, drafted, params);
          return wrap(at::cat({unwrap(first), unwrap(second)}));
        });
  }
};

TEST_F(AttentionGradientTest, Plain) {
  check_attention({.heads = 2, .kv_heads = 2, .head_dim = 4, .scale = 0.5f, .alibi_slopes = {}});
}

TEST_F(AttentionGradientTest, SharedKeysWindowAndAlibi) {
  const std::vector<float> slopes = {0.5f, 0.25f};
  check_attention({.heads = 2,
                   .kv_heads = 1,
                   .head_dim = 4,
                   .scale = 0.5f,
                   .window = 3,
                   .alibi_slopes = slopes});
}

}  // namespace
}  // namespace clover
