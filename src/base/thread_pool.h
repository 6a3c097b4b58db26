// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace clover {

// Cores that this process may use: the smallest of the affinity mask and the cgroup's CPU quota
// (v1 or v2, rounded up), at least 1.
int granted_cores();

// A fixed set of threads that share loops. The caller takes part, so a pool of size n starts n-1
// threads. Between loops a worker spins for some ten microseconds (a decoding step has hundreds of
// loops) and then sleeps. One loop at a time: parallel_for is called by one owner thread and not
// from inside a loop.
class ThreadPool {
 public:
  // Takes at least 1 thread; throws Error(kInvalidArgument) outside 1 … 1024.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(index, thread) for every index in [0, count), each once, in any order; thread is in
  // [0, size()). Every thread starts with its own even share, in order, so that loops of the same
  // shape find their data in the caches where they left it; who is done early takes over single
  // indices of the others. The body must not throw. Everything written by the bodies is visible to
  // the caller afterwards.
  template <typename Body>
  void parallel_for(int64_t count, const Body& body) {
    if (workers_.empty() || count <= 1) {
      for (int64_t i = 0; i < count; ++i) body(i, 0);
      return;
    }
    run(Job{[](const void* context, int64_t index, int thread) {
              (*static_cast<const Body*>(context))(index, thread);
            },
            &body, count});
  }

 private:
  struct Job {
    void (*call)(const void*, int64_t, int) = nullptr;
    const void* context = nullptr;
    int64_t count = 0;
  };
  void run(const Job& job);
  void work(const Job& job, int thread);
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  void worker_loop(int thread);

  Job job_;
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<uint32_t> epoch_{0};
  std::vector<Share> shares_;  // one a thread
  alignas(64) std::atomic<int32_t> busy_{0};
  std::vector<std::thread> workers_;
};

}  // namespace clover
