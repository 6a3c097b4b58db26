// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"

namespace clover {

// Where a run stands, besides its numbers. Random choices are functions of (seed, position), so
// nothing else is needed to go on exactly.
struct RunPosition {
  int64_t step = 0;             // steps taken
  int64_t epoch = 0;            // of the next batch
  int64_t batch = 0;            // the next batch of that epoch
  int64_t tokens = 0;           // answer tokens presented
  std::vector<int64_t> shards;  // of every data folder, those that this epoch reads
  double best = -1;             // of the best package so far
  int64_t best_step = -1;
  double seconds = 0;  // spent training
};

// Values of one tensor, somewhere in memory.
struct StateTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<float> values;
};

// Writes a run's state: numbers, position and settings. The file appears whole or not at all.
// Error(kExhausted) when the disk is full: the state before it stays.
void save_state(const std::string& path, const RunPosition& position, const Json& settings,
                std::span<const StateTensor> tensors);

// Only the settings and the position. Errors as load_state.
struct SavedRun {
  RunPosition position;
  Json settings;
};
SavedRun read_state(const std::string& path);

// Fills in the tensors. Errors: kNotFound, kCorrupt (a tensor that is missing or has another shape,
// by name; a position that does not parse).
void load_state(const std::string& path, std::span<const StateTensor> tensors);

// A run's folder while one process trains there. Removes what a killed one left half written: files
// named ….tmp and folders of packages that were not put in place.
class RunFolder {
 public:
  // Makes the folder where it is missing. Error(kIo) when that cannot be done, kInvalidArgument
  // when another process trains there.
  explicit RunFolder(const std::string& path);

 private:
  std::optional<FolderLock> lock_;
};

// Error(kInvalidArgument) naming every setting in which the two differ.
void check_settings(const Json& saved, const Json& wanted, const std::string& folder);

}  // namespace clover
