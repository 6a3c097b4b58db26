// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace clover {

// Where the processes of a training find each other.
struct GroupAddress {
  int64_t rank = 0;  // of this process, from 0
  int64_t size = 1;  // processes in all
  std::string host;  // of c10d's store, with its port
  uint16_t port = 0;
  bool serves = false;  // whether this process opens the store there
  std::string prefix;   // of all names in the store
  std::chrono::milliseconds patience = std::chrono::hours(1);  // to wait for the others
};

// As torchrun tells its processes: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and whether its agent
// opens the store (TORCHELASTIC_USE_AGENT_STORE). Without WORLD_SIZE: one process alone.
// Error(kInvalidArgument) naming the variable that is missing or wrong.
GroupAddress group_from_environment();

// The processes of one training, which call the same functions in the same order. Numbers go
// through c10d's store: every process adds up one slice of them in the order of the ranks and
// hands it to the others, so that all hold the same bits. Errors: kInvalidArgument when another
// process does not answer in time or the store is gone.
class TrainGroup {
 public:
  explicit TrainGroup(const GroupAddress& address);
  // The process that opened the store waits a while for the others to be done with it.
  ~TrainGroup();
  TrainGroup(const TrainGroup&) = delete;
  TrainGroup& operator=(const TrainGroup&) = delete;

  int64_t rank() const { return address_.rank; }
  int64_t size() const { return address_.size; }
  bool first() const { return address_.rank == 0; }

  // The first process's text.
  std::string share(const std::string& text);
  // Values, which are as many in every process, become their sums over the processes.
  void sum(std::span<double> values);
  // The same for tensors of float32 in main memory; where one is undefined in every process it
  // stays so, otherwise it counts as zeros of `shapes`' size.
  void sum(std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& shapes);

 private:
  using Bytes = std::vector<uint8_t>;

  template <class T>
  void sum_slices(std::span<T> values);
  void put(const std::string& key, std::span<const uint8_t> bytes);
  Bytes get(const std::string& key, size_t size);
  std::string key(const char* what, int64_t from, int64_t to) const;
  // All others have begun this round, so nobody reads what was written in earlier ones.
  void forget_earlier();

  GroupAddress address_;
  struct Store;
  std::unique_ptr<Store> store_;
  int64_t round_ = 0;
  std::vector<std::string> written_;  // in this round
  std::vector<std::string> earlier_;
};

}  // namespace clover
