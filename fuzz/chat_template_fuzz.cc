// SPDX-License-Identifier: Apache-2.0
// Parses and renders arbitrary bytes as a chat template: only clover::Error may come out, in
// bounded time and stack (F7, B9).
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "tokenizer/chat_template.h"

namespace {

clover::Json messages() {
  return clover::Json::parse(R"([
    {"role": "system", "content": "s"},
    {"role": "user", "content": [{"type": "text", "text": "Zürich <|im_end|>"}]},
    {"role": "assistant", "content": null,
     "tool_calls": [{"id": "abcdef123", "function": {"name": "f", "arguments": {"a": [1, 2.5]}}}]},
    {"role": "tool", "content": "x", "tool_call_id": "abcdef123"}])");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const clover::Json kMessages = messages();
  try {
    const auto parsed =
        clover::ChatTemplate::parse(std::string(reinterpret_cast<const char*>(data), size));
    clover::ChatRenderOptions options;
    options.special_tokens["bos_token"] = "<s>";
    options.tools = clover::Json::parse(R"([{"type": "function", "function": {"name": "f"}}])");
    options.limits.max_steps = 100'000;
    options.limits.max_bytes = 1 << 20;
    parsed.render(kMessages, options);
  } catch (const clover::Error&) {
    // Refusing is right; anything else is a fault.
  }
  return 0;
}
