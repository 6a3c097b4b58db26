// SPDX-License-Identifier: Apache-2.0
#include "backend/torch/torch_values.h"

#include <memory>
#include <unordered_map>

namespace clover {

Tensor wrap(at::Tensor values) {
  const int64_t rows = values.size(0);
  const int64_t cols = values.size(1);
  const bool readable = values.device().is_cpu() && values.scalar_type() == at::kFloat &&
                        (values.stride(1) == 1 || cols <= 1);
  float* data = readable && values.numel() > 0 ? values.data_ptr<float>() : nullptr;
  const int64_t stride = values.stride(0);
  return {rows, cols, stride, data, std::make_shared<at::Tensor>(std::move(values))};
}

const at::Tensor& unwrap(const Tensor& tensor) {
  return *static_cast<const at::Tensor*>(tensor.storage().get());
}

TorchKvStore::TorchKvStore(const KvShape& shape, const at::TensorOptions& options)
    : shape_(shape), options_(options) {
  const bool half = shape.type == DType::kF16;
  const at::TensorOptions stored = half ? options.dtype(at::kHalf) : options;
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::vector<int64_t> size = {shape.blocks * kKvBlockTokens,
                                       shape.kv_heads * shape.head_dim};
    keys_.push_back(at::zeros(size, stored));
    values_.push_back(at::zeros(size, stored));
  }
}

int64_t TorchKvStore::bytes() const {
  size_t total = 0;
  for (size_t i = 0; i < keys_.size(); ++i) total += keys_[i].nbytes() + values_[i].nbytes();
  return static_cast<int64_t>(total);
}

// Moves happen one after the other, so a token may be read where an earlier move has put it.
void TorchKvStore::move(std::span<const Move> moves) {
  std::unordered_map<int64_t, int64_t> origin;  // of what lies at an address in the end
  for (const Move& m : moves) {
    const auto found = origin.find(m.from);
    origin[m.to] = found == origin.end() ? m.from : found->second;
  }
  std::vector<int64_t> from;
  std::vector<int64_t> to;
  for (const auto& [target, source] : origin) {
    if (target == source) continue;
    from.push_back(source);
    to.push_back(target);
  }
  if (to.empty()) return;
  with_torch("moving keys and values", [&] {
    const at::NoGradGuard no_grad;
    const at::Tensor sources = at::tensor(from).to(options_.device());
    const at::Tensor targets = at::tensor(to).to(options_.device());
    for (std::vector<at::Tensor>* all : {&keys_, &values_})
      for (at::Tensor& layer : *all)
        layer = layer.detach().index_copy(0, targets, layer.index_select(0, sources));
  });
}

at::Tensor TorchKvStore::rounded(const at::Tensor& values) const {
  return shape_.type == DType::kF16 ? values.to(at::kHalf).to(values.scalar_type()) : values;
}

void TorchKvStore::store(int64_t layer, const at::Tensor& addresses, const at::Tensor& k,
                         const at::Tensor& v) {
  const auto put = [&](at::Tensor& into, const at::Tensor& rows) {
    const at::Tensor stored = rows.to(into.scalar_type());
    if (at::GradMode::is_enabled() && (stored.requires_grad() || into.requires_grad())) {
      into = into.index_copy(0, addresses, stored);
    } else {
      into.index_copy_(0, addresses, stored);
    }
  };
  put(keys_[static_cast<size_t>(layer)], k);
  put(values_[static_cast<size_t>(layer)], v);
}

std::pair<at::Tensor, at::Tensor> TorchKvStore::load(int64_t layer,
                                                     const at::Tensor& addresses) const {
  const auto get = [&](const at::Tensor& from) {
    return from.index_select(0, addresses).to(options_.dtype());
  };
  return {get(keys_[static_cast<size_t>(layer)]), get(values_[static_cast<size_t>(layer)])};
}

}  // namespace clover
