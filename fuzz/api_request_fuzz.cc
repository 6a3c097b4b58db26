// SPDX-License-Identifier: Apache-2.0
// Bodies of API requests: an ApiRequest within its limits, or an Error.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "sampling/sampling.h"
#include "serve/api_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int32_t kVocab = 1000;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool chat : {false, true}) {
    try {
      const clover::Json body = clover::parse_json(text, "the request body");
      const clover::ApiRequest request = chat ? clover::parse_chat_request(body, kVocab)
                                              : clover::parse_completion_request(body, kVocab);
      clover::validate(request.sampling, kVocab);  // what passed here, the engine takes
      if (request.choices < 1 || request.max_tokens.value_or(0) < 0) std::abort();
    } catch (const clover::Error&) {
    }
  }
  return 0;
}
