// SPDX-License-Identifier: Apache-2.0
#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "base/error.h"
#include "tensor/quant.h"
#include "tensor/quantise.h"

namespace clover {
namespace {

// Hands tensors to the backend.
class Loader {
 private:
  template <typename Load>
  auto load(std::span<const MappedTensor> parts, const Load& make) const {
    std::vector<WeightView> views;
    for (const MappedTensor& part : parts) views.push_back(part.view);
    try {
      auto made = make(std::span<const WeightView>(views));
      for (const MappedTensor& part : parts) listener_.packed(part.name);
      return made;
    } catch (const Error& error) {
      fail(error.code(), "tensor '{}': {}", parts.front().name, error.what());
    }
  }

 public:
  Loader(Backend& backend, const LoadListener& listener) : backend_(backend), listener_(listener) {}

  MatrixPtr matrix(std::span<const MappedTensor> parts) const {
    return load(parts, [&](auto views) { return backend_.load_matrix(views); });
  }
  MatrixPtr matrix(const MappedTensor& tensor) const { return matrix(std::span(&tensor, 1)); }

  // Null when there are no parts.
  VectorPtr vector(std::span<const MappedTensor> parts) const {
    if (parts.empty()) return nullptr;
    return load(parts, [&](auto views) { return backend_.load_vector(views); });
  }
  VectorPtr vector(const MappedTensor& tensor) const { return vector(std::span(&tensor, 1)); }

 private:
  Backend& backend_;
  const LoadListener& listener_;
};

double row_length(std::span<const float> row) {
  double sum = 0.0;
  for (const float x : row) sum += static_cast<double>(x) * static_cast<double>(x);
  return std::sqrt(sum);
}

// Baichuan 2's head multiplies by rows of unit length. Full-precision heads are scaled in float32
// and 16-bit ones rounded to bfloat16, as the published model does in its own type. Quantised files
// are made from heads that were scaled beforehand; one whose rows are not of unit length (to 2 %,
// above the rounding of 4-bit blocks) is decoded and scaled too.
class UnitRows {
 public:
  explicit UnitRows(const MappedTensor& head) : head_(head) {
    const WeightView& view = head.view;
    row_bytes_ = *byte_size(view.type, view.cols);
    row_.resize(static_cast<size_t>(view.cols));
  }

  MappedTensor scaled(std::vector<std::byte>& storage) {
    const WeightView& view = head_.view;
    if (is_quantised(view.type) && has_unit_rows()) return head_;
    const bool wide = view.type == DType::kF32 || view.type == DType::kF64;
    const size_t row_size = row_.size() * (wide ? sizeof(float) : sizeof(uint16_t));
    storage.resize(static_cast<size_t>(view.rows) * row_size);
    for (int64_t r = 0; r < view.rows; ++r) {
      std::byte* out = storage.data() + static_cast<size_t>(r) * row_size;
      // The floor is that of the published model and keeps all-zero rows zero.
      const double length = std::max(read_row(r), 1e-12);
      for (float& x : row_) x = static_cast<float>(static_cast<double>(x) / length);
      store(wide, out);
    }
    const DType type = wide ? DType::kF32 : DType::kBF16;
    return {head_.name, {type, view.rows, view.cols, storage.data()}};
  }

 private:
  double read_row(int64_t r) {
    dequantise(head_.view.type, head_.view.data + r * row_bytes_, head_.view.cols, row_.data());
    return row_length(row_);
  }

  bool has_unit_rows() {
    for (int64_t r = 0; r < head_.view.rows; ++r) {
      if (std::abs(read_row(r) - 1.0) > 0.02) return false;
    }
    return true;
  }

  void store(bool wide, std::byte* out) const {
    if (wide) {
      std::memcpy(out, row_.data(), row_.size() * sizeof(float));
      return;
    }
    for (const float x : row_) {
      const uint16_t bits = f32_to_bf16(x);
      std::memcpy(out, &bits, sizeof bits);
      out += sizeof bits;
    }
  }

