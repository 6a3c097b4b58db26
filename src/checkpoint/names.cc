// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/names.h"

#include <fmt/format.h>

namespace clover {

std::string quote_name(std::string_view name) {
  constexpr size_t kLongest = 80;
  std::string text = "\"";
  for (const char c : name.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 32 || byte > 126) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  text += name.size() > kLongest ? "…\"" : "\"";
  return text;
}

}  // namespace clover
