// SPDX-License-Identifier: Apache-2.0
#include "train/text_source.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"

namespace clover {

namespace {

constexpr size_t kPiece = size_t{256} << 10;

}  // namespace

struct TextSource::Stream {
  gzFile file = nullptr;
  ~Stream() {
    if (file != nullptr) gzclose_r(file);
  }
};

TextSource::TextSource(const std::string& path)
    : path_(path), stream_(std::make_unique<Stream>()), buffer_(kPiece, '\0') {
  const MappedFile regular(path);  // its errors say what is wrong with the path
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(ErrorCode::kIo, "cannot open {}: {}", path, std::strerror(errno));
  // zlib looks at the first bytes and hands out files that are not gzip's as they are.
  stream_->file = gzdopen(descriptor, "rb");
  if (stream_->file == nullptr) {
    close(descriptor);
    fail(ErrorCode::kExhausted, "no memory to read {}", path);
  }
}

TextSource::~TextSource() = default;

bool TextSource::fill() {
  const int got = gzread(stream_->file, buffer_.data(), static_cast<unsigned>(buffer_.size()));
  int code = Z_OK;
  const char* reason = gzerror(stream_->file, &code);
  // A file that ends inside its compressed data is an error that gzread does not report.
  if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
    if (code == Z_ERRNO) fail(ErrorCode::kIo, "cannot read {}: {}", path_, std::strerror(errno));
    fail(ErrorCode::kCorrupt, "{}: its gzip data is broken: {}", path_, reason);
  }
  at_ = 0;
  filled_ = static_cast<size_t>(got);
  return filled_ > 0;
}

}  // namespace clover
