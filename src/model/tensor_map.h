// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "model/config.h"

namespace clover {

// A tensor in the checkpoint whose name, type and shape were found right.
struct MappedTensor {
  std::string name;
  WeightView view;  // a vector of n values is {1, n}
};

// The tensors of one decoder layer. Stacked projections that a file keeps apart are several parts.
struct LayerTensors {
  MappedTensor attention_norm;         // [D]
  std::vector<MappedTensor> qkv;       // rows H*d, G*d, G*d, together or apart, by D
  std::vector<MappedTensor> qkv_bias;  // the same rows; empty where the model has none
  std::vector<MappedTensor> q_norm;    // [d], Qwen3 only
  std::vector<MappedTensor> k_norm;    // [d], Qwen3 only
  MappedTensor output;                 // {D, H*d}
  MappedTensor ffn_norm;               // [D]
  std::vector<MappedTensor> gate_up;   // {I, D} each
  MappedTensor down;                   // {D, I}
};

struct ModelTensors {
  MappedTensor embedding;          // {V, D}
  MappedTensor final_norm;         // [D]
  std::vector<MappedTensor> head;  // {V, D}, empty when tied to the embedding
  std::vector<LayerTensors> layers;
  std::vector<std::string> unused;  // names of tensors outside the decoder that nothing reads
};

// Finds every tensor that the configuration asks for under the names of its file format.
// Errors: kNotFound (missing tensor, by name), kCorrupt (wrong shape), kUnsupported (integer
// tensors as weights; a tensor inside a decoder layer that this architecture does not know, since
// leaving it out would compute another function).
ModelTensors map_tensors(const Checkpoint& checkpoint, const ModelConfig& config);

}  // namespace clover
