// SPDX-License-Identifier: Apache-2.0
#pragma once

// A target whose text is known: after token t it always says next(t). Layers that add nothing, so
// that the last hidden state is the token's embedding, and a head that maps it to the successor.
// Beside it distilled data as the target would write it.

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "checkpoint/writer.h"
#include "model/fingerprint.h"
#include "tensor/quant.h"
#include "train/train_fixtures.h"

namespace clover::train_testing {

inline constexpr TokenId kToyFirst = 2;  // the tokens before it never come
inline constexpr int64_t kToyVocab = 96;

// One cycle through all tokens, far from the order of their ids.
inline TokenId toy_next(TokenId token) {
  return kToyFirst + (token - kToyFirst + 37) % (kToyVocab - kToyFirst);
}

inline std::vector<TokenId> toy_text(TokenId first, int64_t length) {
  std::vector<TokenId> text = {first};
  while (std::ssize(text) < length) text.push_back(toy_next(text.back()));
  return text;
}

// Random embeddings of length 8 (nearly at right angles), and the head's row of next(t) along t's.
inline void write_toy_model(const std::string& folder) {
  write_tiny_model(folder, kTemplate);
  std::vector<std::vector<float>> values;
  std::vector<TensorInfo> tensors;
  {
    const auto checkpoint = open_checkpoint(folder);
    for (const TensorInfo& tensor : checkpoint->tensors()) {
      int64_t count = 1;
      for (const int64_t extent : tensor.shape) count *= extent;
      std::vector<float> read(static_cast<size_t>(count));
      dequantise(tensor.type, tensor.data.data(), count, read.data());
      if (contains(tensor.name, "o_proj") || contains(tensor.name, "down_proj"))
        read.assign(read.size(), 0.0f);
      if (tensor.name == "model.norm.weight") read.assign(read.size(), 1.0f);
      values.push_back(std::move(read));
      tensors.push_back({tensor.name, DType::kF32, tensor.shape, {}});
    }
  }
  std::vector<float>* embedding = nullptr;
  std::vector<float>* head = nullptr;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (contains(tensors[i].name, "embed_tokens")) embedding = &values[i];
    if (contains(tensors[i].name, "lm_head")) head = &values[i];
  }
  const size_t hidden = embedding->size() / kToyVocab;
  for (size_t i = 0; i < embedding->size(); ++i)
    (*embedding)[i] = random_uniform(stream_key(1, 1), i) < 0.5 ? -1.0f : 1.0f;
  head->assign(head->size(), 0.0f);
  for (TokenId t = kToyFirst; t < kToyVocab; ++t)
    for (size_t d = 0; d < hidden; ++d)
      (*head)[static_cast<size_t>(toy_next(t)) * hidden + d] =
          0.5f * (*embedding)[static_cast<size_t>(t) * hidden + d];
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].data = std::as_bytes(std::span(values[i]));
  write_safetensors(folder + "/model.safetensors", tensors, {});
}

// Texts of the toy language: a prompt of two tokens and an answer; every token begins some.
inline void write_toy_data(const std::string& folder, const Checkpoint& target, int64_t texts,
                           int64_t length = 24) {
  DistillSettings settings;
  settings.target = "toy";
  settings.fingerprint = model_fingerprint(target);
  settings.vocab = kToyVocab;
  settings.context = 64;
  DistilledFolder out(folder, settings);
  ShardHeader header;
  header.fingerprint = settings.fingerprint;
  header.vocab = kToyVocab;
  header.tasks = static_cast<uint32_t>(texts);
  std::vector<DistilledSample> samples;
  for (int64_t i = 0; i < texts; ++i) {
    const std::vector<TokenId> text =
        toy_text(kToyFirst + static_cast<TokenId>(i % (kToyVocab - kToyFirst)), length);
    samples.push_back(made_up(static_cast<uint32_t>(i), {text.begin(), text.begin() + 2},
                              {text.begin() + 2, text.end()}));
    samples.back().prompt_hash = mix64(static_cast<uint64_t>(i));
  }
  out.write(header, samples);
}

}  // namespace clover::train_testing
