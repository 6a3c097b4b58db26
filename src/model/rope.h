// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "model/config.h"

namespace clover {

// How fast each pair of a head turns, after the model's RoPE scaling.
struct RopeTable {
  std::vector<double> frequencies;  // [head_dim / 2] radians per position
  double magnitude = 1.0;           // multiplies cos and sin (YaRN's attention factor)
};

// Frequencies of theta^(-2i/d), scaled as the configuration says:
//   linear: all divided by the factor;
//   llama3: wavelengths above original/low_freq_factor divided by the factor, those below
//           original/high_freq_factor kept, between them a linear blend in original/wavelength;
//   yarn:   a linear blend over the pair's index, from kept (pairs that turn more than beta_fast
//           times in the original context) to divided (fewer than beta_slow times).
// Empty when the model has no rotary positions.
RopeTable make_rope_table(const ModelConfig& config);

// cos and sin at the given positions. Computed in double precision and a function of the position
// alone, so that a row's angles never depend on its batch.
RopeAngles rope_angles(const RopeTable& table, std::span<const int64_t> positions);

// ALiBi's slope of every head: 2^(-8i/n) for i = 1 … n when n is a power of two; otherwise those of
// the power of two below, followed by every other one of the next power. Empty when the model
// rotates instead.
std::vector<float> alibi_slopes(const ModelConfig& config);

}  // namespace clover
