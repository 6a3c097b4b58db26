// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "tensor/quant.h"

namespace clover {
namespace {

class CpuVector : public Vector {
 public:
  explicit CpuVector(std::vector<float> values) : values_(std::move(values)) {}
  int64_t size() const override { return static_cast<int64_t>(values_.size()); }
  const float* data() const { return values_.data(); }

 private:
  std::vector<float> values_;
};

const float* values_of(const Vector& v) { return static_cast<const CpuVector&>(v).data(); }

FloatRows rows_of(const Tensor& x) { return {x.rows(), x.cols(), x.stride(), x.data()}; }

}  // namespace

CpuBackend::CpuBackend(int threads, const KernelTable& kernels)
    : pool_(threads), kernels_(kernels), scratch_(static_cast<size_t>(threads)) {}

std::string CpuBackend::description() const {
  return fmt::format("cpu, {}, {} thread{}", kernels_.name, threads(), threads() == 1 ? "" : "s");
}

MatrixPtr CpuBackend::load_matrix(std::span<const WeightView> parts) {
  return PackedMatrix::pack(parts, pool_, weights_);
}

VectorPtr CpuBackend::load_vector(std::span<const WeightView> parts) {
  std::vector<float> values;
  for (const WeightView& part : parts) {
    const size_t at = values.size();
    values.resize(at + static_cast<size_t>(part.rows * part.cols));
    dequantise(part.type, part.data, part.rows * part.cols, values.data() + at);
  }
  return std::make_shared<CpuVector>(std::move(values));
}

std::unique_ptr<KvStore> CpuBackend::make_kv_store(const KvShape& shape) {
  return std::make_unique<CpuKvStore>(shape);
}

Tensor CpuBackend::empty(int64_t rows, int64_t cols) {
  std::shared_ptr<void> memory = buffers_.get(rows * cols * static_cast<int64_t>(sizeof(float)));
  auto* data = static_cast<float*>(memory.get());
  return {rows, cols, cols, data, std::move(memory)};
}

Tensor CpuBackend::from_host(int64_t rows, int64_t cols, const float* values) {
  Tensor out = empty(rows, cols);
  std::memcpy(out.data(), values, static_cast<size_t>(rows * cols) * sizeof(float));
  return out;
}

Tensor CpuBackend::embed(const Matrix& table, std::span<const int32_t> ids) {
  const auto& packed = static_cast<const PackedMatrix&>(table);
  Tensor out = empty(static_cast<int64_t>(ids.size()), table.cols());
  for (const int32_t id : ids) {
    if (id < 0 || id >= table.rows())
      fail(ErrorCode::kInvalidArgument, "token id {} is outside the vocabulary of {}", id,
           table.rows());
  }
  for_rows(out.rows(), out.cols(), [&](Range rows) {
    for (int64_t r = rows.begin; r < rows.end; ++r)
      packed.unpack_row(ids[static_cast<size_t>(r)], out.row(r));
  });
  return out;
}

CpuBackend::Quantised CpuBackend::quantise(const FloatRows& x) {
  const int64_t values = x.rows * x.cols;
  const int64_t blocks = values / kBlockCols;
  Quantised result;
  // One buffer: bytes, then per block a scale, a sum and two half sums.
  result.memory = buffers_.get(values + blocks * 16);
  auto* bytes = static_cast<uint8_t*>(result.memory.get());
  QuantRows& q = result.rows;
  q.rows = x.rows;
  q.cols = x.cols;
  q.q = reinterpret_cast<int8_t*>(bytes);
  q.scale = reinterpret_cast<float*>(bytes + values);
  q.sums = q.scale + blocks;
  q.half_sums = reinterpret_cast<int32_t*>(q.sums + blocks);
  for_rows(x.rows, x.cols, [&](Range rows) { kernels_.quantise(x, rows, q); });
  return result;
}

namespace {

struct Inputs {
  const FloatRows& floats;
  const QuantRows& quantised;
};

void multiply_segment(const KernelTable& kernels, const PackedMatrix::Segment& segment,
                      Range panels, const Inputs& x, MatmulOut out) {
  out.y += segment.first_row;
  if (out.bias) out.bias += segment.first_row;
  if (out.residual) out.residual += segment.first_row;
  if (segment.view.quantised()) {
    kernels.matmul_quantised(segment.view, panels, x.quantised, out);
  } else {
    kernels.matmul_float(segment.view, panels, x.floats, out);
  }
}

}  // namespace

void CpuBackend::multiply(const PackedMatrix& w, const FloatRows& x, const MatmulOut& out) {
  Quantised quantised;
  if (w.wants_quantised()) quantised = quantise(x);
  const QuantRows& q = quantised.rows;
  int64_t panels = 0;
  for (const auto& segment : w.segments()) panels += segment.view.panels();
  // Every thread's share in chunks of a half, a quarter, … of it: few handshakes, and the small
  // ones at the end are what a faster thread takes over.
  constexpr int64_t kChunks = 5;
  const int64_t threads = pool_.size();
  const auto cut = [&](int64_t chunk) {
    const int64_t thread = chunk / kChunks;
    const int64_t begin = panels * thread / threads;
    const int64_t end = panels * (thread + 1) / threads;
    const int64_t left = (end - begin) >> (chunk % kChunks);
    const int64_t at = chunk % kChunks == 0 ? begin : end - left;
    return std::min((at + 1) / 2 * 2, panels);  // kernels pair panels
  };
  pool_.parallel_for(threads * kChunks, [&](int64_t i, int) {
    const Range chunk{cut(i), i + 1 == threads * kChunks ? panels : cut(i + 1)};
    int64_t first = 0;  // panel of the segment among all
    for (const auto& segment : w.segments()) {
      const Range part{std::max(chunk.begin - first, int64_t{0}),
                       std::min(chunk.end - first, segment.view.panels())};
      if (part.begin < part.end) multiply_segment(kernels_, segment, part, {x, q}, out);
      first += segment.view.panels();
    }
  });
}

Tensor CpuBackend::linear(const Tensor& x, const Matrix& w, const Vector* bias,
                          const Tensor* residual) {
  if (x.cols() != w.cols())
    fail(ErrorCode::kInvalidArgument, "a matrix of {} inputs cannot take rows of {}", w.cols(),
         x.cols());
  Tensor out = empty(x.rows(), w.rows());
  MatmulOut target{out.data(), out.stride(), bias ? values_of(*bias) : nullptr,
                   residual ? residual->data() : nullptr, residual ? residual->stride() : 0};
  multiply(static_cast<const PackedMatrix&>(w), rows_of(x), target);
  return out;
}

Tensor CpuBackend::rms_norm(const Tensor& x, const Vector& w, float eps) {
  Tensor out = empty(x.rows(), x.cols());
  for_rows(x.rows(), x.cols(), [&](Range rows) {
    kernels_.rms_norm(rows_of(x), rows, values_of(w), w.size(), eps, out.data(), out.stride());
  });
  return out;
}

Tensor CpuBackend::rope(Tensor x, int64_t heads, int64_t head_dim, const RopeAngles& angles,
                        RopeLayout layout) {
  const int64_t pairs = angles.rotary_dim / 2;
  const int64_t step = layout == RopeLayout::kHalves ? 1 : 2;
  const int64_t other = layout == RopeLayout::kHalves ? pairs : 1;
  for_rows(x.rows(), heads * head_dim, [&](Range rows) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* cos = angles.cos.data() + r * pairs;
      const float* sin = angles.sin.data() + r * pairs;
      for (int64_t h = 0; h < heads; ++h) {
        float* v = x.row(r) + h * head_dim;
        for (int64_t i = 0; i < pairs; ++i) {
          const float a = v[i * step];
          const float b = v[i * step + other];
          v[i * step] = a * cos[i] - b * sin[i];
          v[i * step + other] = b * cos[i] + a * sin[i];
        }
      }
    }
  });
  return x;
}

