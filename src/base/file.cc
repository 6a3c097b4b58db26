// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace clover {
namespace {

std::string reason(int code) { return std::generic_category().message(code); }

// Closes a descriptor at the end of a scope.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  int get() const { return value_; }

 private:
  int value_;
};

std::string parent_of(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

[[noreturn]] void fail_write(const std::string& path, int code) {
  fail(write_error(code), "cannot write {}: {}", path, reason(code));
}

}  // namespace

ErrorCode write_error(int code) {
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return full ? ErrorCode::kExhausted : ErrorCode::kIo;
}

FolderLock::FolderLock(const std::string& folder, const Words& words) {
  const std::string file = (std::filesystem::path(folder) / ".lock").string();
  descriptor_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(ErrorCode::kIo, "{} {}: {}", words.cannot, folder, reason(errno));
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  close(descriptor_);
  fail(ErrorCode::kInvalidArgument, "{} {}", words.busy, folder);
}

// The kernel gives the lock back with the descriptor, however the process ends.
FolderLock::~FolderLock() { close(descriptor_); }

std::vector<std::string> files_in_folder(const std::string& folder, std::string_view extension) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == extension) files.push_back(entry.path().string());
  if (error) fail(ErrorCode::kIo, "cannot read the folder {}: {}", folder, error.message());
  std::sort(files.begin(), files.end());
  return files;
}

MappedFile::MappedFile(const std::string& path) : path_(path) {
  // Non-blocking, so that naming a pipe is an error rather than a wait for its writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    if (missing) fail(ErrorCode::kNotFound, "there is no file {}", path);
    fail(ErrorCode::kIo, "cannot open {}: {}", path, reason(errno));
  }
  struct stat status;
  if (fstat(file.get(), &status) != 0) {
    fail(ErrorCode::kIo, "cannot examine {}: {}", path, reason(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    fail(ErrorCode::kInvalidArgument, "{} is {}, not a regular file", path,
         S_ISDIR(status.st_mode) ? "a folder" : "a device or pipe");
  }
  if (status.st_size == 0) return;  // an empty mapping does not exist
  const auto size = static_cast<size_t>(status.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) fail(ErrorCode::kIo, "cannot map {}: {}", path, reason(errno));
  data_ = static_cast<const std::byte*>(data);
  size_ = size;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(std::span<const std::byte> part) const {
  const auto inside = [&](const std::byte* at) {
    return !std::less<>()(at, data_) && !std::less<>()(data_ + size_, at);
  };
  if (part.empty() || !inside(part.data()) || !inside(part.data() + part.size())) return;
  // Whole pages around the part: its neighbours lose nothing but a page that is mapped again.
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(part.data() + part.size());
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  static std::atomic<unsigned> counter{0};
  do {
    temporary_ = fmt::format("{}.{}-{}.tmp", path, getpid(), counter++);
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) {
    const int code = errno;
    temporary_.clear();
    fail_write(path_, code);
  }
}

AtomicFile::~AtomicFile() {
  close_descriptor();
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::close_descriptor() {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_write(path_, errno);
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) fail_write(path_, errno);
  close_descriptor();
  if (rename(temporary_.c_str(), path_.c_str()) != 0) fail_write(path_, errno);
  temporary_.clear();
  // The new name is durable once its folder is. Folders that cannot be synchronised (some network
  // file systems) leave the file itself intact, so that is no error.
  const Descriptor folder(open(parent_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) fsync(folder.get());
}

void write_file(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

std::string read_file(const std::string& path, size_t max_bytes) {
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() > max_bytes) {
    fail(ErrorCode::kExhausted, "{} has {} bytes, more than the {} allowed", path, bytes.size(),
         max_bytes);
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace clover
