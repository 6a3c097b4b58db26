// SPDX-License-Identifier: Apache-2.0
#include "serve/request_error.h"

namespace clover {
namespace {

constexpr int kBadRequest = 400;
constexpr int kTooMany = 429;
constexpr int kInternal = 500;

const char* type_of(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case kTooMany:
      return "rate_limit_error";
    default:
      return status < kInternal ? "invalid_request_error" : "server_error";
  }
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

int status_of(const Error& error) {
  if (const auto* request = dynamic_cast<const RequestError*>(&error)) return request->status();
  switch (error.code()) {
    case ErrorCode::kExhausted:
      return kTooMany;
    case ErrorCode::kIo:
      return kInternal;
    default:
      return kBadRequest;
  }
}

Json error_json(int status, const std::string& message, const std::string& param,
                const std::string& code) {
  return {{"error",
           {{"message", message},
            {"type", type_of(status)},
            {"param", text_or_null(param)},
            {"code", text_or_null(code)}}}};
}

}  // namespace clover
