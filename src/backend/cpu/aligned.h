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

// Owning zero-initialised memory aligned to `kAlignment` bytes. Buffers come straight from
// zero pages, so untouched parts cost no memory.
class AlignedBuffer {
 public:
  static constexpr size_t kAlignment = 64;
  AlignedBuffer() = default;
  explicit AlignedBuffer(int64_t bytes);
  AlignedBuffer(AlignedBuffer&&) noexcept = default;
  AlignedBuffer& operator=(AlignedBuffer&&) noexcept = default;

  // Takes over memory that release() gave up.
  AlignedBuffer(uint8_t* data, int64_t bytes) : data_(data, Unmap{bytes}) {}
  uint8_t* release() { return data_.release(); }

  uint8_t* data() const { return data_.get(); }
  int64_t bytes() const { return data_ ? data_.get_deleter().bytes : 0; }

 private:
  struct Unmap {
    int64_t bytes;
    void operator()(uint8_t* p) const;
  };
  std::unique_ptr<uint8_t, Unmap> data_{nullptr, Unmap{0}};
};

// Memory for weights, in large pages where the system has them: decoding reads every weight once a
// step, and with 4 KiB pages the page-table walks of a virtual machine cost as much as the reads.
// Pieces are cut from chunks that live as long as any piece.
class WeightMemory {
 public:
  // `bytes` zeroed bytes, aligned to AlignedBuffer::kAlignment. Not thread-safe.
  std::shared_ptr<uint8_t> allocate(int64_t bytes);

 private:
  struct Chunk;
  std::shared_ptr<Chunk> chunk_;
  int64_t used_ = 0;
};

// Buffers for activations, handed out again as soon as their last handle is gone, so that a layer
// works in the cache lines that the layer before has left warm. One owner thread.
class BufferPool {
 public:
  BufferPool();
  // At least `bytes` bytes, aligned to AlignedBuffer::kAlignment, contents undefined. The buffer
  // returns to the pool when the last copy of the handle dies; it may outlive the pool.
  std::shared_ptr<void> get(int64_t bytes);

 private:
  struct Shelf;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace clover
