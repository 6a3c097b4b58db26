// SPDX-License-Identifier: Apache-2.0
// What the tests of this room share: a scratch folder, raw byte builders and error matching.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"

namespace clover {

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string fixture_path(const std::string& name) {
  return std::string(CLOVER_SOURCE_DIR) + "/tests/data/checkpoint/" + name;
}

// The bytes of plain values, as files hold them.
template <typename T>
std::string raw(T value) {
  static_assert(std::is_arithmetic_v<T>);
  std::string out(sizeof value, '\0');
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

// The message of the Error that `action` ends with; a test failure when it ends without.
inline std::string error_text(const std::function<void()>& action,
                              ErrorCode code = ErrorCode::kCorrupt) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(static_cast<int>(e.code()), static_cast<int>(code)) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// A folder that disappears with its owner.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "clover_checkpoint_test.XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() { std::filesystem::remove_all(path_); }

  std::string path() const { return path_.string(); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Largest single allocation and all bytes asked of operator new since the last reset
// (allocation_meter_test.cc replaces it in this test program).
size_t largest_allocation();
size_t total_allocated();
void reset_allocation_meter();

}  // namespace clover
