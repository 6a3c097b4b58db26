// SPDX-License-Identifier: Apache-2.0
#include "train/feature_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "tensor/quant.h"

namespace clover {
namespace {

constexpr char kMagic[] = "CLVRFEAT1";
constexpr float kLargest = 65504.0f;

struct Header {
  char magic[16] = {};
  char target[64] = {};
  uint64_t hidden = 0;
};

struct RecordHead {
  uint64_t key;
  uint64_t tokens;
  uint64_t checksum;
};

uint64_t key_of(std::span<const TokenId> text) { return mix_all(mix64(text.size()), text); }

uint64_t checksum_of(uint64_t key, std::span<const uint16_t> values) {
  uint64_t sum = key;
  size_t i = 0;
  for (; i + 4 <= values.size(); i += 4) {
    uint64_t word;
    std::memcpy(&word, values.data() + i, sizeof(word));
    sum = mix64(sum ^ word);
  }
  for (; i < values.size(); ++i) sum = mix64(sum ^ values[i]);
  return sum;
}

// Whether all bytes were read; a short file is no error.
bool read_at(int descriptor, void* out, size_t size, uint64_t offset) {
  auto* at = static_cast<std::byte*>(out);
  while (size > 0) {
    const ssize_t got = pread(descriptor, at, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<size_t>(got);
    offset += static_cast<uint64_t>(got);
  }
  return true;
}

// 0, or the error's number.
int write_at(int descriptor, const void* data, size_t size, uint64_t offset) {
  const auto* at = static_cast<const std::byte*>(data);
  while (size > 0) {
    const ssize_t done = pwrite(descriptor, at, size, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return errno;
    at += done;
    size -= static_cast<size_t>(done);
    offset += static_cast<uint64_t>(done);
  }
  return 0;
}

}  // namespace

FeatureCache::FeatureCache(const std::string& path, const std::string& target, int64_t hidden)
    : path_(path), hidden_(hidden) {
  open_file();
  try {
    check_header(target);
    scan();
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

FeatureCache::~FeatureCache() { close(descriptor_); }

void FeatureCache::open_file() {
  descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(ErrorCode::kIo, "cannot open {}: {}", path_, std::strerror(errno));
  if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    close(descriptor_);
    fail(ErrorCode::kInvalidArgument, "{} is in use by another process", path_);
  }
}

void FeatureCache::check_header(const std::string& target) {
  Header wanted;
  std::memcpy(wanted.magic, kMagic, sizeof(kMagic));
  std::memcpy(wanted.target, target.data(), std::min(target.size(), sizeof(wanted.target)));
  wanted.hidden = static_cast<uint64_t>(hidden_);
  Header found;
  end_ = sizeof(Header);
  if (!read_at(descriptor_, &found, sizeof(found), 0)) {
    // Shorter than a header: new, or killed while it was made.
    if (read_at(descriptor_, &found, sizeof(found.magic), 0) &&
        std::memcmp(found.magic, wanted.magic, sizeof(found.magic)) != 0)
      fail(ErrorCode::kInvalidArgument, "{} is no file of features", path_);
    if (const int error = write_at(descriptor_, &wanted, sizeof(wanted), 0))
      fail(ErrorCode::kExhausted, "cannot write {}: {}", path_, std::strerror(error));
    return;
  }
  if (std::memcmp(found.magic, wanted.magic, sizeof(found.magic)) != 0)
    fail(ErrorCode::kInvalidArgument, "{} is no file of features", path_);
  if (std::memcmp(&found, &wanted, sizeof(wanted)) != 0)
    fail(ErrorCode::kInvalidArgument, "{} holds features of another target", path_);
}

void FeatureCache::scan() {
  struct stat status = {};
  if (fstat(descriptor_, &status) != 0)
    fail(ErrorCode::kIo, "cannot examine {}: {}", path_, std::strerror(errno));
  const auto size = static_cast<uint64_t>(status.st_size);
  RecordHead head{};
  while (end_ + sizeof(head) <= size && read_at(descriptor_, &head, sizeof(head), end_)) {
    const uint64_t row = 2 * static_cast<uint64_t>(hidden_);
    const uint64_t room = size - end_ - sizeof(head);
    if (head.tokens == 0 || head.tokens > room / row) break;
    places_[head.key] = end_;
    end_ += sizeof(head) + head.tokens * row;
  }
}

uint64_t FeatureCache::bytes(int64_t texts, int64_t tokens, int64_t hidden) {
  return sizeof(Header) + static_cast<uint64_t>(texts) * sizeof(RecordHead) +
         static_cast<uint64_t>(tokens) * static_cast<uint64_t>(hidden) * 2;
}

bool FeatureCache::read(std::span<const TokenId> text, float* out) {
  const uint64_t key = key_of(text);
  const auto place = places_.find(key);
  if (place == places_.end()) return false;
  RecordHead head{};
  buffer_.resize(text.size() * static_cast<size_t>(hidden_));
  if (!read_at(descriptor_, &head, sizeof(head), place->second) || head.key != key ||
      head.tokens != text.size() ||
      !read_at(descriptor_, buffer_.data(), 2 * buffer_.size(), place->second + sizeof(head)) ||
      head.checksum != checksum_of(key, buffer_))
    return false;
  for (size_t i = 0; i < buffer_.size(); ++i) out[i] = f16_to_f32(buffer_[i]);
  return true;
}

void FeatureCache::write(std::span<const TokenId> text, const float* states) {
  buffer_.resize(text.size() * static_cast<size_t>(hidden_));
  for (size_t i = 0; i < buffer_.size(); ++i)
    buffer_[i] = f32_to_f16(std::clamp(states[i], -kLargest, kLargest));
  const uint64_t key = key_of(text);
  const RecordHead head{key, text.size(), checksum_of(key, buffer_)};
  int error = write_at(descriptor_, &head, sizeof(head), end_);
  if (error == 0)
    error = write_at(descriptor_, buffer_.data(), 2 * buffer_.size(), end_ + sizeof(head));
  if (error != 0) {
    // What is behind the last whole record goes, so that the space is free again.
    if (ftruncate(descriptor_, static_cast<off_t>(end_)) != 0) error = errno;
    fail(write_error(error), "cannot write {}: {}; the features of {} texts are kept", path_,
         std::strerror(error), places_.size());
  }
  places_[key] = end_;
  end_ += sizeof(head) + 2 * buffer_.size();
}

}  // namespace clover
