// SPDX-License-Identifier: Apache-2.0
#include "tensor/dtype.h"

#include <array>
#include <limits>

namespace clover {
namespace {

struct Traits {
  std::string_view name;
  int elements;  // per block
  int bytes;     // per block
};

// In the order of DType. Block sizes are the sums of the fields of each GGUF block.
constexpr std::array kTraits = {
    Traits{"F32", 1, 4},
    Traits{"F16", 1, 2},
    Traits{"BF16", 1, 2},
    Traits{"F64", 1, 8},
    Traits{"I8", 1, 1},
    Traits{"I16", 1, 2},
    Traits{"I32", 1, 4},
    Traits{"I64", 1, 8},
    Traits{"U8", 1, 1},
    Traits{"BOOL", 1, 1},
    Traits{"Q4_0", 32, 2 + 16},
    Traits{"Q4_1", 32, 2 + 2 + 16},
    Traits{"Q5_0", 32, 2 + 4 + 16},
    Traits{"Q5_1", 32, 2 + 2 + 4 + 16},
    Traits{"Q8_0", 32, 2 + 32},
    Traits{"Q2_K", 256, 16 + 64 + 2 + 2},
    Traits{"Q3_K", 256, 32 + 64 + 12 + 2},
    Traits{"Q4_K", 256, 2 + 2 + 12 + 128},
    Traits{"Q5_K", 256, 2 + 2 + 12 + 32 + 128},
    Traits{"Q6_K", 256, 128 + 64 + 16 + 2},
    Traits{"IQ4_NL", 32, 2 + 16},
};
static_assert(kTraits.size() == static_cast<size_t>(DType::kIQ4_NL) + 1);

const Traits& traits(DType type) { return kTraits.at(static_cast<size_t>(type)); }

}  // namespace

std::string_view dtype_name(DType type) { return traits(type).name; }

int64_t block_elements(DType type) { return traits(type).elements; }

int64_t block_bytes(DType type) { return traits(type).bytes; }

bool is_quantised(DType type) { return traits(type).elements > 1; }

std::optional<int64_t> byte_size(DType type, int64_t elements) {
  const Traits& t = traits(type);
  if (elements < 0 || elements % t.elements != 0) return std::nullopt;
  const int64_t blocks = elements / t.elements;
  if (blocks > std::numeric_limits<int64_t>::max() / t.bytes) return std::nullopt;
  return blocks * t.bytes;
}

}  // namespace clover
