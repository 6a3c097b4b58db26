// SPDX-License-Identifier: Apache-2.0
#include "serve/http_auth.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>

namespace clover {
namespace {

constexpr size_t kLongest = 4096;

bool same(std::string_view a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), b.size()) == 0;
}

// Of base64 text; empty when it is none.
std::string decoded(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0 || text.size() > kLongest) return {};
  std::string bytes(text.size() / 4 * 3, '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
  if (length < 0) return {};
  const auto padding = static_cast<size_t>(std::count(text.end() - 2, text.end(), '='));
  bytes.resize(static_cast<size_t>(length) - padding);
  return bytes;
}

}  // namespace

bool gives_key(std::string_view authorization, const std::string& key) {
  constexpr std::string_view kBearer = "Bearer ", kBasic = "Basic ";
  if (authorization.starts_with(kBearer)) return same(authorization.substr(kBearer.size()), key);
  if (!authorization.starts_with(kBasic)) return false;
  const std::string pair = decoded(authorization.substr(kBasic.size()));
  const size_t colon = pair.find(':');
  return colon != std::string::npos && same(std::string_view(pair).substr(colon + 1), key);
}

}  // namespace clover
