// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/package_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "checkpoint/names.h"
#include "tensor/quant.h"
#include "tensor/quantise.h"

namespace clover {
namespace {

constexpr std::string_view kDraftIds = "d2t";
constexpr std::string_view kOwnHead = "lm_head.weight";

bool is_float(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16;
}

void check_shape(const TensorInfo& tensor, const std::vector<int64_t>& shape,
                 const std::string& path) {
  if (tensor.shape == shape) return;
  fail(ErrorCode::kCorrupt, "{}: tensor {} has shape [{}], the configuration asks for [{}]", path,
       quote_name(tensor.name), fmt::join(tensor.shape, ", "), fmt::join(shape, ", "));
}

// Columns [first, first + count) of every row.
std::vector<float> cut_columns(std::span<const float> values, int64_t cols, int64_t first,
                               int64_t count) {
  std::vector<float> out;
  out.reserve(values.size() / static_cast<size_t>(cols) * static_cast<size_t>(count));
  for (size_t row = 0; row < values.size(); row += static_cast<size_t>(cols)) {
    const auto begin = values.begin() + static_cast<int64_t>(row) + first;
    out.insert(out.end(), begin, begin + count);
  }
  return out;
}

void append(std::vector<float>& values, const std::vector<float>& more) {
  values.insert(values.end(), more.begin(), more.end());
}

}  // namespace

PackageReader::PackageReader(const Checkpoint& files, const PackageConfig& config,
                             const PackageTarget& target)
    : files_(files), config_(config), target_(target), backend_(target.model.backend()) {
  const std::vector<TensorLayout> layout = package_layout(config, target.model.config());
  for (const TensorLayout& expected : layout) {
    const TensorInfo& tensor = files.at(expected.name);
    check_shape(tensor, expected.shape, files.path());
    if (!is_float(tensor.type))
      fail(ErrorCode::kCorrupt, "{}: tensor {} has type {}, which cannot hold weights",
           files.path(), quote_name(tensor.name), dtype_name(tensor.type));
  }
  for (const TensorInfo& tensor : files.tensors()) {
    if (tensor.name == kDraftIds || tensor.name == kOwnHead) continue;
    if (std::none_of(layout.begin(), layout.end(),
                     [&](const TensorLayout& t) { return t.name == tensor.name; }))
      fail(ErrorCode::kCorrupt, "{}: tensor {} has no place in a speculator of this configuration",
           files.path(), quote_name(tensor.name));
  }
}

const TensorInfo& PackageReader::at(std::string_view name) const { return files_.at(name); }

std::vector<float> PackageReader::values(std::string_view name) const {
  const TensorInfo& tensor = at(name);
  int64_t count = 1;
  for (const int64_t extent : tensor.shape) count *= extent;
  std::vector<float> out(static_cast<size_t>(count));
  dequantise(tensor.type, tensor.data.data(), count, out.data());
  for (const float x : out) {
    if (!std::isfinite(x))
      fail(ErrorCode::kCorrupt, "{}: tensor {} holds a value that is not finite", files_.path(),
           quote_name(name));
  }
  return out;
}

PackageReader::Rows PackageReader::rows(std::string_view name) const {
  return {values(name), at(name).shape.back()};
}

VectorPtr PackageReader::to_vector(std::span<const float> values) const {
  const WeightView view{DType::kF32, 1, static_cast<int64_t>(values.size()),
                        reinterpret_cast<const std::byte*>(values.data())};
  return backend_.load_vector({&view, 1});
}

VectorPtr PackageReader::vector(std::string_view name) const { return to_vector(values(name)); }

VectorPtr PackageReader::vector_if(bool present, const std::string& name) const {
  return present ? vector(name) : nullptr;
}

MatrixPtr PackageReader::to_matrix(const Rows& rows, std::string_view name) const {
  const auto count = static_cast<int64_t>(rows.values.size());
  if (rows.cols % block_elements(config_.weights) != 0)
    fail(ErrorCode::kUnsupported, "{}: {} weights need rows of a multiple of {}, tensor {} has {}",
         files_.path(), dtype_name(config_.weights), block_elements(config_.weights),
         quote_name(name), rows.cols);
  try {
    const std::vector<std::byte> bytes = quantise(config_.weights, rows.values.data(), count);
    const WeightView view{config_.weights, count / rows.cols, rows.cols, bytes.data()};
    return backend_.load_matrix({&view, 1});
  } catch (const Error& error) {
    fail(error.code(), "{}: tensor {}: {}", files_.path(), quote_name(name), error.what());
  }
}

MatrixPtr PackageReader::matrix(std::string_view name) const { return to_matrix(rows(name), name); }

LayerWeights PackageReader::layer(const std::string& prefix, const LayerParts& parts) const {
  const ModelConfig& m = target_.model.config();
  LayerWeights w;
  if (parts.attention) {
    w.attention_norm = vector_if(parts.input_norm, prefix + "attention_norm.weight");
    w.qkv = matrix(prefix + "qkv.weight");
    w.qkv_bias = vector_if(m.qkv_bias, prefix + "qkv.bias");
    w.q_norm = vector_if(m.qk_norm, prefix + "q_norm.weight");
    w.k_norm = vector_if(m.qk_norm, prefix + "k_norm.weight");
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
CloverStep PackageReader::step(int64_t index) const {
  const CloverConfig& c = config_.clover;
  const int64_t hidden = target_.model.config().hidden;
  const std::string prefix = fmt::format("steps.{}.", index);
  CloverStep step;
  Rows side{{}, hidden};
  std::vector<float> side_bias;
  if (c.has_decoder(index) && c.decoder == DecoderKind::kCosine) {
    step.norm = vector(prefix + "decoder.norm.weight");
    step.h_side = matrix(prefix + "decoder.q.weight");
    step.h_bias = vector(prefix + "decoder.q.bias");
    for (const char* part : {"decoder.k.", "decoder.v."}) {
      append(side.values, values(prefix + part + "weight"));
      append(side_bias, values(prefix + part + "bias"));
    }
  } else if (c.has_decoder(index)) {
    const Rows both = rows(prefix + "decoder.weight");
    step.h_side = to_matrix({cut_columns(both.values, both.cols, 0, hidden), hidden},
                            prefix + "decoder.weight");
    step.h_bias = vector(prefix + "decoder.bias");
    side.values = cut_columns(both.values, both.cols, hidden, hidden);
    side_bias.resize(static_cast<size_t>(hidden));
  }
  const Rows projector = rows(prefix + "projector.weight");
  step.projector = to_matrix({cut_columns(projector.values, projector.cols, 0, hidden), hidden},
                             prefix + "projector.weight");
  step.projector_bias = vector(prefix + "projector.bias");
  if (c.projects_embedding(index)) {
    append(side.values, cut_columns(projector.values, projector.cols, hidden, hidden));
    side_bias.resize(side_bias.size() + static_cast<size_t>(hidden));
  }
  step.head_norm = vector_if(c.head_norm, prefix + "head_norm.weight");
  if (side.values.empty()) return step;
  step.e_side = to_matrix(side, prefix + "decoder");
  step.e_bias = to_vector(side_bias);
  return step;
}

std::vector<int32_t> PackageReader::draft_ids() const {
  const int64_t vocab = target_.model.config().vocab;
  if (!files_.find(kDraftIds)) {
    if (config_.draft_vocab == vocab) return {};
    fail(ErrorCode::kNotFound, "{} drafts {} of {} tokens, but has no tensor 'd2t' that says which",
         files_.path(), config_.draft_vocab, vocab);
  }
  const TensorInfo& tensor = at(kDraftIds);
  check_shape(tensor, {config_.draft_vocab}, files_.path());
  if (tensor.type != DType::kI32 && tensor.type != DType::kI64)
    fail(ErrorCode::kCorrupt, "{}: tensor 'd2t' has type {}, not I32 or I64", files_.path(),
         dtype_name(tensor.type));
  const size_t width = tensor.type == DType::kI32 ? 4 : 8;
  std::vector<int32_t> ids;
  std::vector<uint8_t> seen(static_cast<size_t>(vocab));
  for (size_t at = 0; at < tensor.data.size(); at += width) {
    int64_t id = 0;
    int32_t narrow = 0;
    std::memcpy(width == 4 ? static_cast<void*>(&narrow) : &id, tensor.data.data() + at, width);
    if (width == 4) id = narrow;
    if (id < 0 || id >= vocab)
      fail(ErrorCode::kCorrupt, "{}: d2t names token {}, outside the vocabulary of {}",
           files_.path(), id, vocab);
    if (seen[static_cast<size_t>(id)]++)
      fail(ErrorCode::kCorrupt, "{}: d2t names token {} twice", files_.path(), id);
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

DraftHead PackageReader::head() const {
  const Model& model = target_.model;
  DraftHead head;
  head.ids = draft_ids();
  if (files_.find(kOwnHead)) {
    const TensorInfo& own = at(kOwnHead);
    check_shape(own, {config_.draft_vocab, model.config().hidden}, files_.path());
    if (!is_float(own.type))
      fail(ErrorCode::kCorrupt, "{}: tensor {} has type {}, which cannot hold weights",
           files_.path(), quote_name(kOwnHead), dtype_name(own.type));
    head.matrix = matrix(kOwnHead);
  } else {
    head.matrix = head.ids.empty()
                      ? model.weights().head
                      : load_head_rows(target_.tensors, model.config(), backend_, head.ids);
  }
  return head;
}

std::shared_ptr<const CloverWeights> PackageReader::clover() const {
  const CloverConfig& c = config_.clover;
  const int64_t hidden = target_.model.config().hidden;
  auto w = std::make_shared<CloverWeights>();
  w->config = c;
  w->hidden_norm = vector_if(c.input_norm, "hidden_norm.weight");
  w->embedding_norm = vector_if(c.input_norm, "embedding_norm.weight");
  if (c.embedding == EmbeddingKind::kNormalisedHeadRow) {
    const auto unit = static_cast<float>(1.0 / std::sqrt(static_cast<double>(hidden)));
    w->unit_rows = to_vector(std::vector<float>(static_cast<size_t>(hidden), unit));
  }
  const LayerParts parts = {.attention = c.has_attention(),
                            .ffn = c.block == BlockKind::kMlp || c.block == BlockKind::kFull};
  for (int64_t i = 0; i < c.block_layers; ++i)
    w->block.push_back(layer(fmt::format("block.{}.", i), parts));
  w->block_norm = vector_if(c.block != BlockKind::kNone, "block_norm.weight");
  for (int64_t j = 0; j < c.steps(); ++j) w->steps.push_back(step(j));
  w->head = head();
  w->embedding = target_.model.weights().head;
  return w;
}

std::shared_ptr<const EagleWeights> PackageReader::eagle() const {
  const int64_t hidden = target_.model.config().hidden;
  auto w = std::make_shared<EagleWeights>();
  const Rows fc = rows("fc.weight");
  w->h_side = to_matrix({cut_columns(fc.values, fc.cols, 0, hidden), hidden}, "fc.weight");
  w->e_side = to_matrix({cut_columns(fc.values, fc.cols, hidden, hidden), hidden}, "fc.weight");
  w->bias = vector("fc.bias");
  w->layer = layer("layer.", {.input_norm = false});
  w->head = head();
  w->embedding = target_.model.weights().embedding;
  w->heads = config_.clover.heads;
  return w;
}

}  // namespace clover
