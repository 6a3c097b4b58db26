// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/tensor.h"
#include "tensor/dtype.h"

// The operation set over which model and speculator mathematics are written once.
// Letters: R rows of a batch, D hidden size, H query heads, G KV heads, d head size, V vocabulary.
// Every operation on row r gives bits that depend on row r's inputs alone: not on R, on the other
// rows or on the thread count (invariant 1).
namespace clover {

// Weights as they lie in a file: row-major {rows, cols} of `type`; rows are outputs.
struct WeightView {
  DType type = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  const std::byte* data = nullptr;
};

// The values of all parts, one behind the other, in float32.
std::vector<float> dequantised(std::span<const WeightView> parts);

// A weight matrix in a backend's own layout. Several WeightViews with equal `cols` may have been
// stacked (q, k, v share an input and become one matrix).
class Matrix {
 public:
  virtual ~Matrix() = default;
  virtual int64_t rows() const = 0;   // outputs
  virtual int64_t cols() const = 0;   // inputs
  virtual int64_t bytes() const = 0;  // resident size
  // The file's element type, "Q4_K+Q6_K" where stacked parts differ.
  virtual std::string type_name() const = 0;
};
using MatrixPtr = std::shared_ptr<const Matrix>;

// A float32 vector of weights (norms, biases).
class Vector {
 public:
  virtual ~Vector() = default;
  virtual int64_t size() const = 0;
};
using VectorPtr = std::shared_ptr<const Vector>;

struct KvShape {
  int64_t layers = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t blocks = 0;        // blocks in the store; a block holds kKvBlockTokens tokens
  DType type = DType::kF16;  // kF16 or kF32
};
inline constexpr int64_t kKvBlockTokens = 16;
// Blocks that hold so many tokens.
constexpr int64_t kv_blocks_for(int64_t tokens) {
  return (tokens + kKvBlockTokens - 1) / kKvBlockTokens;
}

// Keys and values of every layer, in blocks. Which block belongs to whom is the kv room's business.
class KvStore {
 public:
  virtual ~KvStore() = default;
  virtual const KvShape& shape() const = 0;
  virtual int64_t bytes() const = 0;
  struct Move {
    int64_t from;  // token addresses: block id * kKvBlockTokens + offset in the block
    int64_t to;
  };
  // Copies tokens' keys and values in all layers, in the order given.
  virtual void move(std::span<const Move> moves) = 0;
};

// Where the rows of a batch look for keys. Rows of one sequence are contiguous and in path order
// (a row comes after its parent). Slot s of a sequence lives in block block_tables[seq][s / 16].
// Row r's path is slots 0 … linear_len[r]-1, then tail[tail_begin[r]] … tail[tail_begin[r+1]-1]
// (which ends with the row's own slot). For a prompt chunk the path is all linear.
//   Example: 5 tokens committed, a tree of three rows (a; b and c children of a), slots 5, 6, 7:
//   linear_len = {6, 7, 6}, tail of a = {}, b = {}, c = {7}: c skips b's slot 6.
struct AttentionPlan {
  struct Sequence {
    std::span<const int32_t> blocks;  // block ids, enough for all slots of the batch
    int64_t first_row = 0;
    int64_t rows = 0;
  };
  std::vector<Sequence> sequences;
  std::vector<int64_t> slot;        // [R] where the row's own key and value are stored
  std::vector<int64_t> position;    // [R] logical position, for RoPE, ALiBi and the window
  std::vector<int64_t> linear_len;  // [R]
  std::vector<int64_t> tail_begin;  // [R + 1]
  std::vector<int64_t> tail;        // slots
  int64_t rows() const { return static_cast<int64_t>(slot.size()); }
};

struct AttentionParams {
  int64_t heads = 0;     // H
  int64_t kv_heads = 0;  // G, divides H
  int64_t head_dim = 0;  // d
  float scale = 1.0f;    // multiplies q·k
  int64_t window = 0;    // > 0: only the last `window` positions are seen (sliding window)
  std::span<const float> alibi_slopes;  // [H] or empty; adds slope * (key position - own position)
};

// cos and sin of every row's rotation angles: [R][rotary_dim / 2] each.
struct RopeAngles {
  int64_t rotary_dim = 0;
  std::vector<float> cos;
  std::vector<float> sin;
};
// How the two halves of a rotated pair lie in a head: (i, i + rotary_dim/2) or (2i, 2i + 1).
enum class RopeLayout { kHalves, kAdjacent };

struct TopEntry {
  int32_t id;
  float value;
};

// What the machine can do at best with this backend's instructions, measured.
struct MachinePeak {
  double read_gbytes_per_s = 0;  // reading memory once, all threads
  double int8_gmac_per_s = 0;    // 8-bit multiply-accumulates on registers, all threads
  double float_gmac_per_s = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  // For people: device, instruction set, threads.
  virtual std::string description() const = 0;
  virtual int threads() const = 0;
  // Takes about half a second; `bytes` is the size of the memory read, best the model's own.
  virtual MachinePeak measure_peak(int64_t bytes) = 0;

