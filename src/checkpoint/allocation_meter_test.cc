// SPDX-License-Identifier: Apache-2.0
// Counts what operator new is asked for, so that tests can bound what a hostile file costs.
#include <cstdlib>
#include <new>
#include <vector>

#include "checkpoint/test_util.h"

namespace {

thread_local size_t largest = 0;
thread_local size_t total = 0;

}  // namespace

// Not inlined: the compiler would see malloc paired with delete, and warn.
[[gnu::noinline]] void* operator new(size_t size) {
  if (size > largest) largest = size;
  total += size;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}

// The library's own version would allocate elsewhere than the operator delete below frees.
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace clover {

size_t largest_allocation() { return largest; }
size_t total_allocated() { return total; }
void reset_allocation_meter() { largest = total = 0; }

namespace {

TEST(AllocationMeter, SeesWhatVectorsAskFor) {
  reset_allocation_meter();
  const std::vector<char> block(12345);
  EXPECT_EQ(largest_allocation(), block.size());
  EXPECT_GE(total_allocated(), block.size());
}

}  // namespace
}  // namespace clover
