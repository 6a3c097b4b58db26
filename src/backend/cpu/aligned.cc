// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/aligned.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/error.h"

namespace clover {

AlignedBuffer::AlignedBuffer(int64_t bytes) {
  if (bytes <= 0) return;
  void* p = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) fail(ErrorCode::kExhausted, "not enough memory for {} bytes", bytes);
  // Fewer page-table walks while weights stream by; a refusal costs nothing.
  if (bytes >= (4 << 20)) madvise(p, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  data_ = {static_cast<uint8_t*>(p), Unmap{bytes}};
}

void AlignedBuffer::Unmap::operator()(uint8_t* p) const { munmap(p, static_cast<size_t>(bytes)); }

void* Arena::allocate(int64_t bytes) {
  constexpr int64_t kChunk = 1 << 20;
  constexpr int64_t kAlign = AlignedBuffer::kAlignment;
  bytes = (bytes + kAlign - 1) / kAlign * kAlign;
  if (chunks_.empty() || used_ + bytes > chunks_.back().bytes()) {
    chunks_.emplace_back(std::max(bytes, kChunk));
    used_ = 0;
  }
  uint8_t* p = chunks_.back().data() + used_;
  used_ += bytes;
  total_ += bytes;
  return p;
}

void Arena::reset() {
  if (chunks_.size() > 1) {
    chunks_.clear();
    chunks_.emplace_back(total_ + total_ / 4);
  }
  used_ = 0;
  total_ = 0;
}

int64_t Arena::bytes() const {
  int64_t sum = 0;
  for (const AlignedBuffer& chunk : chunks_) sum += chunk.bytes();
  return sum;
}

}  // namespace clover
