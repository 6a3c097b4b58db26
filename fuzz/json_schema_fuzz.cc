// SPDX-License-Identifier: Apache-2.0
// Any text is no schema, and an Error, or it is one with a text: there is always a byte that goes
// on, and every text that the machine calls complete is JSON. The first line is the schema, the
// rest chooses among the bytes that may come.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "constraint/json_machine.h"
#include "constraint/json_schema.h"

namespace {

void write(const clover::JsonGrammar& grammar, std::string_view choices) {
  const clover::JsonMachine machine(grammar);
  clover::StackSet now;
  clover::StackSet next;
  machine.start(now);
  std::string text;
  for (size_t i = 0; i < 200; ++i) {
    if (machine.complete(now) && !clover::Json::accept(text)) std::abort();
    const auto first = static_cast<uint8_t>(i < choices.size() ? choices[i] : '}');
    int found = -1;
    for (int k = 0; k < 256 && found < 0; ++k) {
      const auto byte = static_cast<uint8_t>(first + k);
      if (machine.step(now, byte, next)) found = byte;
    }
    if (found < 0 && !machine.complete(now)) std::abort();
    if (found < 0) return;
    text.push_back(static_cast<char>(found));
    std::swap(now, next);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(input.find('\n'), input.size());
  try {
    const clover::Json schema = clover::parse_json(input.substr(0, line), "the schema");
    write(*clover::compile_json_schema(schema), input.substr(line));
  } catch (const clover::Error&) {
  }
  return 0;
}