Tensor CpuBackend::columns(const Tensor& x, int64_t first, int64_t count) {
  return {x.rows(), count, x.stride(), x.data() + first, x.storage()};
}

Tensor CpuBackend::swiglu(const Tensor& x) {
  Tensor out = empty(x.rows(), x.cols() / 2);
  for_rows(x.rows(), x.cols(),
           [&](Range rows) { kernels_.swiglu(rows_of(x), rows, out.data(), out.stride()); });
  return out;
}

Tensor CpuBackend::silu(const Tensor& x, const Tensor* residual) {
  Tensor out = empty(x.rows(), x.cols());
  const FloatRows add = residual ? rows_of(*residual) : FloatRows{};
  for_rows(x.rows(), x.cols(),
           [&](Range rows) { kernels_.silu(rows_of(x), add, rows, out.data(), out.stride()); });
  return out;
}

Tensor CpuBackend::cosine_gate(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads,
                               const Tensor* residual) {
  if (heads < 1 || q.cols() % heads != 0)
    fail(ErrorCode::kInvalidArgument, "{} columns do not split into {} heads", q.cols(), heads);
  Tensor out = empty(q.rows(), q.cols());
  const GateInputs in{rows_of(q), rows_of(k), rows_of(v),
                      residual ? rows_of(*residual) : FloatRows{}};
  for_rows(q.rows(), 3 * q.cols(), [&](Range rows) {
    kernels_.cosine_gate(in, rows, q.cols() / heads, out.data(), out.stride());
  });
  return out;
}

