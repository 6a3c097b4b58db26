// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json from an untrusted source: loading it and encoding a text gives ids inside the
// vocabulary that decode, or a clover::Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "tokenizer/tokenizer_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer =
        clover::tokenizer_from_json(clover::parse_json(text, "tokenizer.json"), {});
    for (const bool trusted : {false, true}) {
      const auto ids = tokenizer->encode("Hi <s> 123\t caf\xC3\xA9 \xFF<|im_end|>'s", trusted);
      tokenizer->decode(ids, false);
      const auto own = tokenizer->encode(text.substr(0, 512), trusted);
      tokenizer->decode(own, true);
    }
  } catch (const clover::Error&) {
  }
  return 0;
}
