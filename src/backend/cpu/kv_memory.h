// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "backend/cpu/aligned.h"
#include "backend/cpu/kernels/kernels.h"

namespace clover {

// Keys and values in blocks of 16 tokens: per layer and block, keys [G][d][16] (lane = token, so a
// score needs no sum across lanes) and values [G][16][d rounded up to 16].
class CpuKvStore : public KvStore {
 public:
  explicit CpuKvStore(const KvShape& shape);

  const KvShape& shape() const override { return shape_; }
  int64_t bytes() const override { return memory_.bytes(); }
  void move(std::span<const Move> moves) override;

  // Stores one token's key and value (`T`, the store's element, [G*d] each) of a layer at a token
  // address.
  template <typename T>
  void put(int64_t layer, int64_t address, const T* key, const T* value);
  KvHeadView head(int64_t layer, int64_t kv_head, const int32_t* blocks) const;

 private:
  uint8_t* block(int64_t layer, int64_t block_id) const {
    return memory_.data() + (layer * shape_.blocks + block_id) * block_bytes_;
  }
  template <typename T>
  void copy_token(const uint8_t* from, int64_t from_lane, uint8_t* to, int64_t to_lane) const;

  KvShape shape_;
  int64_t element_ = 2;
  int64_t value_stride_ = 0;
  int64_t keys_bytes_ = 0;  // of a block
  int64_t block_bytes_ = 0;
  AlignedBuffer memory_;
};

}  // namespace clover
