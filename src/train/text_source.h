// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

namespace clover {

// The bytes of a file in pieces, decompressed where the file is gzip's. Nothing is ever held whole,
// so a small file that unpacks to a huge one costs time and no memory.
class TextSource {
 public:
  // Error(kNotFound), or kInvalidArgument when it is no regular file.
  explicit TextSource(const std::string& path);
  ~TextSource();
  TextSource(const TextSource&) = delete;
  TextSource& operator=(const TextSource&) = delete;

  // The next character, -1 at the end. Error(kCorrupt) for broken or truncated gzip data.
  int get() { return at_ < filled_ || fill() ? static_cast<unsigned char>(buffer_[at_++]) : -1; }
  // The same without taking it.
  int peek() { return at_ < filled_ || fill() ? static_cast<unsigned char>(buffer_[at_]) : -1; }
  const std::string& path() const { return path_; }

 private:
  bool fill();

  struct Stream;
  std::string path_;
  std::unique_ptr<Stream> stream_;
  std::string buffer_;
  size_t at_ = 0;
  size_t filled_ = 0;
};

}  // namespace clover
