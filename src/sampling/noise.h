// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/random.h"
#include "sampling/approx.h"

namespace clover {

// The Gumbel noise behind a draw: -log(e), where the e of all tokens are independent standard
// exponentials under a 64-bit key, stream_key(seed, position).
//
// They are built block by block from the least one, the one with the greatest noise. Of n
// independent standard exponentials the least is an exponential divided by n; which one it is, is
// uniform and independent of it; and as exponentials have no memory, each other one exceeds it by a
// fresh standard exponential. So the greatest noise of a block is known from one hash, and a draw
// need not look at the tokens of a block that cannot win: the noise of a flat vocabulary of 150k
// costs about 1,200 hashes and is the same, bit for bit, as if every token had been looked at.
inline constexpr uint32_t kNoiseBlock = 128;

// No noise is greater: -log(2^-33 / 128) is 27.726.
inline constexpr float kMaxGumbel = 27.73f;

// A standard exponential, -log(1 - v) with v = (bits + 1/2) / 2^32. Built on v, not on 1 - v, so
// that small values, which decide draws, keep full relative precision. Between 1.16e-10 and 22.88.
inline float exponential_from_bits(uint32_t bits) {
  constexpr float kUnit = 0x1.0p-32f;
  const float v = (static_cast<float>(bits) + 0.5f) * kUnit;
  return v < 0.29f ? -approx_log1p_small(-v)
                   : -approx_log((static_cast<float>(~bits) + 0.5f) * kUnit);
}

// The noise of tokens block * kNoiseBlock + lane.
class BlockNoise {
 public:
  BlockNoise(uint64_t key, uint32_t block) : first_(block * kNoiseBlock) {
    constexpr uint64_t kBlocks = uint64_t{1} << 32;  // apart from the lanes of tokens
    const uint64_t bits = random_bits(key, kBlocks + block);
    least_ = exponential_from_bits(static_cast<uint32_t>(bits >> 32)) / kNoiseBlock;
    lane_of_least_ = static_cast<uint32_t>(bits) % kNoiseBlock;
  }

  // The greatest noise in the block.
  float greatest() const { return -approx_log(least_); }

  float of_lane(uint64_t key, uint32_t lane) const {
    if (lane == lane_of_least_) return greatest();
    const uint64_t bits = random_bits(key, first_ + lane);
    return -approx_log(least_ + exponential_from_bits(static_cast<uint32_t>(bits >> 32)));
  }

 private:
  uint32_t first_;
  float least_;
  uint32_t lane_of_least_;
};

inline float gumbel_of_token(uint64_t key, uint32_t token) {
  return BlockNoise(key, token / kNoiseBlock).of_lane(key, token % kNoiseBlock);
}

}  // namespace clover
