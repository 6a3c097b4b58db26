// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace clover {

// What kind of mistake an Error reports; the server maps it to an HTTP status.
enum class ErrorCode {
  kInvalidArgument,  // the user asked for something impossible; fix the request
  kNotFound,         // a named file, tensor or key does not exist
  kCorrupt,          // bytes that do not parse: broken, truncated or hostile file
  kUnsupported,      // well formed, but a type, architecture or construct Clover cannot do
  kExhausted,        // out of KV blocks, context, memory or disk
  kIo,               // the operating system refused a read or write
};

// The one exception type of Clover. The message is one clear sentence that names the offending
// thing (option, key, tensor, file) and, where it can, says what to do. An Error ends the request
// or command it arose in, never the process of a server.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// Throws an Error with a formatted message.
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace clover
