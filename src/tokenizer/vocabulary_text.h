// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace clover {

// Larger vocabularies are taken for broken files.
inline constexpr size_t kLargestVocabulary = 16'000'000;

// The byte of an entry spelled "<0x41>" (two upper-case digits), or nothing.
std::optional<uint8_t> parse_byte_token(std::string_view text);

// SentencePiece's markers turned into the spaces they stand for.
std::string replace_space_markers(std::string_view text);

// The two texts of a merge written "left right"; Error(kCorrupt) unless there is exactly one space,
// both sides not empty.
std::pair<std::string_view, std::string_view> split_merge(std::string_view line);

}  // namespace clover
