// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/config.h"
#include "model/rope.h"
#include "model/tensor_map.h"

namespace clover {

// One decoder layer in the backend's own layout.
struct LayerWeights {
  VectorPtr attention_norm;  // [D]
  MatrixPtr qkv;             // {(H + 2G)*d, D}
  VectorPtr qkv_bias;        // [(H + 2G)*d] or null
  VectorPtr q_norm;          // [d] or null
  VectorPtr k_norm;          // [d] or null
  MatrixPtr output;          // {D, H*d}
  VectorPtr ffn_norm;        // [D]
  MatrixPtr gate_up;         // {2I, D}
  MatrixPtr down;            // {D, I}
};

struct ModelWeights {
  MatrixPtr embedding;  // {V, D}
  std::vector<LayerWeights> layers;
  VectorPtr final_norm;  // [D]
  MatrixPtr head;        // {V, D}; the embedding itself when tied
  RopeTable rope;
  std::vector<float> alibi;         // [H] or empty
  std::vector<std::string> unused;  // tensors of the file that nothing reads
  int64_t bytes() const;
};

// Whom loading tells how it goes on.
struct LoadListener {
  std::function<void(double)> progress;                   // the share done, 0 … 1
  std::function<void(const std::string& tensor)> packed;  // a tensor's bytes have been taken over
};

// Repacks the tensors for the backend. A backend's Error is passed on with the tensor's name in
// front.
ModelWeights load_weights(const ModelTensors& tensors, const ModelConfig& config, Backend& backend,
                          const LoadListener& listener);

// Rows of the LM head, in the order of `rows`, as a matrix of their own. Without `as` the same bits
// as those rows of ModelWeights::head multiply by, since quantised rows are copied as they lie in
// the file; with it quantised anew, for which the columns must be a multiple of its block.
MatrixPtr load_head_rows(const ModelTensors& tensors, const ModelConfig& config, Backend& backend,
                         std::span<const int32_t> rows, std::optional<DType> as = {});

}  // namespace clover
