// SPDX-License-Identifier: Apache-2.0
// The tiny models against what the reference framework computed with the same weights.
#include <gtest/gtest.h>

#include <numbers>

#include "model/rope.h"
#include "model_fixtures.h"

namespace clover {
namespace {

using namespace testing_support;

// Tolerances are relative errors of a whole row (hidden state or logits) in the Euclidean norm.
//
// Float weights, float32 KV: both sides round to float32 (2^-24) in sums of up to 256 terms, about
// 16 * 2^-24 = 1e-6 a product; some ten products are chained, softmax multiplies an error of a
// score by the score (up to ~10), and the reference's float32 angles are off by up to 600 * 2^-24:
// 1e-6 where it is kind, a few 1e-5 at worst.
constexpr double kFloatTolerance = 5e-5;
// Float16 KV rounds every key and value to 2^-12 of its size at random: 1.4e-4 of a value's norm
// and, through scores of up to ~10, ten times that in a weight.
constexpr double kHalfKvTolerance = 4e-3;
// Rounding the head's rows to bfloat16 (2^-9 at most, 2^-9/sqrt(3) at random = 1.1e-3).
constexpr double kBf16HeadTolerance = 2.5e-3;
// 8-bit activations: a block of 32 normal values has a maximum of about 2.1 deviations, so a step
// is 2.1/127 and its rounding 2.1/127/sqrt(12) = 0.5 % of a product's norm. Eight products chained
// at random and amplified by softmax: about 1 … 2.5 % over many rows. A single row with a near tie
// in softmax may be three times as bad.
constexpr double kQuantisedTolerance = 0.08;
constexpr double kQuantisedMeanTolerance = 0.03;

struct Errors {
  double hidden = 0.0, logits = 0.0;            // the worst row
  double mean_hidden = 0.0, mean_logits = 0.0;  // over rows
};

Errors compare(const PassRows& rows, const Expected& e) {
  Errors errors;
  const double count = static_cast<double>(e.rows.size());
  for (size_t i = 0; i < e.rows.size(); ++i) {
    const auto at = [&](const std::vector<float>& v, int64_t cols) {
      return std::span(v).subspan(i * static_cast<size_t>(cols), static_cast<size_t>(cols));
    };
    const double hidden = relative_error(rows.hidden_row(e.rows[i]), at(e.hidden, e.hidden_size));
    const double logits = relative_error(rows.logits_row(e.rows[i]), at(e.logits, e.vocab));
    errors.hidden = std::max(errors.hidden, hidden);
    errors.logits = std::max(errors.logits, logits);
    errors.mean_hidden += hidden / count;
    errors.mean_logits += logits / count;
  }
  return errors;
}

Errors errors_of(const Checkpoint& checkpoint, const Expected& e, const std::string& isa,
                 DType kv_type) {
  const auto model = Model::load(checkpoint, backend_for(isa));
  EXPECT_EQ(model->config().hidden, e.hidden_size);
  EXPECT_EQ(model->config().vocab, e.vocab);
  const Errors errors = compare(run_prompt(*model, e.tokens, kv_type, 512), e);
  ::testing::Test::RecordProperty(
      isa + "_" + std::string(dtype_name(kv_type)),
      fmt::format("{:.2e} {:.2e} {:.2e} {:.2e}", errors.hidden, errors.logits, errors.mean_hidden,
                  errors.mean_logits));
  return errors;
}

const std::vector<std::string>& float_models() {
  static const std::vector<std::string> names = {
      "llama2",       "llama3",        "llama_linear", "llama_yarn",    "llama_head80",
      "llama_head96", "llama_head256", "mistral",      "qwen2",         "qwen3",
      "baichuan_7b",  "baichuan2_7b",  "baichuan_13b", "baichuan2_13b", "gguf_llama3",
      "gguf_linear",  "gguf_qwen2",    "gguf_baichuan"};
  return names;
}

// F10, F11: every architecture, head size and RoPE scaling, up to 600 positions.
class FloatParity : public ::testing::TestWithParam<std::string> {};

TEST_P(FloatParity, HiddenStatesAndLogitsEqualTheReference) {
  const Expected e = read_expected(GetParam());
  const auto file = open_tiny(GetParam());
  EditedCheckpoint checkpoint(*file);
  const bool scaled_head = GetParam().starts_with("baichuan2");
  if (scaled_head) checkpoint.to_float32("lm_head.weight");
  for (const std::string& isa : cpu_isas()) {
    SCOPED_TRACE(isa);
    const Errors wide = errors_of(checkpoint, e, isa, DType::kF32);
    EXPECT_LT(wide.hidden, kFloatTolerance);
    EXPECT_LT(wide.logits, kFloatTolerance);
  }
  const Errors narrow = errors_of(checkpoint, e, "auto", DType::kF16);
  EXPECT_LT(narrow.hidden, kHalfKvTolerance);
  EXPECT_LT(narrow.logits, kHalfKvTolerance);
}

INSTANTIATE_TEST_SUITE_P(Tiny, FloatParity, ::testing::ValuesIn(float_models()),
                         [](const auto& test) { return test.param; });

TEST(ModelParity, BaichuanTwoHeadStaysBfloat16) {
  for (const std::string name : {"baichuan2_7b", "baichuan2_13b"}) {
    SCOPED_TRACE(name);
    const Errors errors = errors_of(*open_tiny(name), read_expected(name), "auto", DType::kF32);
    EXPECT_LT(errors.hidden, kFloatTolerance);
    EXPECT_LT(errors.logits, kBf16HeadTolerance);
  }
}

class QuantisedParity : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantisedParity, EqualsTheReferenceOnDecodedWeights) {
  const Expected e = read_expected(GetParam());
  const auto file = open_tiny(GetParam());
  for (const std::string& isa : cpu_isas()) {
    SCOPED_TRACE(isa);
    const Errors errors = errors_of(*file, e, isa, DType::kF32);
    EXPECT_LT(errors.hidden, kQuantisedTolerance);
    EXPECT_LT(errors.logits, kQuantisedTolerance);
    EXPECT_LT(errors.mean_hidden, kQuantisedMeanTolerance);
    EXPECT_LT(errors.mean_logits, kQuantisedMeanTolerance);
  }
  // The decoded weights themselves meet the tight tolerance, so the error above is the
  // activations'.
  EditedCheckpoint decoded(*file);
  decoded.to_float32();
  const Errors exact = errors_of(decoded, e, "auto", DType::kF32);
  EXPECT_LT(exact.hidden, kFloatTolerance);
  EXPECT_LT(exact.logits, kFloatTolerance);
}

INSTANTIATE_TEST_SUITE_P(Tiny, QuantisedParity,
                         ::testing::Values("gguf_llama_q8_0", "gguf_qwen3_q4_0", "gguf_llama_q4_1",
                                           "gguf_llama_q4_k"),
                         [](const auto& test) { return test.param; });

// F10: the angles at positions 0, 1, 10, 8k and 30k. The reference computes in float32: rounding
// the exponent of theta moves a frequency f by ln(1/f) times 2^-24, power, division, scaling and
// product by one such unit each; the cosine or sine is then rounded once more.
TEST(ModelParity, RopeAnglesEqualTheReferenceFarOut) {
  int compared = 0;
  for (const std::string& name : float_models()) {
    SCOPED_TRACE(name);
    const Expected e = read_expected(name);
    if (e.positions.empty()) continue;
    const RopeTable table = make_rope_table(read_model_config(*open_tiny(name)));
    ASSERT_EQ(static_cast<int64_t>(table.frequencies.size()), e.half);
    const std::vector<int64_t> positions(e.positions.begin(), e.positions.end());
    const RopeAngles angles = rope_angles(table, positions);
    ASSERT_EQ(angles.cos.size(), e.cos.size());
    for (size_t i = 0; i < e.cos.size(); ++i) {
      const size_t pair = i % table.frequencies.size();
      const double angle =
          static_cast<double>(positions[i / table.frequencies.size()]) * table.frequencies[pair];
      const double roundings = 5.0 - std::log(table.frequencies[pair]);
      const double tolerance = (roundings * angle + 4.0) * 0x1p-24 * table.magnitude;
      EXPECT_NEAR(angles.cos[i], e.cos[i], tolerance) << "value " << i;
      EXPECT_NEAR(angles.sin[i], e.sin[i], tolerance) << "value " << i;
      ++compared;
    }
  }
  EXPECT_GT(compared, 500);
}

// Parity must notice a setting that is read and not applied: the same files with one setting
// changed miss the tolerance by far.
TEST(ModelParity, EverySettingMatters) {
  struct Change {
    std::string name, key;
    Json value;
  };
  const std::vector<Change> changes = {{"llama3", "rope_scaling", nullptr},
                                       {"llama3", "rope_theta", 10000.0},
                                       {"llama_linear", "rope_scaling", nullptr},
                                       {"llama_yarn", "rope_parameters", nullptr},
                                       {"mistral", "sliding_window", nullptr},
                                       {"mistral", "sliding_window", 9},
                                       {"llama2", "rms_norm_eps", 0.1},
                                       {"baichuan2_7b", "z_loss_weight", nullptr},
                                       {"baichuan_13b", "max_position_embeddings", 4096}};
  for (const Change& change : changes) {
    SCOPED_TRACE(change.name + " " + change.key);
    const auto file = open_tiny(change.name);
    EditedCheckpoint checkpoint(*file);
    checkpoint.config()[change.key] = change.value;
    const Errors errors = errors_of(checkpoint, read_expected(change.name), "auto", DType::kF32);
    EXPECT_GT(errors.logits, 100 * kFloatTolerance);
  }
}

}  // namespace
}  // namespace clover
