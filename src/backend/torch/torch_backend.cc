// SPDX-License-Identifier: Apache-2.0
#include "backend/torch_backend.h"

#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "backend/torch/torch_attention.h"
#include "backend/torch/torch_values.h"
#include "base/clock.h"
#include "base/thread_pool.h"
#include "tensor/quant.h"

namespace clover {
namespace {

constexpr double kLeastLength = 1e-8;  // of a vector that cosine_gate divides by

std::vector<float> host_values(const at::Tensor& values) {
  const at::Tensor host = values.detach().to(at::kCPU, at::kFloat).contiguous();
  const float* data = host.data_ptr<float>();
  return {data, data + host.numel()};
}

std::vector<TopEntry> largest(std::span<const float> row, size_t keep) {
  std::vector<TopEntry> entries;
  entries.reserve(row.size());
  for (size_t i = 0; i < row.size(); ++i) {
    if (!std::isnan(row[i])) entries.push_back({static_cast<int32_t>(i), row[i]});
  }
  keep = std::min(keep, entries.size());
  const auto better = [](const TopEntry& a, const TopEntry& b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
  };
  std::partial_sort(entries.begin(), entries.begin() + static_cast<int64_t>(keep), entries.end(),
                    better);
  entries.resize(keep);
  return entries;
}

class TorchBackend : public Backend {
 public:
  TorchBackend(const at::TensorOptions& options, bool narrow_products)
      : options_(options), narrow_products_(narrow_products) {}

  std::string description() const override {
    std::string text = fmt::format("libtorch, {}", options_.device().str());
    if (narrow_products_) text += ", products in bfloat16";
    if (options_.dtype() == at::kDouble) text += ", float64";
    if (options_.device().is_cpu())
      text += fmt::format(", {} thread{}", threads(), threads() == 1 ? "" : "s");
    return text;
  }
  int threads() const override { return at::get_num_threads(); }
  MachinePeak measure_peak(int64_t bytes) override;

  MatrixPtr load_matrix(std::span<const WeightView> parts) override;
  VectorPtr load_vector(std::span<const WeightView> parts) override;
  std::unique_ptr<KvStore> make_kv_store(const KvShape& shape) override;

  Tensor empty(int64_t rows, int64_t cols) override;
  Tensor from_host(int64_t rows, int64_t cols, const float* values) override;

  Tensor embed(const Matrix& table, std::span<const int32_t> ids) override;
  Tensor linear(const Tensor& x, const Matrix& w, const Vector* bias,
                const Tensor* residual) override;
  Tensor rms_norm(const Tensor& x, const Vector& w, float eps) override;
  Tensor rope(Tensor x, int64_t heads, int64_t head_dim, const RopeAngles& angles,
              RopeLayout layout) override;
  Tensor columns(const Tensor& x, int64_t first, int64_t count) override;
  Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, KvStore& kv, int64_t layer,
                   const AttentionPlan& plan, const AttentionParams& params) override;
  Tensor swiglu(const Tensor& x) override;
  Tensor silu(const Tensor& x, const Tensor* residual) override;
  Tensor cosine_gate(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads,
                     const Tensor* residual) override;
  Tensor add(const Tensor& a, const Tensor& b) override;
  Tensor scale(const Tensor& x, float factor) override;
  Tensor gather_rows(const Tensor& x, std::span<const int32_t> rows) override;

  std::vector<std::vector<TopEntry>> top_k(const Tensor& x, int k) override;
  std::vector<float> log_sum_exp(const Tensor& x) override;
  void to_host(const Tensor& x, float* out) override;

 private:
  at::Tensor from_floats(at::IntArrayRef size, const float* values) const {
    const at::Tensor host = at::from_blob(const_cast<float*>(values), size, at::kFloat);
    return host.to(options_, false, true);
  }
  at::Tensor ids_of(std::span<const int32_t> ids) const {
    const at::Tensor host = at::from_blob(const_cast<int32_t*>(ids.data()),
                                          {static_cast<int64_t>(ids.size())}, at::kInt);
    return host.to(options_.device(), at::kLong);
  }

