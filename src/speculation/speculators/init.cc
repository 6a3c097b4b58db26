// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/init.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "model/fingerprint.h"
#include "speculation/speculators/package_layout.h"
#include "tensor/quant.h"

namespace clover {
namespace {

constexpr int64_t kDefaultDraftVocab = 8192;
constexpr int64_t kEagleHeads = 5;

void append_floats(const MappedTensor& tensor, std::vector<float>& values) {
  const std::vector<float> more = dequantised({&tensor.view, 1});
  values.insert(values.end(), more.begin(), more.end());
}

// The part of a layer that a tensor's name ends with.
std::vector<float> layer_part(const LayerTensors& layer, std::string_view name) {
  std::vector<float> values;
  const auto take = [&](std::string_view ending, std::span<const MappedTensor> parts) {
    if (!name.ends_with(ending) || !values.empty()) return;
    for (const MappedTensor& part : parts) append_floats(part, values);
  };
  const auto one = [](const MappedTensor& tensor) { return std::span(&tensor, 1); };
  take(".attention_norm.weight", one(layer.attention_norm));
  take(".qkv.weight", layer.qkv);
  take(".qkv.bias", layer.qkv_bias);
  take(".q_norm.weight", layer.q_norm);
  take(".k_norm.weight", layer.k_norm);
  take(".output.weight", one(layer.output));
  take(".ffn_norm.weight", one(layer.ffn_norm));
  take(".gate_up.weight", layer.gate_up);
  take(".down.weight", one(layer.down));
  return values;
}

class Initialiser {
 public:
  Initialiser(const ModelTensors& tensors, const InitOptions& options)
      : tensors_(tensors), options_(options) {}

  // `index` of the tensor in the package: every tensor has its own random stream.
  PackageTensor make(const TensorLayout& layout, uint64_t index) const {
    PackageTensor tensor{layout.name, layout.shape, {}};
    const Start start = start_of(layout);
    if (start == Start::kLayer) {
      tensor.values = layer_part(tensors_.layers.back(), layout.name);
      return tensor;
    }
    if (start == Start::kFinalNorm) {
      append_floats(tensors_.final_norm, tensor.values);
      return tensor;
    }
    const int64_t cols = layout.shape.back();
    int64_t count = 1;
    for (const int64_t extent : layout.shape) count *= extent;
    tensor.values.assign(static_cast<size_t>(count), start == Start::kOne ? 1.0f : 0.0f);
    const uint64_t key = stream_key(options_.seed, index);
    if (start == Start::kNoise || start == Start::kIdentity) {
      for (size_t i = 0; i < tensor.values.size(); ++i)
        tensor.values[i] = options_.noise * static_cast<float>(random_uniform(key, i));
    } else if (start == Start::kLayerNoise) {
      const float reach = 1.0f / std::sqrt(static_cast<float>(cols));
      for (size_t i = 0; i < tensor.values.size(); ++i)
        tensor.values[i] = reach * (2 * static_cast<float>(random_uniform(key, i)) - 1);
    }
    if (start == Start::kIdentity) {
      for (int64_t row = 0; row < layout.shape.front(); ++row)
        tensor.values[static_cast<size_t>(row * cols + row)] += 1.0f;
    }
    return tensor;
  }

 private:
  // How a tensor begins with these options.
  Start start_of(const TensorLayout& layout) const {
    if (!options_.fresh_layers) return layout.start;
    if (layout.start == Start::kFinalNorm)
      return layout.name.ends_with("head_norm.weight") ? Start::kFinalNorm : Start::kOne;
    if (layout.start != Start::kLayer) return layout.start;
    if (layout.shape.size() == 2) return Start::kLayerNoise;
    return layout.name.ends_with(".bias") ? Start::kZero : Start::kOne;
  }

  const ModelTensors& tensors_;
  const InitOptions& options_;
};

std::vector<int32_t> choose_tokens(const InitOptions& options, int64_t vocab) {
  if (options.draft_vocab < 0 || options.draft_vocab > vocab)
    fail(ErrorCode::kInvalidArgument, "a draft vocabulary of {} tokens: the model has {}",
         options.draft_vocab, vocab);
  if (options.draft_tokens.empty()) {
    const int64_t count = options.draft_vocab > 0 ? options.draft_vocab : kDefaultDraftVocab;
    std::vector<int32_t> ids(static_cast<size_t>(std::min(count, vocab)));
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }
  const std::set<int32_t> ids(options.draft_tokens.begin(), options.draft_tokens.end());
  if (ids.size() != options.draft_tokens.size() || *ids.begin() < 0 || *ids.rbegin() >= vocab)
    fail(ErrorCode::kInvalidArgument,
         "the draft vocabulary names a token twice or one outside the vocabulary of {}", vocab);
  return {ids.begin(), ids.end()};
}

CloverConfig choose_switches(const InitOptions& options, const ModelConfig& model) {
  CloverConfig config;
  if (options.type == "eagle") {
    config.heads = kEagleHeads;
  } else if (options.switches) {
    config = *options.switches;
  } else {
    // Where the hidden size does not split into the target's heads, one head sees all of it.
    config = preset_config(options.type, model.hidden % model.heads == 0 ? model.heads : 1);
  }
  if (options.heads != 0) config.heads = options.heads;
  if (options.type != "eagle") validate(config, model.hidden);
  if (config.heads < 1 || config.heads > 64)
    fail(ErrorCode::kInvalidArgument, "heads must be 1 to 64, not {}", config.heads);
  return config;
}

}  // namespace

Package init_package(const Checkpoint& target, const InitOptions& options) {
  if (!(options.noise >= 0 && options.noise <= 1))
    fail(ErrorCode::kInvalidArgument, "the noise must be from 0 to 1, not {}", options.noise);
  const ModelConfig model = read_model_config(target);
  const ModelTensors tensors = map_tensors(target, model);
  Package package;
  package.config.type = options.switches ? "clover" : options.type;
  package.config.clover = choose_switches(options, model);
  package.config.weights = options.weights;
  package.config.verifier = describe_target(model, model_fingerprint(model, tensors, target));
  package.config.training = {{"seed", options.seed}, {"tokens", 0}};
  package.d2t = choose_tokens(options, model.vocab);
  package.config.draft_vocab = static_cast<int64_t>(package.d2t.size());
  if (package.config.draft_vocab == model.vocab) package.d2t.clear();
  const Initialiser initialiser(tensors, options);
  for (const TensorLayout& layout : package_layout(package.config, model)) {
    if (layout.shape.size() == 2 && layout.shape.back() % block_elements(options.weights) != 0)
      fail(ErrorCode::kUnsupported,
           "{} weights need rows of a multiple of {}, but {} would have {}: choose bf16",
           dtype_name(options.weights), block_elements(options.weights), layout.name,
           layout.shape.back());
    package.tensors.push_back(initialiser.make(layout, package.tensors.size()));
  }
  return package;
}

}  // namespace clover
