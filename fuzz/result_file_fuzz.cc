// SPDX-License-Identifier: Apache-2.0
// Any bytes are either a result file that a report can be made of, or an Error.
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "measure/report/report.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const clover::ReportPage page = clover::make_report({clover::parse_result(text, "input")});
    if (page.text().empty()) std::abort();
    for (const auto& [name, svg] : page.plots())
      if (!svg.ends_with("</svg>\n")) std::abort();
  } catch (const clover::Error&) {
  }
  return 0;
}