  at::TensorOptions options_;  // of activations and vectors
  bool narrow_products_;
};

MachinePeak TorchBackend::measure_peak(int64_t bytes) {
  constexpr int64_t kSide = 1024;
  constexpr int kRuns = 5;
  return with_torch("measuring the machine", [&] {
    const at::NoGradGuard no_grad;
    const auto best_seconds = [](const auto& body) {
      body().item();  // waits for a device
      double best = 1e9;
      for (int i = 0; i < kRuns; ++i) {
        const auto begin = Clock::now();
        body().item();
        best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
      }
      return best;
    };
    MachinePeak peak;
    const at::Tensor memory =
        at::ones({std::max<int64_t>(bytes / 4, 1)}, options_.dtype(at::kFloat));
    peak.read_gbytes_per_s =
        static_cast<double>(memory.nbytes()) / best_seconds([&] { return memory.sum(); }) / 1e9;
    const at::TensorOptions type = narrow_products_ ? options_.dtype(at::kBFloat16) : options_;
    const at::Tensor square = at::ones({kSide, kSide}, type);
    peak.float_gmac_per_s = static_cast<double>(kSide * kSide * kSide) /
                            best_seconds([&] { return at::mm(square, square)[0][0]; }) / 1e9;
    peak.int8_gmac_per_s = peak.float_gmac_per_s;  // quantised weights are multiplied as floats
    return peak;
  });
}

MatrixPtr TorchBackend::load_matrix(std::span<const WeightView> parts) {
  std::string type_name;
  std::vector<at::Tensor> stacked;
  return with_torch("loading a matrix", [&] {
    for (const WeightView& part : parts) {
      if (part.cols != parts.front().cols)
        fail(ErrorCode::kUnsupported, "stacked matrices have {} and {} columns", parts.front().cols,
             part.cols);
      if (part.cols % block_elements(part.type) != 0)
        fail(ErrorCode::kUnsupported, "rows of {} values are not whole blocks of {}", part.cols,
             dtype_name(part.type));
      at::Tensor values = at::empty({part.rows, part.cols}, at::kFloat);
      dequantise(part.type, part.data, part.rows * part.cols, values.data_ptr<float>());
      const std::string name(dtype_name(part.type));
      if (type_name.find(name) == std::string::npos)
        type_name += (type_name.empty() ? "" : "+") + name;
      stacked.push_back(values.to(narrow_products_ ? options_.dtype(at::kBFloat16) : options_));
    }
    return std::make_shared<TorchMatrix>(stacked.size() == 1 ? stacked.front() : at::cat(stacked),
                                         type_name);
  });
}

VectorPtr TorchBackend::load_vector(std::span<const WeightView> parts) {
  const std::vector<float> values = dequantised(parts);
  return with_torch("loading a vector", [&] {
    return std::make_shared<TorchVector>(
        from_floats({static_cast<int64_t>(values.size())}, values.data()));
  });
}

std::unique_ptr<KvStore> TorchBackend::make_kv_store(const KvShape& shape) {
  if (shape.type != DType::kF16 && shape.type != DType::kF32)
    fail(ErrorCode::kUnsupported, "keys and values cannot be held in {}", dtype_name(shape.type));
  return with_torch("keys and values",
                    [&] { return std::make_unique<TorchKvStore>(shape, options_); });
}

Tensor TorchBackend::empty(int64_t rows, int64_t cols) {
  return with_torch("a tensor", [&] { return wrap(at::empty({rows, cols}, options_)); });
}

Tensor TorchBackend::from_host(int64_t rows, int64_t cols, const float* values) {
  return with_torch("a tensor", [&] { return wrap(from_floats({rows, cols}, values)); });
}

Tensor TorchBackend::embed(const Matrix& table, std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    if (id < 0 || id >= table.rows())
      fail(ErrorCode::kInvalidArgument, "token id {} is outside the vocabulary of {}", id,
           table.rows());
  }
  return with_torch("embeddings", [&] {
    return wrap(values_of(table).index_select(0, ids_of(ids)).to(options_.dtype()));
  });
}

