// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/model.h"
#include "speculation/speculators/package.h"

namespace clover {

// Sequences of tokens one behind the other, N in all.
struct TrainingBatch {
  std::vector<int64_t> lengths;  // tokens of every sequence
  std::vector<int32_t> tokens;   // [N]
  std::vector<uint8_t> loss;     // [N] 1: heads are to predict this token
  at::Tensor features;           // [N, D] the target's last hidden state at every token, any float
};

// What one head makes of a batch. Head j at row t has seen the features of its sequence up to t and
// the true tokens up to t + 1 + j; it predicts the token at t + 2 + j. Only tokens with `loss` are
// predicted, in the order of the batch.
struct HeadRows {
  std::vector<int64_t> source;  // [M] row t of the batch
  std::vector<int64_t> target;  // [M] row t + 2 + j
  at::Tensor state;             // [M, D] regressive state
  at::Tensor projected;         // [M, D] behind the projector, where the head's norm begins
  at::Tensor normed;            // [M, D] what the LM head multiplies
};

struct NamedParameter {
  std::string name;  // as in the package
  at::Tensor value;  // float32 leaf that requires grad
};

// A speculator whose weights can be trained: the serving mathematics over the torch backend, whole
// sequences at a time.
class Trainable {
 public:
  // `target` has been loaded for a torch backend; its decoder layers are not needed
  // (Model::load_frame). The checkpoint is the target's, and not needed afterwards.
  Trainable(const Package& package, const Checkpoint& checkpoint,
            std::shared_ptr<const Model> target);
  ~Trainable();
  Trainable(const Trainable&) = delete;
  Trainable& operator=(const Trainable&) = delete;

  const PackageConfig& config() const;
  int64_t heads() const;
  // Change the values in place (under at::NoGradGuard), never the tensors themselves.
  const std::vector<NamedParameter>& parameters() const;
  // The package as it is now.
  Package package() const;

  // One entry per head. Errors: kInvalidArgument (lengths that do not sum up, features of another
  // shape, tokens outside the vocabulary).
  std::vector<HeadRows> forward(const TrainingBatch& batch) const;

  // {draft vocabulary, D} frozen rows of the target's LM head.
  const at::Tensor& head() const;
  // Draft id of every token of the vocabulary, -1: it cannot be drafted.
  const std::vector<int64_t>& draft_ids() const;
  // The target's final norm over features: what its LM head multiplies. [M, D]
  at::Tensor target_normed(const at::Tensor& features) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace clover
