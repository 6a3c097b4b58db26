// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kv_memory.h"

#include <cstring>
#include <limits>

#include "base/error.h"

namespace clover {

CpuKvStore::CpuKvStore(const KvShape& shape) : shape_(shape) {
  if (shape.type != DType::kF16 && shape.type != DType::kF32)
    fail(ErrorCode::kUnsupported, "KV type {} is not supported, use F16 or F32",
         dtype_name(shape.type));
  if (shape.layers <= 0 || shape.kv_heads <= 0 || shape.head_dim <= 0 || shape.blocks <= 0)
    fail(ErrorCode::kInvalidArgument, "a KV store needs positive sizes");
  element_ = shape.type == DType::kF16 ? 2 : 4;
  value_stride_ = (shape.head_dim + 15) / 16 * 16;
  keys_bytes_ = shape.kv_heads * shape.head_dim * kKvBlockTokens * element_;
  block_bytes_ = keys_bytes_ + shape.kv_heads * kKvBlockTokens * value_stride_ * element_;
  if (shape.blocks > std::numeric_limits<int64_t>::max() / shape.layers / block_bytes_)
    fail(ErrorCode::kExhausted, "not enough memory for {} KV blocks", shape.blocks);
  memory_ = AlignedBuffer(shape.layers * shape.blocks * block_bytes_);
}

template <typename T>
void CpuKvStore::copy_token(const uint8_t* from, int64_t from_lane, uint8_t* to,
                            int64_t to_lane) const {
  const auto* key_from = reinterpret_cast<const T*>(from);
  auto* key_to = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < shape_.kv_heads * shape_.head_dim; ++i)
    key_to[i * kKvBlockTokens + to_lane] = key_from[i * kKvBlockTokens + from_lane];
  const auto* value_from = reinterpret_cast<const T*>(from + keys_bytes_);
  auto* value_to = reinterpret_cast<T*>(to + keys_bytes_);
  for (int64_t g = 0; g < shape_.kv_heads; ++g)
    std::memmove(value_to + (g * kKvBlockTokens + to_lane) * value_stride_,
                 value_from + (g * kKvBlockTokens + from_lane) * value_stride_,
                 static_cast<size_t>(value_stride_) * sizeof(T));
}

void CpuKvStore::move(std::span<const Move> moves) {
  for (const Move& m : moves) {
    for (int64_t layer = 0; layer < shape_.layers; ++layer) {
      const uint8_t* from = block(layer, m.from / kKvBlockTokens);
      uint8_t* to = block(layer, m.to / kKvBlockTokens);
      if (element_ == 2) {
        copy_token<uint16_t>(from, m.from % kKvBlockTokens, to, m.to % kKvBlockTokens);
      } else {
        copy_token<float>(from, m.from % kKvBlockTokens, to, m.to % kKvBlockTokens);
      }
    }
  }
}

template <typename T>
void CpuKvStore::put(int64_t layer, int64_t address, const T* key, const T* value) {
  uint8_t* at = block(layer, address / kKvBlockTokens);
  const int64_t lane = address % kKvBlockTokens;
  auto* keys = reinterpret_cast<T*>(at);
  auto* values = reinterpret_cast<T*>(at + keys_bytes_);
  for (int64_t i = 0; i < shape_.kv_heads * shape_.head_dim; ++i)
    keys[i * kKvBlockTokens + lane] = key[i];
  for (int64_t g = 0; g < shape_.kv_heads; ++g)
    std::memcpy(values + (g * kKvBlockTokens + lane) * value_stride_, value + g * shape_.head_dim,
                static_cast<size_t>(shape_.head_dim) * sizeof(T));
}

template void CpuKvStore::put<uint16_t>(int64_t, int64_t, const uint16_t*, const uint16_t*);
template void CpuKvStore::put<float>(int64_t, int64_t, const float*, const float*);

KvHeadView CpuKvStore::head(int64_t layer, int64_t kv_head, const int32_t* blocks) const {
  KvHeadView view;
  const uint8_t* base = block(layer, 0);
  view.keys = base + kv_head * shape_.head_dim * kKvBlockTokens * element_;
  view.values = base + keys_bytes_ + kv_head * kKvBlockTokens * value_stride_ * element_;
  view.block_bytes_k = block_bytes_;
  view.block_bytes_v = block_bytes_;
  view.blocks = blocks;
  view.head_dim = shape_.head_dim;
  view.value_stride = value_stride_;
  return view;
}

}  // namespace clover
