// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace clover {

// A whole regular file mapped read-only. Movable; the bytes stay valid (and where they are) until
// the owner is destroyed. An empty file gives an empty span.
class MappedFile {
 public:
  // Error(kNotFound) when there is no such file, kInvalidArgument when it is not a regular file,
  // kIo when it cannot be opened or mapped.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // Takes the pages of `part` out of this process's memory; for parts that were read once and are
  // done with. They can still be read, and then come back from the file. Bytes that are not part of
  // bytes() are left alone.
  void release(std::span<const std::byte> part) const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Writes a file under a temporary name beside it; commit() makes it durable and puts it in place
// in one step, so that readers see the old file or the whole new one. Without commit() the
// destructor removes what was written.
class AtomicFile {
 public:
  // Error(kIo) when the folder cannot be written.
  explicit AtomicFile(const std::string& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  // Appends. Error(kExhausted) when the disk is full, kIo otherwise.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  // Flushes to the disk and renames. At most once; nothing can be written afterwards.
  void commit();

 private:
  void close_descriptor();

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
};

// The kind of error that a failed write is by its errno: kExhausted when the disk is full, or kIo.
ErrorCode write_error(int code);

// Keeps other processes from writing to a folder while it lives, also when this process is killed.
class FolderLock {
 public:
  // How errors begin: kIo "`cannot` FOLDER: reason", and kInvalidArgument "`busy` FOLDER" when
  // another process has the lock.
  struct Words {
    const char* cannot;
    const char* busy;
  };
  // The folder must be there.
  FolderLock(const std::string& folder, const Words& words);
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock();

 private:
  int descriptor_ = -1;
};

// Paths of the files in a folder whose names end in `extension` (".json"), by name. Error(kIo) when
// the folder cannot be read.
std::vector<std::string> files_in_folder(const std::string& folder, std::string_view extension);

// Replaces the file at `path` by `text` as AtomicFile does.
void write_file(const std::string& path, std::string_view text);

// The whole of a regular file. Errors as MappedFile, and kExhausted when it is larger than
// `max_bytes`.
std::string read_file(const std::string& path, size_t max_bytes);

}  // namespace clover
