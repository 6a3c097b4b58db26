// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace clover {

// A request that is answered with an HTTP error, in the OpenAI API's shape.
class RequestError : public Error {
 public:
  // `param`: the field at fault, empty when there is none; `code`: a word for programs, or empty.
  RequestError(int status, const std::string& message, std::string param = {},
               std::string code = {})
      : Error(ErrorCode::kInvalidArgument, message),
        status_(status),
        param_(std::move(param)),
        code_(std::move(code)) {}

  int status() const { return status_; }
  const std::string& param() const { return param_; }
  const std::string& word() const { return code_; }

 private:
  int status_;
  std::string param_;
  std::string code_;
};

// The HTTP status for an error of the library: 400, or 429 for kExhausted, or 500.
int status_of(const Error& error);
// {"error": {message, type, param, code}}
Json error_json(int status, const std::string& message, const std::string& param = {},
                const std::string& code = {});

}  // namespace clover
