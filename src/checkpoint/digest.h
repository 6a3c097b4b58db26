// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace clover {

// The bytes in lower-case hexadecimal.
std::string hex(std::span<const std::byte> bytes);

// Lower-case hexadecimal SHA-256 of the bytes.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace clover