  // --- Loading -------------------------------------------------------------------------------
  // Stacks the views' rows; all must have equal cols. Error(kUnsupported) for a type or a shape
  // that the backend cannot hold (cols not a multiple of a quantised block).
  virtual MatrixPtr load_matrix(std::span<const WeightView> parts) = 0;
  // Any float type, stored as float32; cols of all parts are appended.
  virtual VectorPtr load_vector(std::span<const WeightView> parts) = 0;
  virtual std::unique_ptr<KvStore> make_kv_store(const KvShape& shape) = 0;

  // --- Tensors -------------------------------------------------------------------------------
  // A tensor with undefined contents, and one with the given host values.
  virtual Tensor empty(int64_t rows, int64_t cols) = 0;
  virtual Tensor from_host(int64_t rows, int64_t cols, const float* values) = 0;

  // --- Operations ----------------------------------------------------------------------------
  // out[r] = table row ids[r] in float32: [R, cols]. Ids must be inside the table.
  virtual Tensor embed(const Matrix& table, std::span<const int32_t> ids) = 0;
  // out = x Wᵀ (+ bias) (+ residual): [R, W.rows]. bias and residual may be null.
  virtual Tensor linear(const Tensor& x, const Matrix& w, const Vector* bias = nullptr,
                        const Tensor* residual = nullptr) = 0;
  // linear(rms_norm(x, norm, eps), w, bias) and linear(swiglu(x), w, null, residual), with the same
  // bits: a backend may save what passes between the two.
  virtual Tensor norm_linear(const Tensor& x, const Vector& norm, float eps, const Matrix& w,
                             const Vector* bias = nullptr) {
    return linear(rms_norm(x, norm, eps), w, bias);
  }
  virtual Tensor swiglu_linear(const Tensor& x, const Matrix& w, const Tensor* residual = nullptr) {
    return linear(swiglu(x), w, nullptr, residual);
  }
  // x / sqrt(mean(x²) + eps) * w over each group of w.size() columns (one group per row for layer
  // norms, one per head for Qwen3's q and k norms).
  virtual Tensor rms_norm(const Tensor& x, const Vector& w, float eps) = 0;
  // Rotates the first `heads` heads of every row of x, each of head_dim columns. x is consumed: the
  // result may use its memory.
  virtual Tensor rope(Tensor x, int64_t heads, int64_t head_dim, const RopeAngles& angles,
                      RopeLayout layout) = 0;
  // Columns [first, first + count) of x (a view where the backend can).
  virtual Tensor columns(const Tensor& x, int64_t first, int64_t count) = 0;
  // Stores k and v ([R, G*d]) of the batch's rows at their slots, then attends every row over its
  // path: [R, H*d].
  virtual Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, KvStore& kv,
                           int64_t layer, const AttentionPlan& plan,
                           const AttentionParams& params) = 0;
  // silu(gate) * up of x = [gate | up]: [R, cols / 2].
  virtual Tensor swiglu(const Tensor& x) = 0;
  // silu(x) (+ residual): [R, cols].
  virtual Tensor silu(const Tensor& x, const Tensor* residual = nullptr) = 0;
  // Attention over a single key, weighted by likeness: per head (cols / heads columns)
  // cos(q, k) * v (+ residual), where cos(q, k) = q·k / (max(|q|, 1e-8) max(|k|, 1e-8)): [R, cols].
  virtual Tensor cosine_gate(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads,
                             const Tensor* residual = nullptr) = 0;
  virtual Tensor add(const Tensor& a, const Tensor& b) = 0;
  virtual Tensor scale(const Tensor& x, float factor) = 0;
  // Rows of x in the order of `rows`: [rows.size(), cols].
  virtual Tensor gather_rows(const Tensor& x, std::span<const int32_t> rows) = 0;

  // --- Back to the host ----------------------------------------------------------------------
  // The k largest values of every row, descending, ties by lower id: [R][k]. NaN is passed over, so
  // a row with NaN may give fewer.
  virtual std::vector<std::vector<TopEntry>> top_k(const Tensor& x, int k) = 0;
  // log(sum(exp(row))) of every row.
  virtual std::vector<float> log_sum_exp(const Tensor& x) = 0;
  // Copies rows * cols values to the host.
  virtual void to_host(const Tensor& x, float* out) = 0;
};

struct CpuOptions {
  int threads = 0;  // 0: the cores that the cgroup grants
  std::string isa;  // "" or "auto": the best this machine runs; "avx512", "avx2", "reference"
};

// Native CPU backend. Error(kInvalidArgument) for an unknown instruction set, Error(kUnsupported)
// for one that this machine lacks.
std::shared_ptr<Backend> make_cpu_backend(const CpuOptions& options);
// Names of the instruction sets that this binary has and this machine runs, best first.
std::vector<std::string> cpu_isas();

}  // namespace clover
