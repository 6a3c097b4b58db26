// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/json.h"

namespace clover {

// What a folder of distilled data holds; every shard is checked. Errors of Dataset.
Json distilled_summary(const std::string& folder);
std::string distilled_text(const Json& summary);

}  // namespace clover