  const MappedTensor& head_;
  int64_t row_bytes_ = 0;
  std::vector<float> row_;
};

LayerWeights load_layer(const LayerTensors& t, const Loader& load) {
  LayerWeights w;
  w.attention_norm = load.vector(t.attention_norm);
  w.qkv = load.matrix(t.qkv);
  w.qkv_bias = load.vector(t.qkv_bias);
  w.q_norm = load.vector(t.q_norm);
  w.k_norm = load.vector(t.k_norm);
  w.output = load.matrix(t.output);
  w.ffn_norm = load.vector(t.ffn_norm);
  w.gate_up = load.matrix(t.gate_up);
  w.down = load.matrix(t.down);
  return w;
}

MatrixPtr load_head(const ModelTensors& t, const ModelConfig& config, const Loader& load,
                    const MatrixPtr& embedding) {
  if (t.head.empty() && !config.normalised_head) return embedding;
  const MappedTensor& head = t.head.empty() ? t.embedding : t.head.front();
  if (!config.normalised_head) return load.matrix(head);
  std::vector<std::byte> storage;
  return load.matrix(UnitRows(head).scaled(storage));
}

}  // namespace

int64_t ModelWeights::bytes() const {
  int64_t total = embedding->bytes() + (head == embedding ? 0 : head->bytes());
  const auto vector_bytes = [](const VectorPtr& v) {
    return v ? v->size() * static_cast<int64_t>(sizeof(float)) : 0;
  };
  for (const LayerWeights& w : layers) {
    for (const MatrixPtr& m : {w.qkv, w.output, w.gate_up, w.down}) total += m->bytes();
    for (const VectorPtr& v : {w.attention_norm, w.qkv_bias, w.q_norm, w.k_norm, w.ffn_norm}) {
      total += vector_bytes(v);
    }
  }
  return total + vector_bytes(final_norm);
}

ModelWeights load_weights(const ModelTensors& tensors, const ModelConfig& config, Backend& backend,
                          const LoadListener& listener) {
  const Loader load(backend, listener);
  ModelWeights weights;
  // The embedding and the head count as a layer each.
  const double steps = static_cast<double>(tensors.layers.size()) + 2.0;
  double done = 0.0;
  const auto advance = [&] { listener.progress(++done / steps); };
  weights.embedding = load.matrix(tensors.embedding);
  advance();
  for (const LayerTensors& layer : tensors.layers) {
    weights.layers.push_back(load_layer(layer, load));
    advance();
  }
  weights.final_norm = load.vector(tensors.final_norm);
  weights.head = load_head(tensors, config, load, weights.embedding);
  weights.rope = make_rope_table(config);
  weights.alibi = alibi_slopes(config);
  weights.unused = tensors.unused;
  advance();
  return weights;
}

MatrixPtr load_head_rows(const ModelTensors& tensors, const ModelConfig& config, Backend& backend,
                         std::span<const int32_t> rows, std::optional<DType> as) {
  const MappedTensor& head = tensors.head.empty() ? tensors.embedding : tensors.head.front();
  const int64_t row_bytes = *byte_size(head.view.type, head.view.cols);
  std::vector<std::byte> gathered(rows.size() * static_cast<size_t>(row_bytes));
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= head.view.rows)
      fail(ErrorCode::kInvalidArgument, "token id {} is outside the vocabulary of {}", rows[i],
           head.view.rows);
    std::memcpy(gathered.data() + i * static_cast<size_t>(row_bytes),
                head.view.data + rows[i] * row_bytes, static_cast<size_t>(row_bytes));
  }
  const MappedTensor part = {
      head.name,
      {head.view.type, static_cast<int64_t>(rows.size()), head.view.cols, gathered.data()}};
  std::vector<std::byte> storage;
  const MappedTensor scaled = config.normalised_head ? UnitRows(part).scaled(storage) : part;
  if (!as.has_value()) return backend.load_matrix(std::span(&scaled.view, 1));
  const int64_t count = scaled.view.rows * scaled.view.cols;
  std::vector<float> values(static_cast<size_t>(count));
  dequantise(scaled.view.type, scaled.view.data, count, values.data());
  const std::vector<std::byte> bytes = quantise(*as, values.data(), count);
  const WeightView view{*as, scaled.view.rows, scaled.view.cols, bytes.data()};
  return backend.load_matrix({&view, 1});
}

}  // namespace clover
