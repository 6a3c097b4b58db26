// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace clover {

// The page at "/", one HTML file that needs nothing else; src/serve/web_page.html at build time.
std::string_view web_page();

}  // namespace clover
