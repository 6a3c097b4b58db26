// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/byte_alphabet.h"

#include "tokenizer/utf8.h"

namespace clover {
namespace {

constexpr int kLetterEnd = 0x100 + 68;

struct Alphabet {
  std::array<char32_t, 256> letters{};
  std::array<int16_t, kLetterEnd> bytes{};
};

constexpr Alphabet make_alphabet() {
  Alphabet a;
  for (auto& byte : a.bytes) byte = -1;
  char32_t next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    const char32_t letter = printable ? static_cast<char32_t>(b) : next++;
    a.letters[static_cast<size_t>(b)] = letter;
    a.bytes[letter] = static_cast<int16_t>(b);
  }
  return a;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

char32_t byte_to_letter(uint8_t byte) { return kAlphabet.letters[byte]; }

std::optional<std::string> letters_to_bytes(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  for (size_t pos = 0; pos < token.size();) {
    const Utf8Char c = utf8_at(token, pos);
    if (c.status != Utf8Char::Status::kValid || c.code >= kLetterEnd) return std::nullopt;
    const int16_t byte = kAlphabet.bytes[c.code];
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    pos += c.length;
  }
  return bytes;
}

}  // namespace clover
