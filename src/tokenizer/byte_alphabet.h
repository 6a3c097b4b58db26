// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace clover {

// Byte-level vocabularies spell every byte as one printable character: printable Latin-1 bytes
// stand for themselves, the 68 others for U+0100 upwards in order. Space is U+0120, newline U+010A.
char32_t byte_to_letter(uint8_t byte);

// The bytes that a vocabulary entry spells, or nothing when it holds a character outside the
// alphabet (added tokens are stored as plain text).
std::optional<std::string> letters_to_bytes(std::string_view token);

}  // namespace clover
