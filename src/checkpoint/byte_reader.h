// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace clover {

static_assert(std::endian::native == std::endian::little, "model files are little endian");

// Reads little-endian values from untrusted bytes; every read is checked against the end.
class ByteReader {
 public:
  // `what` names the file in errors and must outlive the reader.
  ByteReader(std::span<const std::byte> bytes, const std::string& what)
      : bytes_(bytes), what_(what) {}

  size_t offset() const { return offset_; }
  size_t left() const { return bytes_.size() - offset_; }

  // The next `count` bytes; `field` says in errors what they were to be.
  std::span<const std::byte> take(size_t count, std::string_view field) {
    if (count > left()) {
      fail(ErrorCode::kCorrupt,
           "{} ends at byte {} inside {}, which starts at {} and needs {} bytes", what_,
           bytes_.size(), field, offset_, count);
    }
    const auto part = bytes_.subspan(offset_, count);
    offset_ += count;
    return part;
  }

  template <typename T>
  requires std::integral<T> || std::floating_point<T> T read(std::string_view field) {
    T value;
    std::memcpy(&value, take(sizeof value, field).data(), sizeof value);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& what_;
  size_t offset_ = 0;
};

}  // namespace clover
