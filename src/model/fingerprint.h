// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"
#include "model/config.h"
#include "model/tensor_map.h"

namespace clover {

// Which weights a model has, in 64 hexadecimal digits: a SHA-256 over its shape and over samples of
// its embedding, its head, its final norm and of two matrices of every layer. The same for the same
// file every time, in milliseconds whatever the file's size; another one for another quantisation
// or a fine-tune, since no tensor survives those. Bytes between the samples are not seen.
// `tensors` are those of `checkpoint`, whose pages are taken out of memory again.
std::string model_fingerprint(const ModelConfig& config, const ModelTensors& tensors,
                              const Checkpoint& checkpoint);
std::string model_fingerprint(const Checkpoint& checkpoint);

}  // namespace clover
