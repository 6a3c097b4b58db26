// SPDX-License-Identifier: Apache-2.0
// Any text either is a speculator configuration that survives being written and read again, or is
// an Error.
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "speculation/speculators/package_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto config = clover::parse_package_config(clover::parse_json(text, "input"), "input");
    const clover::Json json = clover::package_config_json(config);
    const auto again = clover::parse_package_config(json, "again");
    if (clover::package_config_json(again) != json) std::abort();
  } catch (const clover::Error&) {
  }
  return 0;
}
