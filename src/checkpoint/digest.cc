// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/digest.h"

#include <openssl/evp.h>

#include "base/error.h"

namespace clover {

std::string sha256_hex(std::span<const std::byte> bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha256(), nullptr) != 1)
    fail(ErrorCode::kIo, "a SHA-256 cannot be computed");
  std::string text;
  for (unsigned i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace clover
