// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/digest.h"

#include <openssl/evp.h>

#include "base/error.h"

namespace clover {

std::string hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha256(), nullptr) != 1)
    fail(ErrorCode::kIo, "a SHA-256 cannot be computed");
  return hex(std::as_bytes(std::span(digest, length)));
}

}  // namespace clover
