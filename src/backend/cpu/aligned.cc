// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/aligned.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/error.h"

namespace clover {

AlignedBuffer::AlignedBuffer(int64_t bytes) {
  if (bytes <= 0) return;
  void* p = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) fail(ErrorCode::kExhausted, "not enough memory for {} bytes", bytes);
  data_ = {static_cast<uint8_t*>(p), Unmap{bytes}};
}

void AlignedBuffer::Unmap::operator()(uint8_t* p) const { munmap(p, static_cast<size_t>(bytes)); }

struct WeightMemory::Chunk {
  AlignedBuffer memory;
  uint8_t* begin = nullptr;
  int64_t bytes = 0;
};

std::shared_ptr<uint8_t> WeightMemory::allocate(int64_t bytes) {
  constexpr int64_t kPage = 2 << 20;
  constexpr int64_t kChunk = 16 * kPage;
  bytes = (bytes + 63) / 64 * 64;
  if (!chunk_ || used_ + bytes > chunk_->bytes) {
    auto chunk = std::make_shared<Chunk>();
    chunk->bytes = std::max(kChunk, (bytes + kPage - 1) / kPage * kPage);
    chunk->memory = AlignedBuffer(chunk->bytes + kPage);
    const auto address = reinterpret_cast<uintptr_t>(chunk->memory.data());
    chunk->begin = chunk->memory.data() + (kPage - address % kPage) % kPage;
    madvise(chunk->begin, static_cast<size_t>(chunk->bytes), MADV_HUGEPAGE);
    chunk_ = std::move(chunk);
    used_ = 0;
  }
  uint8_t* piece = chunk_->begin + used_;
  used_ += bytes;
  return {chunk_, piece};
}

struct BufferPool::Shelf {
  // Free buffers by the logarithm of their size; the latest is the warmest.
  std::array<std::vector<AlignedBuffer>, 64> free;
};

BufferPool::BufferPool() : shelf_(std::make_shared<Shelf>()) {}

std::shared_ptr<void> BufferPool::get(int64_t bytes) {
  constexpr int64_t kSmallest = 4096;
  const auto size = std::bit_ceil(static_cast<uint64_t>(std::max(bytes, kSmallest)));
  auto& free = shelf_->free[static_cast<size_t>(std::countr_zero(size))];
  AlignedBuffer buffer;
  if (free.empty()) {
    buffer = AlignedBuffer(static_cast<int64_t>(size));
  } else {
    buffer = std::move(free.back());
    free.pop_back();
  }
  return {buffer.release(), [shelf = shelf_, &free, size](void* p) {
            free.emplace_back(static_cast<uint8_t*>(p), static_cast<int64_t>(size));
          }};
}

}  // namespace clover
