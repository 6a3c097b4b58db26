// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace clover {

// One text to train on: what the target read and what it wrote, in order.
struct DistilledSample {
  std::vector<TokenId> ids;
  // One per id: 1 where the target drew the id after exactly the ids before it, 0 where it was
  // given. The first is 0, at least one is 1.
  std::vector<uint8_t> mask;
  uint64_t prompt_hash = 0;  // of the whole prompt, all turns of a conversation
  float temperature = 0;     // that the answers were drawn with; 0: greedy
  bool ended = false;        // the last answer ended by itself, not at the token limit
  bool self_drawn = false;   // the target wrote the prompt as well
  uint32_t task = 0;         // which task of its shard it answers
  uint16_t first_turn = 0;   // the first turn whose answer is in the mask, from 0
  uint16_t turns = 0;        // turns whose answers are in the mask
};

// Tasks of a shard that gave no sample, by reason.
struct DroppedTasks {
  uint32_t duplicate = 0;  // a self-drawn prompt that was there already
  uint32_t excluded = 0;   // a self-drawn prompt that shares words with the exclusion files
  uint32_t unusable = 0;   // a self-drawn prompt that is empty, too long or never ended
  uint32_t failed = 0;     // the engine gave up
  bool operator==(const DroppedTasks&) const = default;
};

// What a shard's header says. A shard holds the samples of the tasks first_task … first_task +
// tasks - 1 in order; a conversation may give several samples, a dropped task gives none.
struct ShardHeader {
  std::string fingerprint;  // of the target, 64 hexadecimal digits
  uint32_t vocab = 0;
  uint64_t first_task = 0;
  uint32_t tasks = 0;
  DroppedTasks dropped;
  uint32_t samples = 0;
  uint64_t tokens = 0;
  uint64_t response_tokens = 0;  // of them, those of the mask
  bool operator==(const ShardHeader&) const = default;
};

// The file's bytes (docs/distilled-data.md); the counts of the header are set from the samples.
// Error(kInvalidArgument) for a sample that breaks DistilledSample's rules.
std::string shard_bytes(ShardHeader header, std::span<const DistilledSample> samples);

// A shard that was checked in full; looks into the bytes, which must stay.
class ShardView {
 public:
  // Error(kCorrupt) naming `name` and the field that is wrong; kUnsupported for a version or token
  // size that is unknown. The checksum is not looked at, since a sound structure is all that memory
  // safety needs: see check_shard_digest().
  ShardView(std::span<const std::byte> bytes, const std::string& name);

  const ShardHeader& header() const { return header_; }
  size_t size() const { return samples_.size(); }
  uint64_t prompt_hash(size_t i) const { return samples_[i].prompt_hash; }
  bool self_drawn(size_t i) const;
  bool ended(size_t i) const;
  uint16_t turns(size_t i) const { return samples_[i].turns; }
  uint32_t task(size_t i) const { return samples_[i].task; }
  float temperature(size_t i) const { return samples_[i].temperature; }
  uint32_t tokens(size_t i) const { return samples_[i].tokens; }
  uint32_t response_tokens(size_t i) const { return samples_[i].response_tokens; }
  DistilledSample sample(size_t i) const;

 private:
  struct Record {
    uint64_t prompt_hash;
    uint64_t first_token;
    uint32_t tokens;
    uint32_t response_tokens;
    float temperature;
    uint32_t task;
    uint32_t flags;
    uint16_t first_turn;
    uint16_t turns;
  };
  void read_header(std::span<const std::byte> bytes);
  void cut_parts(std::span<const std::byte> bytes);
  void read_records();
  void check_tokens(const Record& record, size_t i) const;
  TokenId id(uint64_t token) const;
  bool in_mask(uint64_t token) const;

  std::string name_;
  ShardHeader header_;
  uint32_t token_bytes_ = 0;
  std::vector<Record> samples_;
  std::span<const std::byte> records_;
  std::span<const std::byte> ids_;
  std::span<const std::byte> mask_;
};

// Error(kCorrupt) when the bytes are not those that were written.
void check_shard_digest(std::span<const std::byte> bytes, const std::string& name);

// Bytes that `tokens` ids with their mask take in a shard, without the records.
uint64_t shard_token_bytes(uint64_t tokens, uint32_t vocab);
inline constexpr uint64_t kShardRecordBytes = 40;

}  // namespace clover
