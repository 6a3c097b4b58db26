// SPDX-License-Identifier: Apache-2.0
#include "model/rope.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace clover {
namespace {

double llama3_frequency(double frequency, const RopeScaling& s) {
  // How often the pair turns in the original context.
  const double turns =
      static_cast<double>(s.original_context) * frequency / (2.0 * std::numbers::pi);
  const double keep =
      std::clamp((turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor), 0.0, 1.0);
  return frequency * (keep + (1.0 - keep) / s.factor);
}

// The pair index (not rounded) that turns `turns` times in the original context.
double yarn_pair(double turns, const ModelConfig& c) {
  const double context = static_cast<double>(c.rope_scaling.original_context);
  return static_cast<double>(c.head_dim) * std::log(context / (turns * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(c.rope_theta));
}

void scale_yarn(const ModelConfig& c, RopeTable& table) {
  const RopeScaling& s = c.rope_scaling;
  const double first = std::max(std::floor(yarn_pair(s.beta_fast, c)), 0.0);
  double last = std::min(std::ceil(yarn_pair(s.beta_slow, c)), static_cast<double>(c.head_dim - 1));
  if (last == first) last += 0.001;
  for (size_t i = 0; i < table.frequencies.size(); ++i) {
    const double divide = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
    table.frequencies[i] *= (1.0 - divide) + divide / s.factor;
  }
  table.magnitude =
      s.attention_factor != 0.0 ? s.attention_factor : default_yarn_attention_factor(s.factor);
}

void append_geometric(int64_t heads, int64_t step, int64_t count, std::vector<float>& slopes) {
  for (int64_t i = 0; i < count; ++i) {
    const double exponent = -8.0 * static_cast<double>(i * step + 1) / static_cast<double>(heads);
    slopes.push_back(static_cast<float>(std::exp2(exponent)));
  }
}

}  // namespace

RopeTable make_rope_table(const ModelConfig& c) {
  RopeTable table;
  if (!c.rope) return table;
  const RopeScaling& s = c.rope_scaling;
  table.frequencies.resize(static_cast<size_t>(c.head_dim / 2));
  for (size_t i = 0; i < table.frequencies.size(); ++i) {
    double& frequency = table.frequencies[i];
    frequency =
        std::pow(c.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(c.head_dim));
    if (!s.frequency_factors.empty()) frequency /= static_cast<double>(s.frequency_factors[i]);
    if (s.kind == RopeScaling::Kind::kLinear) frequency /= s.factor;
    if (s.kind == RopeScaling::Kind::kLlama3) frequency = llama3_frequency(frequency, s);
  }
  if (s.kind == RopeScaling::Kind::kYarn) scale_yarn(c, table);
  return table;
}

RopeAngles rope_angles(const RopeTable& table, std::span<const int64_t> positions) {
  const size_t half = table.frequencies.size();
  RopeAngles angles;
  angles.rotary_dim = static_cast<int64_t>(2 * half);
  angles.cos.resize(positions.size() * half);
  angles.sin.resize(positions.size() * half);
  for (size_t r = 0; r < positions.size(); ++r) {
    for (size_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(positions[r]) * table.frequencies[i];
      angles.cos[r * half + i] = static_cast<float>(std::cos(angle) * table.magnitude);
      angles.sin[r * half + i] = static_cast<float>(std::sin(angle) * table.magnitude);
    }
  }
  return angles;
}

std::vector<float> alibi_slopes(const ModelConfig& config) {
  std::vector<float> slopes;
  if (config.rope) return slopes;
  const int64_t below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(config.heads)));
  append_geometric(below, 1, below, slopes);
  append_geometric(2 * below, 2, config.heads - below, slopes);
  return slopes;
}

}  // namespace clover