Tensor CpuBackend::add(const Tensor& a, const Tensor& b) {
  Tensor out = empty(a.rows(), a.cols());
  for_rows(a.rows(), a.cols(), [&](Range rows) {
    for (int64_t r = rows.begin; r < rows.end; ++r)
      for (int64_t c = 0; c < a.cols(); ++c) out.row(r)[c] = a.row(r)[c] + b.row(r)[c];
  });
  return out;
}

Tensor CpuBackend::scale(const Tensor& x, float factor) {
  Tensor out = empty(x.rows(), x.cols());
  for_rows(x.rows(), x.cols(), [&](Range rows) {
    for (int64_t r = rows.begin; r < rows.end; ++r)
      for (int64_t c = 0; c < x.cols(); ++c) out.row(r)[c] = x.row(r)[c] * factor;
  });
  return out;
}

Tensor CpuBackend::gather_rows(const Tensor& x, std::span<const int32_t> rows) {
  Tensor out = empty(static_cast<int64_t>(rows.size()), x.cols());
  for (size_t i = 0; i < rows.size(); ++i)
    std::memcpy(out.row(static_cast<int64_t>(i)), x.row(rows[i]),
                static_cast<size_t>(x.cols()) * sizeof(float));
  return out;
}

std::vector<std::vector<TopEntry>> CpuBackend::top_k(const Tensor& x, int k) {
  std::vector<std::vector<TopEntry>> result(static_cast<size_t>(x.rows()));
  const auto better = [](const TopEntry& a, const TopEntry& b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
  };
  const auto keep = static_cast<size_t>(std::clamp<int64_t>(k, 0, x.cols()));
  pool_.parallel_for(x.rows(), [&](int64_t r, int) {
    // A heap of the best so far whose worst is on top; most values fail one comparison.
    std::vector<TopEntry>& best = result[static_cast<size_t>(r)];
    best.reserve(keep + 1);
    const float* row = x.row(r);
    for (int64_t c = 0; c < x.cols() && keep > 0; ++c) {
      const TopEntry entry{static_cast<int32_t>(c), row[c]};
      if (best.size() == keep && !better(entry, best.front())) continue;
      best.push_back(entry);
      std::push_heap(best.begin(), best.end(), better);
      if (best.size() > keep) {
        std::pop_heap(best.begin(), best.end(), better);
        best.pop_back();
      }
    }
    std::sort_heap(best.begin(), best.end(), better);
  });
  return result;
}

std::vector<float> CpuBackend::log_sum_exp(const Tensor& x) {
  std::vector<float> result(static_cast<size_t>(x.rows()));
  pool_.parallel_for(x.rows(), [&](int64_t r, int) {
    result[static_cast<size_t>(r)] = kernels_.log_sum_exp(x.row(r), x.cols());
  });
  return result;
}

void CpuBackend::to_host(const Tensor& x, float* out) {
  for (int64_t r = 0; r < x.rows(); ++r)
    std::memcpy(out + r * x.cols(), x.row(r), static_cast<size_t>(x.cols()) * sizeof(float));
}

std::vector<std::string> cpu_isas() {
  std::vector<std::string> names;
  for (const KernelTable* table : {&kernels_avx512(), &kernels_avx2(), &kernels_reference()})
    if (table->supported()) names.emplace_back(table->name);
  return names;
}

std::shared_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  const int threads = options.threads == 0 ? granted_cores() : options.threads;
  for (const KernelTable* table : {&kernels_avx512(), &kernels_avx2(), &kernels_reference()}) {
    const bool any = options.isa.empty() || options.isa == "auto";
    if (!any && options.isa != table->name) continue;
    if (table->supported()) return std::make_shared<CpuBackend>(threads, *table);
    if (!any)
      fail(ErrorCode::kUnsupported, "this machine does not have the instruction set {}",
           options.isa);
  }
  fail(ErrorCode::kInvalidArgument,
       "unknown instruction set {}; use auto, avx512, avx2 or reference", options.isa);
}

}  // namespace clover