Tensor TorchBackend::linear(const Tensor& x, const Matrix& w, const Vector* bias,
                            const Tensor* residual) {
  return with_torch("a product", [&] {
    at::Tensor y;
    std::optional<at::Tensor> b;
    if (bias) b = torch_values_of(*bias);
    if (narrow_products_) {
      y = at::linear(unwrap(x).to(at::kBFloat16), values_of(w).to(at::kBFloat16)).to(at::kFloat);
      if (b) y = y + *b;
    } else {
      y = at::linear(unwrap(x), values_of(w), b);
    }
    return wrap(residual ? y + unwrap(*residual) : y);
  });
}

Tensor TorchBackend::rms_norm(const Tensor& x, const Vector& w, float eps) {
  return with_torch("a norm", [&] {
    const at::Tensor& values = unwrap(x);
    const int64_t group = w.size();
    const at::Tensor groups = values.reshape({values.size(0), values.size(1) / group, group});
    const at::Tensor factor =
        at::rsqrt(at::mean(groups * groups, -1, true) + static_cast<double>(eps));
    return wrap((groups * factor * torch_values_of(w)).reshape(values.sizes()));
  });
}

Tensor TorchBackend::rope(Tensor x, int64_t heads, int64_t head_dim, const RopeAngles& angles,
                          RopeLayout layout) {
  return with_torch("a rotation", [&] {
    const at::Tensor values = unwrap(x);
    const int64_t rows = values.size(0);
    const int64_t pairs = angles.rotary_dim / 2;
    const at::Tensor cos = from_floats({rows, 1, pairs}, angles.cos.data());
    const at::Tensor sin = from_floats({rows, 1, pairs}, angles.sin.data());
    const at::Tensor all = values.narrow(1, 0, heads * head_dim).reshape({rows, heads, head_dim});
    const at::Tensor turning = all.narrow(2, 0, angles.rotary_dim);
    const bool halves = layout == RopeLayout::kHalves;
    const at::Tensor split = halves ? turning.reshape({rows, heads, 2, pairs})
                                    : turning.reshape({rows, heads, pairs, 2}).transpose(2, 3);
    const at::Tensor first = split.select(2, 0);
    const at::Tensor second = split.select(2, 1);
    const at::Tensor turned =
        at::stack({first * cos - second * sin, second * cos + first * sin}, halves ? 2 : 3);
    std::vector<at::Tensor> parts = {turned.reshape({rows, heads, angles.rotary_dim})};
    if (angles.rotary_dim < head_dim)
      parts.push_back(all.narrow(2, angles.rotary_dim, head_dim - angles.rotary_dim));
    at::Tensor out = (parts.size() == 1 ? parts.front() : at::cat(parts, 2)).reshape({rows, -1});
    if (heads * head_dim < values.size(1))
      out =
          at::cat({out, values.narrow(1, heads * head_dim, values.size(1) - heads * head_dim)}, 1);
    return wrap(out);
  });
}

Tensor TorchBackend::columns(const Tensor& x, int64_t first, int64_t count) {
  return with_torch("columns", [&] { return wrap(unwrap(x).narrow(1, first, count)); });
}

Tensor TorchBackend::attention(const Tensor& q, const Tensor& k, const Tensor& v, KvStore& kv,
                               int64_t layer, const AttentionPlan& plan,
                               const AttentionParams& params) {
  return with_torch("attention", [&] {
    return wrap(torch_attention({unwrap(q), unwrap(k), unwrap(v)}, static_cast<TorchKvStore&>(kv),
                                layer, plan, params));
  });
}

Tensor TorchBackend::swiglu(const Tensor& x) {
  return with_torch("a gate", [&] {
    const at::Tensor& values = unwrap(x);
    const int64_t half = values.size(1) / 2;
    return wrap(at::silu(values.narrow(1, 0, half)) * values.narrow(1, half, half));
  });
}

Tensor TorchBackend::silu(const Tensor& x, const Tensor* residual) {
  return with_torch("a gate", [&] {
    const at::Tensor y = at::silu(unwrap(x));
    return wrap(residual ? y + unwrap(*residual) : y);
  });
}

