// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "backend/cpu/cpu_vector.h"
#include "base/error.h"
#include "tensor/quant.h"

namespace clover {
namespace {

// The step is known to the compiler, which makes vector code of the first kind.
template <int64_t kStep>
void rotate(float* first, float* second, const float* cos, const float* sin, int64_t pairs) {
  for (int64_t i = 0; i < pairs; ++i) {
    const float a = first[i * kStep];
    const float b = second[i * kStep];
    first[i * kStep] = a * cos[i] - b * sin[i];
    second[i * kStep] = b * cos[i] + a * sin[i];
  }
}

// The `keep` largest values. The keep-th largest of the chunks' maxima is a lower bound for them,
// so few chunks have to be looked into.
std::vector<TopEntry> largest(const KernelTable& kernels, std::span<const float> row, size_t keep) {
  const auto better = [](const TopEntry& a, const TopEntry& b) {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
  };
  std::vector<float> peaks((row.size() + kMaxChunk - 1) / kMaxChunk);
  kernels.chunk_max(row.data(), static_cast<int64_t>(row.size()), peaks.data());
  float least = -std::numeric_limits<float>::infinity();
  if (peaks.size() > keep) {
    std::vector<float> sorted = peaks;
    const auto last = sorted.begin() + static_cast<int64_t>(keep) - 1;
    std::nth_element(sorted.begin(), last, sorted.end(), std::greater<>());
    least = *last;
  }
  // A heap of the best so far whose worst is on top.
  std::vector<TopEntry> best;
  best.reserve(keep + 1);
  for (size_t chunk = 0; chunk < peaks.size(); ++chunk) {
    if (peaks[chunk] < least) continue;
    const size_t end = std::min((chunk + 1) * kMaxChunk, row.size());
    for (size_t c = chunk * kMaxChunk; c < end; ++c) {
      if (!(row[c] >= least)) continue;  // NaN is passed over too
      const TopEntry entry{static_cast<int32_t>(c), row[c]};
      if (best.size() == keep && !better(entry, best.front())) continue;
      best.push_back(entry);
      std::push_heap(best.begin(), best.end(), better);
      if (best.size() > keep) {
        std::pop_heap(best.begin(), best.end(), better);
        best.pop_back();
      }
    }
  }
  std::sort_heap(best.begin(), best.end(), better);
  return best;
}

}  // namespace

CpuBackend::CpuBackend(int threads, const KernelTable& kernels)
    : pool_(threads),
      kernels_(kernels),
      scratch_(static_cast<size_t>(threads)),
      own_(static_cast<size_t>(threads)) {}

std::string CpuBackend::description() const {
  return fmt::format("cpu, {}, {} thread{}", kernels_.name, threads(), threads() == 1 ? "" : "s");
}

MatrixPtr CpuBackend::load_matrix(std::span<const WeightView> parts) {
  return PackedMatrix::pack(parts, pool_, weights_);
}

VectorPtr CpuBackend::load_vector(std::span<const WeightView> parts) {
  return std::make_shared<CpuVector>(dequantised(parts));
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
  for_rows(x.rows(), heads * head_dim, [&](Range rows) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const float* cos = angles.cos.data() + r * pairs;
      const float* sin = angles.sin.data() + r * pairs;
      for (int64_t h = 0; h < heads; ++h) {
        float* v = x.row(r) + h * head_dim;
        if (layout == RopeLayout::kHalves) {
          rotate<1>(v, v + pairs, cos, sin, pairs);
        } else {
          rotate<2>(v, v + 1, cos, sin, pairs);
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
  for_rows(x.rows(), x.cols(), [&](Range rows) {
    kernels_.swiglu(rows_of(columns(x, 0, out.cols())), rows_of(columns(x, out.cols(), out.cols())),
                    rows, out.data(), out.stride());
  });
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
  const int64_t keep = std::clamp<int64_t>(k, 0, x.cols());
  if (keep == 0) return result;
  pool_.parallel_for(x.rows(), [&](int64_t r, int) {
    result[static_cast<size_t>(r)] =
        largest(kernels_, {x.row(r), static_cast<size_t>(x.cols())}, static_cast<size_t>(keep));
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
