// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "model/batch.h"
#include "model/config.h"

namespace clover {

struct ForwardResult {
  Tensor hidden;                    // [R, D] last hidden state before the final norm
  Tensor logits;                    // [rows that want logits, V], in row order
  std::vector<int32_t> logits_row;  // [R] index into logits, -1 where none were wanted
};

struct ModelWeights;

// A loaded model: immutable, shared by all sequences; everything that changes is passed in.
class Model {
 public:
  // Repacks the checkpoint's weights for the backend. The checkpoint is not needed afterwards.
  // Checks every tensor's shape against the configuration first (Error(kCorrupt) naming it).
  // `progress` (may be null) is called with the share done, 0 … 1.
  static std::shared_ptr<const Model> load(const Checkpoint& checkpoint,
                                           std::shared_ptr<Backend> backend,
                                           void (*progress)(double, void*) = nullptr,
                                           void* progress_context = nullptr);
  // Only what lies outside the decoder layers: embedding, final norm, LM head and rotation, which
  // is what speculators use of a target. forward() is an Error(kInvalidArgument) then.
  static std::shared_ptr<const Model> load_frame(const Checkpoint& checkpoint,
                                                 std::shared_ptr<Backend> backend);
  ~Model();

  const ModelConfig& config() const;
  Backend& backend() const;
  // For speculators, which share the target's head, norms and rotation (model/weights.h).
  const ModelWeights& weights() const;
  int64_t weight_bytes() const;
  // The matrices that a pass over one row reads, in the order of their use, for benchmarks.
  std::vector<MatrixPtr> matrices() const;
  // Names of tensors in the checkpoint that nothing reads (not those that any program ignores).
  const std::vector<std::string>& unused_tensors() const;
  // The KV store's shape for this model.
  KvShape kv_shape(int64_t blocks, DType type) const;

  // One pass over the batch's rows: stores their keys and values at their slots and computes hidden
  // states and the wanted logits.
  // Error(kInvalidArgument) for tokens outside [0, vocab), an empty batch, rows that do not fit
  // their sequences (make_attention_plan) and blocks or a store that do not fit the model.
  ForwardResult forward(const Batch& batch, KvStore& kv) const;
  // The LM head over rows of hidden states as forward() gives them: [R, V].
  Tensor logits(const Tensor& hidden) const;

 private:
  Model(ModelConfig config, std::shared_ptr<Backend> backend,
        std::unique_ptr<const ModelWeights> weights);
  ModelConfig config_;
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<const ModelWeights> weights_;
};

// Fills in slots, positions and paths for the backend from a batch's parents.
// Error(kInvalidArgument) when arrays differ in size, sequences do not cover the rows in order,
// blocks are too few or a parent is neither an earlier row of the same sequence nor a stored one.
AttentionPlan make_attention_plan(const Batch& batch);

}  // namespace clover
