// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "base/error.h"

namespace clover {
namespace {

TEST(ThreadPool, EveryIndexOnceForAnyCountAndSize) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int64_t count : {0, 1, 2, 3, 7, 100, 1001}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(count));
      pool.parallel_for(count, [&](int64_t i, int thread) {
        ASSERT_GE(thread, 0);
        ASSERT_LT(thread, threads);
        hits[static_cast<size_t>(i)].fetch_add(1);
      });
      for (const auto& hit : hits) EXPECT_EQ(hit.load(), 1);
    }
  }
}

TEST(ThreadPool, WritesAreVisibleAfterEveryLoop) {
  ThreadPool pool(4);
  std::vector<int64_t> values(64, 0);
  for (int round = 0; round < 5000; ++round)
    pool.parallel_for(64, [&](int64_t i, int) { values[static_cast<size_t>(i)] += i; });
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], 5000 * i);
}

TEST(ThreadPool, WakesAfterSleep) {
  ThreadPool pool(3);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int64_t> sum{0};
    pool.parallel_for(100, [&](int64_t i, int) { sum += i; });
    EXPECT_EQ(sum.load(), 4950);
  }
}

TEST(ThreadPool, RefusesImpossibleSizes) {
  EXPECT_THROW(ThreadPool(0), Error);
  EXPECT_THROW(ThreadPool(-1), Error);
  EXPECT_THROW(ThreadPool(5000), Error);
}

TEST(ThreadPool, GrantedCoresIsSane) {
  EXPECT_GE(granted_cores(), 1);
  EXPECT_LE(granted_cores(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace clover
