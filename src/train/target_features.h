// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// What a speculator learns from: the target's last hidden state, before the final norm, at every
// token of a text. Runs prompt passes on the target's own backend.
class TargetFeatures {
 public:
  explicit TargetFeatures(std::shared_ptr<const Model> target) : target_(std::move(target)) {}

  const Model& target() const { return *target_; }
  int64_t hidden() const { return target_->config().hidden; }
  // Hidden states of all tokens of the texts, one text behind the other: [tokens of all][D].
  // Error(kInvalidArgument) for tokens outside the vocabulary.
  std::vector<float> run(std::span<const std::vector<TokenId>> texts);

 private:
  void run_some(std::span<const std::vector<TokenId>> texts, float* out);

  std::shared_ptr<const Model> target_;
  std::unique_ptr<KvStore> kv_;  // grows to what a pass needs
};

}  // namespace clover
