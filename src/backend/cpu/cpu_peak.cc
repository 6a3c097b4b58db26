// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <vector>

#include "backend/cpu/cpu_backend.h"

namespace clover {
namespace {

constexpr int kTries = 5;

// The best of some tries, in seconds: what the machine can do, not what it usually does.
template <typename Work>
double best_seconds(const Work& work) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  for (int i = 0; i < kTries; ++i) {
    const auto begin = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return best;
}

}  // namespace

MachinePeak CpuBackend::measure_peak(int64_t bytes) {
  constexpr int64_t kPart = 1 << 20;
  const int64_t parts = std::max<int64_t>(bytes / kPart, 1);
  WeightMemory pages;
  const auto memory = pages.allocate(parts * kPart);
  for (int64_t i = 0; i < parts * kPart; i += 4096) memory.get()[i] = static_cast<uint8_t>(i >> 12);
  std::vector<int32_t> sums(static_cast<size_t>(parts));
  const double read = best_seconds([&] {
    pool_.parallel_for(parts, [&](int64_t part, int) {
      sums[static_cast<size_t>(part)] = kernels_.read_memory(memory.get() + part * kPart, kPart);
    });
  });
  constexpr int64_t kRounds = 200'000;
  const int64_t threads = pool_.size();
  std::vector<int64_t> macs(static_cast<size_t>(threads));
  std::vector<int32_t> int_sinks(static_cast<size_t>(threads));
  std::vector<float> float_sinks(static_cast<size_t>(threads));
  const double ints = best_seconds([&] {
    pool_.parallel_for(threads, [&](int64_t i, int) {
      const auto at = static_cast<size_t>(i);
      macs[at] = kernels_.peak_int8(kRounds, &int_sinks[at]);
    });
  });
  const auto int_macs = static_cast<double>(macs[0] * threads);
  const double floats = best_seconds([&] {
    pool_.parallel_for(threads, [&](int64_t i, int) {
      const auto at = static_cast<size_t>(i);
      macs[at] = kernels_.peak_float(kRounds, &float_sinks[at]);
    });
  });
  const auto float_macs = static_cast<double>(macs[0] * threads);
  return {static_cast<double>(parts * kPart) / read / 1e9, int_macs / ints / 1e9,
          float_macs / floats / 1e9};
}

}  // namespace clover
