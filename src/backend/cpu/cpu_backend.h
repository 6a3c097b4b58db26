// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/aligned.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kv_memory.h"
#include "backend/cpu/packed_matrix.h"
#include "base/thread_pool.h"

namespace clover {

// A product's inputs in the forms that kernels take.
struct MatmulInputs {
  FloatRows floats;
  QuantRows quantised;  // of quantised weights
};

inline FloatRows rows_of(const Tensor& x) { return {x.rows(), x.cols(), x.stride(), x.data()}; }

// The native backend: a thread pool, one instruction set's kernels, and scratch memory that is
// reused by every pass.
class CpuBackend : public Backend {
 public:
  CpuBackend(int threads, const KernelTable& kernels);

  std::string description() const override;
  int threads() const override { return pool_.size(); }
  MachinePeak measure_peak(int64_t bytes) override;

  MatrixPtr load_matrix(std::span<const WeightView> parts) override;
  VectorPtr load_vector(std::span<const WeightView> parts) override;
  std::unique_ptr<KvStore> make_kv_store(const KvShape& shape) override;

  Tensor empty(int64_t rows, int64_t cols) override;
  Tensor from_host(int64_t rows, int64_t cols, const float* values) override;

  Tensor embed(const Matrix& table, std::span<const int32_t> ids) override;
  Tensor linear(const Tensor& x, const Matrix& w, const Vector* bias,
                const Tensor* residual) override;
  Tensor norm_linear(const Tensor& x, const Vector& norm, float eps, const Matrix& w,
                     const Vector* bias) override;
  Tensor swiglu_linear(const Tensor& x, const Matrix& w, const Tensor* residual) override;
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
  // Below this many values a loop is cheaper on one thread than the handshake with the others.
  static constexpr int64_t kShareValues = 4 * 1024;

  // Runs body(Range of rows) over all rows: on the caller where the work is too small to share.
  template <typename Body>
  void for_rows(int64_t rows, int64_t cols, const Body& body) {
    if (rows * cols < kShareValues || rows == 1) {
      body(Range{0, rows});
      return;
    }
    const int64_t parts = std::min<int64_t>(rows, pool_.size() * (rows > 64 ? 4 : 1));
    pool_.parallel_for(parts, [&](int64_t part, int) {
      body(Range{rows * part / parts, rows * (part + 1) / parts});
    });
  }
  // What a matrix multiplies, as floats and (for quantised weights) in 8 bits.
  struct Source;
  // A thread's own copy of a product's inputs; `call` tells of which product.
  struct alignas(64) OwnInputs {
    uint64_t call = 0;
    MatmulInputs inputs;
    std::vector<float> floats;
    AlignedBuffer bytes;
  };
  void make_floats(const Source& source, Range rows, float* out);
  const MatmulInputs& make_own(OwnInputs& own, const Source& source, bool quantised);
  template <typename InputsOf>
  void run_panels(const PackedMatrix& w, const InputsOf& inputs, const MatmulOut& out);
  void multiply_gated(const PackedMatrix& w, const Source& source, const MatmulOut& out);
  void multiply_shared(const PackedMatrix& w, const Source& source, const MatmulOut& out);
  Tensor multiply(const Source& source, const Matrix& matrix, const Vector* bias,
                  const Tensor* residual);

  ThreadPool pool_;
  const KernelTable& kernels_;
  WeightMemory weights_;
  BufferPool buffers_;
  std::vector<std::vector<float>> scratch_;  // per thread, for attention
  std::vector<OwnInputs> own_;               // per thread
  uint64_t calls_ = 0;
};

}  // namespace clover