Tensor TorchBackend::cosine_gate(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads,
                                 const Tensor* residual) {
  if (heads < 1 || q.cols() % heads != 0)
    fail(ErrorCode::kInvalidArgument, "{} columns do not split into {} heads", q.cols(), heads);
  return with_torch("a gate", [&] {
    const auto split = [&](const Tensor& x) {
      return unwrap(x).reshape({x.rows(), heads, x.cols() / heads});
    };
    const auto length = [](const at::Tensor& x) {
      return at::linalg_vector_norm(x, 2, {-1}, true).clamp_min(kLeastLength);
    };
    const at::Tensor qs = split(q);
    const at::Tensor ks = split(k);
    const at::Tensor likeness = (qs * ks).sum(-1, true) / (length(qs) * length(ks));
    const at::Tensor y = (likeness * split(v)).reshape({q.rows(), q.cols()});
    return wrap(residual ? y + unwrap(*residual) : y);
  });
}

Tensor TorchBackend::add(const Tensor& a, const Tensor& b) {
  return with_torch("a sum", [&] { return wrap(unwrap(a) + unwrap(b)); });
}

Tensor TorchBackend::scale(const Tensor& x, float factor) {
  return with_torch("a scaling", [&] { return wrap(unwrap(x) * static_cast<double>(factor)); });
}

Tensor TorchBackend::gather_rows(const Tensor& x, std::span<const int32_t> rows) {
  return with_torch("rows", [&] { return wrap(unwrap(x).index_select(0, ids_of(rows))); });
}

std::vector<std::vector<TopEntry>> TorchBackend::top_k(const Tensor& x, int k) {
  const std::vector<float> values = with_torch("reading", [&] { return host_values(unwrap(x)); });
  std::vector<std::vector<TopEntry>> result;
  const auto cols = static_cast<size_t>(x.cols());
  const std::span<const float> all(values);
  for (size_t r = 0; r < static_cast<size_t>(x.rows()); ++r)
    result.push_back(largest(all.subspan(r * cols, cols), static_cast<size_t>(std::max(k, 0))));
  return result;
}

std::vector<float> TorchBackend::log_sum_exp(const Tensor& x) {
  return with_torch("a sum", [&] { return host_values(at::logsumexp(unwrap(x), {1})); });
}

void TorchBackend::to_host(const Tensor& x, float* out) {
  const std::vector<float> values = with_torch("reading", [&] { return host_values(unwrap(x)); });
  std::copy(values.begin(), values.end(), out);
}

at::Device find_device(const std::string& name) {
  const bool cuda = name == "cuda" || name.starts_with("cuda:");
  const std::string_view number = cuda && name.size() > 5 ? std::string_view(name).substr(5) : "0";
  const bool digits = !number.empty() && number.size() < 4 &&
                      number.find_first_not_of("0123456789") == std::string_view::npos;
  if (name != "cpu" && (!cuda || name.ends_with(':') || !digits))
    fail(ErrorCode::kInvalidArgument, "there is no device '{}'; use cpu, cuda or cuda:N", name);
  if (!cuda) return at::kCPU;
  if (!at::hasCUDA())
    fail(ErrorCode::kUnsupported, "device {}: this libtorch or this machine has no CUDA", name);
  const auto index = static_cast<at::DeviceIndex>(std::stoi(std::string(number)));
  const auto count = at::detail::getCUDAHooks().deviceCount();
  if (index >= count)
    fail(ErrorCode::kUnsupported, "device {}: this machine has {} CUDA devices", name, count);
  return {at::kCUDA, index};
}

}  // namespace

std::shared_ptr<Backend> make_torch_backend(const TorchOptions& options) {
  if (options.type != DType::kF32 && options.type != DType::kBF16 && options.type != DType::kF64)
    fail(ErrorCode::kInvalidArgument, "libtorch computes in F32, BF16 or F64, not in {}",
         dtype_name(options.type));
  return with_torch("starting", [&] {
    const at::Device device = find_device(options.device);
    at::set_num_threads(options.threads == 0 ? granted_cores() : options.threads);
    const at::ScalarType type = options.type == DType::kF64 ? at::kDouble : at::kFloat;
    return std::make_shared<TorchBackend>(at::TensorOptions().device(device).dtype(type),
                                          options.type == DType::kBF16);
  });
}

bool torch_prefers_bf16(const std::string& device) {
  return device != "cpu" || __builtin_cpu_supports("avx512bf16");
}

}  // namespace clover
