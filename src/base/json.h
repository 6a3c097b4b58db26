// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace clover {

using Json = nlohmann::ordered_json;

// Parses JSON text from an untrusted source. `what` names it in errors (a file or "request body").
// Error(kCorrupt) on broken JSON, invalid UTF-8 or more than `max_depth` nested containers.
Json parse_json(std::string_view text, std::string_view what, int max_depth = 64);

// JSON on one line; bytes that are not UTF-8 become U+FFFD.
std::string json_line(const Json& json);

}  // namespace clover
