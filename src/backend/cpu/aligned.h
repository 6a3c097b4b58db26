// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace clover {

// Owning zero-initialised memory aligned to `kAlignment` bytes. Large buffers come straight from
// zero pages, so untouched parts cost no memory.
class AlignedBuffer {
 public:
  static constexpr size_t kAlignment = 64;
  AlignedBuffer() = default;
  explicit AlignedBuffer(int64_t bytes);
  AlignedBuffer(AlignedBuffer&&) noexcept = default;
  AlignedBuffer& operator=(AlignedBuffer&&) noexcept = default;

  uint8_t* data() const { return data_.get(); }
  int64_t bytes() const { return data_ ? data_.get_deleter().bytes : 0; }

 private:
  struct Unmap {
    int64_t bytes;
    void operator()(uint8_t* p) const;
  };
  std::unique_ptr<uint8_t, Unmap> data_{nullptr, Unmap{0}};
};

// Scratch memory of a forward pass: bump allocation, all freed at once. Grows by adding chunks; the
// next reset() joins them, so a steady load allocates nothing.
class Arena {
 public:
  void* allocate(int64_t bytes);
  float* floats(int64_t count) {
    return static_cast<float*>(allocate(count * static_cast<int64_t>(sizeof(float))));
  }
  void reset();
  int64_t bytes() const;

 private:
  std::vector<AlignedBuffer> chunks_;
  int64_t used_ = 0;   // of the last chunk
  int64_t total_ = 0;  // handed out since reset
};

}  // namespace clover
