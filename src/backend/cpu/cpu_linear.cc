// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/cpu_vector.h"
#include "base/error.h"

namespace clover {

// What a matrix multiplies: rows as they are, or what a norm or a gate makes of them.
struct CpuBackend::Source {
  FloatRows x;
  const float* norm = nullptr;  // [norm_group]
  int64_t norm_group = 0;
  float eps = 0.0f;
  bool gated = false;
  bool plain() const { return !norm && !gated; }
  int64_t cols() const { return gated ? x.cols / 2 : x.cols; }
  // Of a gated source, `count` columns from `first` of the gate and of what it gates.
  FloatRows gate(int64_t first, int64_t count) const {
    return {x.rows, count, x.stride, x.x + first};
  }
  FloatRows up(int64_t first, int64_t count) const {
    return {x.rows, count, x.stride, x.x + cols() + first};
  }
};

namespace {

// Up to so many inputs, every thread makes its own copy of what it multiplies: cheaper than to wait
// for each other twice and to fetch the other's half. Measured, eight rows on two threads: 10 µs
// less for each matrix.
constexpr int64_t kOwnValues = 16 * 1024;

// Bytes that the 8-bit form of so many values takes: codes, and per block a scale, a sum and two
// half sums.
int64_t quant_bytes(int64_t values) { return values + values / kBlockCols * 16; }

QuantRows lay_out(void* memory, int64_t rows, int64_t cols) {
  auto* bytes = static_cast<uint8_t*>(memory);
  const int64_t values = rows * cols;
  const int64_t blocks = values / kBlockCols;
  QuantRows q;
  q.rows = rows;
  q.cols = cols;
  q.q = reinterpret_cast<int8_t*>(bytes);
  q.scale = reinterpret_cast<float*>(bytes + values);
  q.sums = q.scale + blocks;
  q.half_sums = reinterpret_cast<int32_t*>(q.sums + blocks);
  return q;
}

void multiply_segment(const KernelTable& kernels, const PackedMatrix::Segment& segment,
                      Range panels, const MatmulInputs& x, MatmulOut out) {
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

void CpuBackend::make_floats(const Source& source, Range rows, float* out) {
  const int64_t cols = source.cols();
  if (source.gated) {
    kernels_.swiglu(source.gate(0, cols), source.up(0, cols), rows, out, cols);
  } else {
    kernels_.rms_norm(source.x, rows, source.norm, source.norm_group, source.eps, out, cols);
  }
}

// All of it on the calling thread, in memory of its own.
const MatmulInputs& CpuBackend::make_own(OwnInputs& own, const Source& source, bool quantised) {
  const Range all{0, source.x.rows};
  const int64_t cols = source.cols();
  const auto values = static_cast<size_t>(source.x.rows * cols);
  own.inputs.floats = source.x;
  if (!source.plain()) {
    if (own.floats.size() < values) own.floats.resize(values);
    make_floats(source, all, own.floats.data());
    own.inputs.floats = {source.x.rows, cols, cols, own.floats.data()};
  }
  if (quantised) {
    const int64_t bytes = quant_bytes(static_cast<int64_t>(values));
    if (own.bytes.bytes() < bytes) own.bytes = AlignedBuffer(bytes);
    own.inputs.quantised = lay_out(own.bytes.data(), source.x.rows, cols);
    kernels_.quantise(own.inputs.floats, all, 0, own.inputs.quantised);
  }
  return own.inputs;
}

// Runs the matrix over the inputs that `inputs(thread)` gives, in chunks of panels. Every thread
// has its share of each part of a stacked matrix, the same for every product: what it wrote of a
// gate and of what that gates, or of a head's queries and keys, are its own lines.
template <typename InputsOf>
void CpuBackend::run_panels(const PackedMatrix& w, const InputsOf& inputs, const MatmulOut& out) {
  // Chunks of a half, a quarter, … of a share: few handshakes, and the small ones at the end are
  // what a faster thread takes over.
  constexpr int64_t kChunks = 5;
  const int64_t threads = pool_.size();
  const auto share = [&](const PackedMatrix::Segment& segment, int64_t thread) {
    const int64_t panels = segment.view.panels();
    const int64_t at = (panels * thread / threads + 1) / 2 * 2;  // kernels pair panels
    return thread == threads ? panels : std::min(at, panels);
  };
  pool_.parallel_for(threads * kChunks, [&](int64_t i, int thread) {
    const int64_t owner = i / kChunks;
    int64_t all = 0;
    for (const auto& segment : w.segments())
      all += share(segment, owner + 1) - share(segment, owner);
    const auto cut = [&](int64_t chunk) {
      if (chunk == kChunks) return all;
      return chunk == 0 ? int64_t{0} : std::min((all - (all >> chunk) + 1) / 2 * 2, all);
    };
    const Range chunk{cut(i % kChunks), cut(i % kChunks + 1)};
    if (chunk.begin >= chunk.end) return;
    const MatmulInputs& x = inputs(thread);
    int64_t first = 0;  // panel of the owner's share of the segment among all its panels
    for (const auto& segment : w.segments()) {
      const int64_t begin = share(segment, owner);
      const int64_t count = share(segment, owner + 1) - begin;
      const Range part{std::max(chunk.begin - first, int64_t{0}),
                       std::min(chunk.end - first, count)};
      if (part.begin < part.end)
        multiply_segment(kernels_, segment, {begin + part.begin, begin + part.end}, x, out);
      first += count;
    }
  });
}

// The gated inputs of few rows: every thread gates and rounds the columns that it wrote itself (see
// run_panels), so that only bytes travel between the threads.
void CpuBackend::multiply_gated(const PackedMatrix& w, const Source& source, const MatmulOut& out) {
  const int64_t rows = source.x.rows;
  const int64_t cols = source.cols();
  const std::shared_ptr<void> memory = buffers_.get(quant_bytes(rows * cols));
  MatmulInputs x;
  x.quantised = lay_out(memory.get(), rows, cols);
  const int64_t blocks = cols / kBlockCols;
  const int64_t parts = pool_.size();
  pool_.parallel_for(parts, [&](int64_t part, int thread) {
    const int64_t begin = blocks * part / parts;
    const int64_t count = (blocks * (part + 1) / parts - begin) * kBlockCols;
    if (count == 0) return;
    std::vector<float>& floats = own_[static_cast<size_t>(thread)].floats;
    if (std::ssize(floats) < rows * count) floats.resize(static_cast<size_t>(rows * count));
    const int64_t first = begin * kBlockCols;
    kernels_.swiglu(source.gate(first, count), source.up(first, count), {0, rows}, floats.data(),
                    count);
    kernels_.quantise({rows, count, count, floats.data()}, {0, rows}, begin, x.quantised);
  });
  run_panels(
      w, [&](int) -> const MatmulInputs& { return x; }, out);
}

// One copy of the inputs, made by all threads together. Tiles of rows lie apart in it, so threads
// share whole tiles.
void CpuBackend::multiply_shared(const PackedMatrix& w, const Source& source,
                                 const MatmulOut& out) {
  const int64_t cols = source.cols();
  MatmulInputs x;
  x.floats = source.x;
  Tensor made;
  if (!source.plain()) {
    made = empty(source.x.rows, cols);
    for_rows(source.x.rows, source.x.cols,
             [&](Range rows) { make_floats(source, rows, made.data()); });
    x.floats = {made.rows(), made.cols(), made.stride(), made.data()};
  }
  std::shared_ptr<void> memory;
  if (w.wants_quantised()) {
    memory = buffers_.get(quant_bytes(source.x.rows * cols));
    x.quantised = lay_out(memory.get(), source.x.rows, cols);
    constexpr int64_t kTile = 8;
    pool_.parallel_for((x.floats.rows + kTile - 1) / kTile, [&](int64_t tile, int) {
      const Range rows{tile * kTile, std::min((tile + 1) * kTile, x.floats.rows)};
      kernels_.quantise(x.floats, rows, 0, x.quantised);
    });
  }
  run_panels(
      w, [&](int) -> const MatmulInputs& { return x; }, out);
}

Tensor CpuBackend::multiply(const Source& source, const Matrix& matrix, const Vector* bias,
                            const Tensor* residual) {
  if (source.cols() != matrix.cols())
    fail(ErrorCode::kInvalidArgument, "a matrix of {} inputs cannot take rows of {}", matrix.cols(),
         source.cols());
  const auto& w = static_cast<const PackedMatrix&>(matrix);
  Tensor result = empty(source.x.rows, w.rows());
  const MatmulOut out{result.data(), result.stride(), bias ? values_of(*bias) : nullptr,
                      residual ? residual->data() : nullptr, residual ? residual->stride() : 0};
  if (source.x.rows * source.cols() > kOwnValues) {
    multiply_shared(w, source, out);
    return result;
  }
  if (source.gated && !w.wants_floats()) {
    multiply_gated(w, source, out);
    return result;
  }
  const bool quantised = w.wants_quantised();
  const uint64_t call = ++calls_;
  const auto inputs = [&](int thread) -> const MatmulInputs& {
    OwnInputs& own = own_[static_cast<size_t>(thread)];
    if (own.call == call) return own.inputs;
    own.call = call;
    return make_own(own, source, quantised);
  };
  run_panels(w, inputs, out);
  return result;
}

Tensor CpuBackend::linear(const Tensor& x, const Matrix& w, const Vector* bias,
                          const Tensor* residual) {
  return multiply({.x = rows_of(x)}, w, bias, residual);
}

Tensor CpuBackend::norm_linear(const Tensor& x, const Vector& norm, float eps, const Matrix& w,
                               const Vector* bias) {
  return multiply({.x = rows_of(x), .norm = values_of(norm), .norm_group = norm.size(), .eps = eps},
                  w, bias, nullptr);
}

Tensor CpuBackend::swiglu_linear(const Tensor& x, const Matrix& w, const Tensor* residual) {
  return multiply({.x = rows_of(x), .gated = true}, w, nullptr, residual);
}

}  // namespace clover
