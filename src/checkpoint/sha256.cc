// SPDX-License-Identifier: Apache-2.0
#include <openssl/evp.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/digest.h"

namespace clover {

std::string files_sha256(std::span<const std::string> paths) {
  constexpr size_t kPiece = 4 << 20;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  bool good = context && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const std::string& path : paths) {
    const MappedFile file(path);
    for (auto rest = file.bytes(); !rest.empty();) {
      const auto piece = rest.first(std::min(rest.size(), kPiece));
      good = good && EVP_DigestUpdate(context.get(), piece.data(), piece.size()) == 1;
      file.release(piece);
      rest = rest.subspan(piece.size());
    }
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  good = good && EVP_DigestFinal_ex(context.get(), digest, &length) == 1;
  if (!good)
    fail(ErrorCode::kIo, "the SHA-256 of {} cannot be computed",
         paths.empty() ? "no files" : paths.front());
  return hex(std::as_bytes(std::span(digest, length)));
}

}  // namespace clover
