// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/weight_source.h"

#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "model/weights.h"
#include "speculation/speculators/package_layout.h"

namespace clover {
namespace {

class Assembler {
 public:
  Assembler(const ModelConfig& model, const WeightSource& source)
      : model_(model), source_(source) {}

  MatrixPtr matrix(const std::string& name) const { return part({name}); }
  MatrixPtr part(const WeightPart& part) const { return source_.matrix({&part, 1}); }
  VectorPtr vector(const std::string& name) const { return source_.vector({&name, 1}, 0); }
  VectorPtr vector_if(bool present, const std::string& name) const {
    return present ? vector(name) : nullptr;
  }

  LayerWeights layer(const std::string& prefix, const LayerParts& parts) const {
    LayerWeights w;
    if (parts.attention) {
      w.attention_norm = vector_if(parts.input_norm, prefix + "attention_norm.weight");
      w.qkv = matrix(prefix + "qkv.weight");
      w.qkv_bias = vector_if(model_.qkv_bias, prefix + "qkv.bias");
      w.q_norm = vector_if(model_.qk_norm, prefix + "q_norm.weight");
      w.k_norm = vector_if(model_.qk_norm, prefix + "k_norm.weight");
      w.output = matrix(prefix + "output.weight");
    }
    if (parts.ffn) {
      w.ffn_norm = vector(prefix + "ffn_norm.weight");
      w.gate_up = matrix(prefix + "gate_up.weight");
      w.down = matrix(prefix + "down.weight");
    }
    return w;
  }

  // What multiplies the embedding is stacked into one matrix, see CloverStep.
  CloverStep step(const CloverConfig& c, int64_t index) const {
    const int64_t hidden = model_.hidden;
    const std::string prefix = fmt::format("steps.{}.", index);
    CloverStep step;
    std::vector<WeightPart> side;
    std::vector<std::string> side_bias;
    int64_t zeros = 0;  // of the side's rows without a bias
    if (c.has_decoder(index) && c.decoder == DecoderKind::kCosine) {
      step.norm = vector(prefix + "decoder.norm.weight");
      step.h_side = matrix(prefix + "decoder.q.weight");
      step.h_bias = vector(prefix + "decoder.q.bias");
      for (const char* name : {"decoder.k.", "decoder.v."}) {
        side.push_back({prefix + name + "weight"});
        side_bias.push_back(prefix + name + "bias");
      }
    } else if (c.has_decoder(index)) {
      step.h_side = part({prefix + "decoder.weight", 0, hidden});
      step.h_bias = vector(prefix + "decoder.bias");
      side.push_back({prefix + "decoder.weight", hidden, hidden});
      zeros += hidden;
    }
    step.projector = part({prefix + "projector.weight", 0, hidden});
    step.projector_bias = vector(prefix + "projector.bias");
    if (c.projects_embedding(index)) {
      side.push_back({prefix + "projector.weight", hidden, hidden});
      zeros += hidden;
    }
    step.head_norm = vector_if(c.head_norm, prefix + "head_norm.weight");
    if (side.empty()) return step;
    step.e_side = source_.matrix(side);
    step.e_bias = source_.vector(side_bias, zeros);
    return step;
  }

 private:
  const ModelConfig& model_;
  const WeightSource& source_;
};

}  // namespace

std::shared_ptr<const CloverWeights> assemble_clover(const PackageConfig& config,
                                                     const Model& target,
                                                     const WeightSource& source, DraftHead head) {
  const CloverConfig& c = config.clover;
  const int64_t hidden = target.config().hidden;
  const Assembler from(target.config(), source);
  auto w = std::make_shared<CloverWeights>();
  w->config = c;
  w->hidden_norm = from.vector_if(c.input_norm, "hidden_norm.weight");
  w->embedding_norm = from.vector_if(c.input_norm, "embedding_norm.weight");
  if (c.embedding == EmbeddingKind::kNormalisedHeadRow) {
    const std::vector<float> unit(static_cast<size_t>(hidden),
                                  static_cast<float>(1.0 / std::sqrt(static_cast<double>(hidden))));
    const WeightView view{DType::kF32, 1, hidden, reinterpret_cast<const std::byte*>(unit.data())};
    w->unit_rows = target.backend().load_vector({&view, 1});
  }
  const LayerParts parts = {.attention = c.has_attention(),
                            .ffn = c.block == BlockKind::kMlp || c.block == BlockKind::kFull};
  for (int64_t i = 0; i < c.block_layers; ++i)
    w->block.push_back(from.layer(fmt::format("block.{}.", i), parts));
  w->block_norm = from.vector_if(c.block != BlockKind::kNone, "block_norm.weight");
  for (int64_t j = 0; j < c.steps(); ++j) w->steps.push_back(from.step(c, j));
  w->head = std::move(head);
  w->embedding = target.weights().head;
  return w;
}

std::shared_ptr<const EagleWeights> assemble_eagle(const PackageConfig& config, const Model& target,
                                                   const WeightSource& source, DraftHead head) {
  const int64_t hidden = target.config().hidden;
  const Assembler from(target.config(), source);
  auto w = std::make_shared<EagleWeights>();
  w->h_side = from.part({"fc.weight", 0, hidden});
  w->e_side = from.part({"fc.weight", hidden, hidden});
  w->bias = from.vector("fc.bias");
  w->layer = from.layer("layer.", {.input_norm = false});
  w->head = std::move(head);
  w->embedding = target.weights().embedding;
  w->heads = config.clover.heads;
  return w;
}

}  // namespace clover
