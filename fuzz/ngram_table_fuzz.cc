// SPDX-License-Identifier: Apache-2.0
// Any bytes either are an n-gram table that can be asked about any context, or are an Error.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "base/error.h"
#include "speculation/speculators/ngram_table.h"

namespace {

// Takes a value, or as many as a length byte says, from the front of the input.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : bytes_(data, size) {}
  template <typename T>
  T value() {
    T out{};
    const size_t size = std::min(sizeof(T), bytes_.size());
    std::memcpy(&out, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
    return out;
  }
  template <typename T>
  std::vector<T> values() {
    std::vector<T> out(value<uint8_t>());
    for (T& v : out) v = value<T>();
    return out;
  }

 private:
  std::span<const uint8_t> bytes_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const auto context = input.values<int32_t>();
  clover::NgramTable::Parts parts;
  parts.tokens = input.values<int32_t>();
  parts.best = input.value<int8_t>();
  for (auto& order : parts.orders) {
    order.contexts = input.values<int16_t>();
    order.next = input.values<int16_t>();
    order.probabilities = input.values<uint8_t>();
  }
  try {
    const clover::NgramTable table(std::move(parts), 64, "input");
    std::vector<clover::NgramTable::Guess> guesses;
    table.guesses(context, 8, guesses);
    for (const auto& guess : guesses)
      if (guess.token < 0 || guess.token >= 64 || !(guess.probability > 0)) std::abort();
  } catch (const clover::Error&) {
  }
  return 0;
}
