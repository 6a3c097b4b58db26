// SPDX-License-Identifier: Apache-2.0
#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "base/error.h"

namespace clover {
namespace {

// About 20 µs: the gap between two loops of a decoding step is 1 to 5 µs.
constexpr int kSpins = 2000;

void pause_cpu() { __builtin_ia32_pause(); }

// Cores of a cgroup v2 quota file ("max 100000" or "200000 100000"); a large number when unlimited.
double quota_v2(const std::string& file) {
  std::ifstream in(file);
  std::string quota;
  double period = 0;
  if (!(in >> quota >> period) || quota == "max" || period <= 0) return 1e9;
  try {
    return std::stod(quota) / period;
  } catch (const std::exception&) {
    return 1e9;
  }
}

double quota_v1(const std::string& folder) {
  std::ifstream quota_in(folder + "/cpu.cfs_quota_us");
  std::ifstream period_in(folder + "/cpu.cfs_period_us");
  double quota = -1;
  double period = 0;
  if (!(quota_in >> quota) || !(period_in >> period) || quota <= 0 || period <= 0) return 1e9;
  return quota / period;
}

// The tightest quota on the path from this process' cgroup to the root.
double cgroup_quota() {
  double cores = std::min(quota_v2("/sys/fs/cgroup/cpu.max"), quota_v1("/sys/fs/cgroup/cpu"));
  std::ifstream in("/proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    const size_t colon = line.rfind(':');
    if (colon == std::string::npos) continue;
    std::string path = line.substr(colon + 1);
    const bool v2 = line.rfind("0::", 0) == 0;
    if (!v2 && line.find("cpu") == std::string::npos) continue;
    for (; path.size() > 1; path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/')))
      cores = std::min(cores, v2 ? quota_v2("/sys/fs/cgroup" + path + "/cpu.max")
                                 : quota_v1("/sys/fs/cgroup/cpu" + path));
  }
  return cores;
}

}  // namespace

int granted_cores() {
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
  const double quota = cgroup_quota();
  if (quota < cores) cores = static_cast<int>(std::ceil(quota));
  return std::max(cores, 1);
}

ThreadPool::ThreadPool(int threads) : shares_(static_cast<size_t>(std::clamp(threads, 1, 1024))) {
  if (threads < 1 || threads > 1024)
    fail(ErrorCode::kInvalidArgument, "threads must be 1 to 1024, not {}", threads);
  workers_.reserve(static_cast<size_t>(threads - 1));
  for (int t = 1; t < threads; ++t) workers_.emplace_back([this, t] { worker_loop(t); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_release);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(const Job& job) {
  job_ = job;
  const auto threads = static_cast<int64_t>(shares_.size());
  for (int64_t t = 0; t < threads; ++t) {
    Share& share = shares_[static_cast<size_t>(t)];
    share.next.store(job.count * t / threads, std::memory_order_relaxed);
    share.end = job.count * (t + 1) / threads;
  }
  busy_.store(static_cast<int32_t>(workers_.size()), std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  work(job, 0);
  for (int spins = 0; busy_.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < kSpins) {
      pause_cpu();
    } else {
      const int32_t busy = busy_.load(std::memory_order_acquire);
      if (busy != 0) busy_.wait(busy, std::memory_order_acquire);
    }
  }
}

void ThreadPool::work(const Job& job, int thread) {
  const size_t threads = shares_.size();
  for (size_t i = 0; i < threads; ++i) {
    Share& share = shares_[(static_cast<size_t>(thread) + i) % threads];
    for (;;) {
      const int64_t index = share.next.fetch_add(1, std::memory_order_relaxed);
      if (index >= share.end) break;
      job.call(job.context, index, thread);
    }
  }
}

void ThreadPool::worker_loop(int thread) {
  uint32_t seen = 0;
  for (;;) {
    int spins = 0;
    uint32_t epoch = epoch_.load(std::memory_order_acquire);
    while (epoch == seen) {
      if (spins++ < kSpins) {
        pause_cpu();
      } else {
        epoch_.wait(seen, std::memory_order_acquire);
      }
      epoch = epoch_.load(std::memory_order_acquire);
    }
    seen = epoch;
    if (stop_.load(std::memory_order_acquire)) return;
    work(job_, thread);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace clover
