// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "base/json.h"
#include "serve/body_fields.h"

namespace clover {

// The schema that the field `response_format` asks an answer to keep: of type text none, of type
// json_object that of any object. Whether the schema itself is one is not looked at. RequestError
// naming the field.
std::optional<Json> read_response_format(BodyFields& body);

}  // namespace clover
