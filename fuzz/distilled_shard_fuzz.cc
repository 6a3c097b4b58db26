// SPDX-License-Identifier: Apache-2.0
// Any bytes either read as a shard of distilled data whose samples can all be taken out, or are an
// Error.
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "train/shard.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const clover::ShardView shard(bytes, "input");
    uint64_t tokens = 0;
    for (size_t i = 0; i < shard.size(); ++i) {
      const clover::DistilledSample sample = shard.sample(i);
      if (sample.ids.size() != sample.mask.size() || sample.mask.front() != 0) std::abort();
      tokens += sample.ids.size();
    }
    if (tokens != shard.header().tokens) std::abort();
  } catch (const clover::Error&) {
  }
  return 0;
}
