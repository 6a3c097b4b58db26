// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace clover {

// A key, tensor or file name from an untrusted file, fit for an error message: in quotes, control
// bytes and bytes above 126 as \xNN, cut after 80 bytes.
std::string quote_name(std::string_view name);

}  // namespace clover
