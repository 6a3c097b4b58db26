// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace clover {

// Hidden states of texts on disk, in 16 bits, so that later epochs need no pass of the target. An
// append-only file of records, each of one text: a process may be killed at any time, and a record
// that is not whole is cut off or passed over. Values beyond what 16 bits hold are stored as the
// largest (65,504), which a norm behind them evens out.
class FeatureCache {
 public:
  // Opens or makes the file. `target` is the fingerprint of the model. Error(kInvalidArgument) when
  // the file is of another model or no such file, or when another process has it open.
  FeatureCache(const std::string& path, const std::string& target, int64_t hidden);
  ~FeatureCache();
  FeatureCache(const FeatureCache&) = delete;
  FeatureCache& operator=(const FeatureCache&) = delete;

  // Bytes that texts of so many tokens take.
  static uint64_t bytes(int64_t texts, int64_t tokens, int64_t hidden);

  int64_t texts() const { return std::ssize(places_); }
  // Whether the text is there; then its states [tokens][D] are in `out`.
  bool read(std::span<const TokenId> text, float* out);
  // Error(kExhausted) when the disk is full; what was there before stays.
  void write(std::span<const TokenId> text, const float* states);

 private:
  void open_file();
  void check_header(const std::string& target);
  void scan();

  std::string path_;
  int64_t hidden_;
  int descriptor_ = -1;
  uint64_t end_ = 0;                               // of the last whole record
  std::unordered_map<uint64_t, uint64_t> places_;  // key of a text → its record
  std::vector<uint16_t> buffer_;
};

}  // namespace clover
