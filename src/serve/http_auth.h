// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace clover {

// Whether the value of an Authorization header gives `key`: as "Bearer KEY" or, for browsers, as
// the password of "Basic". Takes the same time for every wrong key of a length.
bool gives_key(std::string_view authorization, const std::string& key);

}  // namespace clover
