// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

namespace clover {

// Stateless random numbers: every value is a function of (seed, position, lane), so results never
// depend on the order of calls, the batch or the thread count.

// The finaliser of SplitMix64: a bijective mix of 64 bits.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Mixes values into a hash, one after the other.
template <typename T>
constexpr uint64_t mix_all(uint64_t hash, std::span<const T> values) {
  for (const T value : values) hash = mix64(hash ^ static_cast<std::make_unsigned_t<T>>(value));
  return hash;
}

// The key of one position of one random stream.
constexpr uint64_t stream_key(uint64_t seed, uint64_t position) {
  return mix64(mix64(seed) ^ (position * 0xd1342543de82ef95ULL + 1));
}

// 64 random bits for `lane` under a key.
constexpr uint64_t random_bits(uint64_t key, uint64_t lane) { return mix64(key ^ mix64(lane)); }

// Uniform in (0, 1): never 0 and never 1.
constexpr double random_uniform(uint64_t key, uint64_t lane) {
  return (static_cast<double>(random_bits(key, lane) >> 11) + 0.5) * 0x1.0p-53;
}

}  // namespace clover
