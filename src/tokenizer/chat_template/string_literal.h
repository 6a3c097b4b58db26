// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace clover {

// The text that a Python string literal's inside stands for: escapes are replaced, unknown ones
// kept. Error(kCorrupt) with the line for a broken escape.
std::string decode_string_literal(std::string_view inside, int line);

}  // namespace clover
