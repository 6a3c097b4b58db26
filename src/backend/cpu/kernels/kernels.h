// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

// The inner loops of the CPU backend, once per instruction set. Each is written once over sixteen
// lanes (*_inl.h) and compiled for every set; all sets give the same bits.
namespace clover {

inline constexpr int64_t kPanelRows = 16;  // weight rows (outputs) of a panel, one per lane
inline constexpr int64_t kMaxChunk = 256;  // values that chunk_max sums up in one
inline constexpr int64_t kBlockCols = 32;  // inputs that share an activation scale

// How the weights of a matrix segment are stored.
enum class PanelKind : uint8_t { kNibbles, kBytes, kF32, kF16, kBF16 };

// Weights as panels of 16 outputs; panel p starts at data + p * panel_bytes.
// Quantised kinds: blocks of 32 inputs, two by two so that everything is aligned and a panel is one
// forward stream: codes of both blocks, scales of both, minima of both (where has_min).
//   codes   kNibbles 256 bytes a block: bytes 64 j … hold input group j in the low and j + 4 in the
//           high nibbles (a group is 4 inputs of 16 outputs); kBytes 512 bytes: group g at 64 g.
//   scales  float16 [32 / group][16] a block, minima likewise.
//   weight = scale * (code - offset) + min.
// Float kinds: [cols][16] values.
struct PanelView {
  PanelKind kind = PanelKind::kF32;
  int group = 32;  // 16 or 32 inputs share a scale
  bool has_min = false;
  int offset = 0;
  int64_t rows = 0;  // outputs; the last panel may be partly filled
  int64_t cols = 0;
  const uint8_t* data = nullptr;
  int64_t panel_bytes = 0;
  int64_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  bool quantised() const { return kind == PanelKind::kNibbles || kind == PanelKind::kBytes; }
  // Of the quantised kinds, in bytes.
  int64_t code_bytes() const { return kind == PanelKind::kNibbles ? 256 : 512; }
  int64_t scale_bytes() const { return 32 / group * kPanelRows * 2; }
  int64_t pair_bytes() const { return 2 * (code_bytes() + scale_bytes() * (has_min ? 2 : 1)); }
  // Offsets in a panel of block b's codes, scales and minima.
  int64_t codes_at(int64_t b) const { return b / 2 * pair_bytes() + b % 2 * code_bytes(); }
  int64_t scales_at(int64_t b) const {
    return b / 2 * pair_bytes() + 2 * code_bytes() + b % 2 * scale_bytes();
  }
  int64_t mins_at(int64_t b) const { return scales_at(b) + 2 * scale_bytes(); }
};

// Rows are worked on in tiles of 8, then one tile of what is left.
struct RowTile {
  int64_t first = 0;
  int64_t rows = 0;
};
// The tile of row r among `rows` rows.
RowTile row_tile(int64_t rows, int64_t r);

// Activations in 8 bits, per block of 32 inputs: x ≈ scale * q. Stored tile by tile, so that a
// kernel reads one stream: a tile of R rows from row r lies at q + r * cols as [cols / 32][R][32],
// its scales at scale + r * cols / 32 as [cols / 32][R], its sums likewise with two halves.
struct QuantRows {
  int64_t rows = 0;
  int64_t cols = 0;  // multiple of 32
  int8_t* q = nullptr;
  float* scale = nullptr;
  int32_t* half_sums = nullptr;  // [cols / 32][R][2] sums of q over 16 inputs
  float* sums = nullptr;         // [cols / 32][R] scale * sum of q over 32 inputs
};

struct FloatRows {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
  const float* x = nullptr;
};

// What a cosine gate reads; `residual` may have no values (x is null).
struct GateInputs {
  FloatRows q;
  FloatRows k;
  FloatRows v;
  FloatRows residual;
};

// Where results go: y[r * stride + o] for output o of the segment, plus bias[o] and
// residual[r * residual_stride + o] where given.
struct MatmulOut {
  float* y = nullptr;
  int64_t stride = 0;
  const float* bias = nullptr;
  const float* residual = nullptr;
  int64_t residual_stride = 0;
};

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

// One sequence's keys and values of one layer and one KV head, by slot.
// Keys of a block are [head_dim][16], values [16][value_stride].
struct KvHeadView {
  const uint8_t* keys = nullptr;  // block 0 of the store
  const uint8_t* values = nullptr;
  int64_t block_bytes_k = 0;  // from a block to the next
  int64_t block_bytes_v = 0;
  const int32_t* blocks = nullptr;  // the sequence's block ids
  int64_t head_dim = 0;
  int64_t value_stride = 0;  // head_dim rounded up to 16
};

// A tile of rows of one sequence against one KV head: `rows` × `heads` query vectors.
struct AttentionTile {
  KvHeadView kv;
  int64_t rows = 0;
  int64_t heads = 0;         // query heads of this KV head
  const float* q = nullptr;  // row r, head h at q + r * q_stride + h * head_dim
  int64_t q_stride = 0;
  float* out = nullptr;  // likewise
  int64_t out_stride = 0;
  const int64_t* linear_len = nullptr;  // [rows]
  const int64_t* tail_begin = nullptr;  // [rows + 1], into tail
  const int64_t* tail = nullptr;        // slots
  int64_t window = 0;
  float scale = 1.0f;
  const float* alibi = nullptr;  // [heads] or null
};

struct KernelTable {
  std::string_view name;
  bool (*supported)();
  // Quantises rows [range) of x into `out`: x's columns become blocks first_block … of the same
  // rows there.
  void (*quantise)(const FloatRows& x, Range rows, int64_t first_block, const QuantRows& out);
  // Outputs of panels [range) for all rows.
  void (*matmul_quantised)(const PanelView& w, Range panels, const QuantRows& x,
                           const MatmulOut& out);
  void (*matmul_float)(const PanelView& w, Range panels, const FloatRows& x, const MatmulOut& out);
  // out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * w over `group` columns each.
  void (*rms_norm)(const FloatRows& x, Range rows, const float* w, int64_t group, float eps,
                   float* out, int64_t out_stride);
  void (*swiglu)(const FloatRows& gate, const FloatRows& up, Range rows, float* out,
                 int64_t out_stride);
  // out = silu(x) + residual where residual.x is given.
  void (*silu)(const FloatRows& x, const FloatRows& residual, Range rows, float* out,
               int64_t out_stride);
  // out = cos(q, k) * v + residual over `group` columns each.
  void (*cosine_gate)(const GateInputs& in, Range rows, int64_t group, float* out,
                      int64_t out_stride);
  // scratch: attention_scratch() floats.
  void (*attention_f16)(const AttentionTile& tile, float* scratch);
  void (*attention_f32)(const AttentionTile& tile, float* scratch);
  // n values as float16, nearest even; beyond its range the nearest finite value, for NaN too.
  void (*to_f16)(const float* x, int64_t n, uint16_t* out);
  // Reads n bytes (a multiple of 256) and returns something that depends on all of them.
  int32_t (*read_memory)(const uint8_t* p, int64_t n);
  // Multiply-accumulates on registers as fast as they go; returns how many, per round 12 * 64 in
  // 8 bits and 12 * 16 in float32. `sink` takes the results.
  int64_t (*peak_int8)(int64_t rounds, int32_t* sink);
  int64_t (*peak_float)(int64_t rounds, float* sink);
  // The largest of every kMaxChunk values, NaN aside (-inf where there is nothing else).
  void (*chunk_max)(const float* x, int64_t n, float* out);
  // log(sum(exp(x))) of n values.
  float (*log_sum_exp)(const float* x, int64_t n);
};

// Floats of scratch that a tile needs.
int64_t attention_scratch(const AttentionTile& tile);

const KernelTable& kernels_reference();
const KernelTable& kernels_avx2();
const KernelTable& kernels_avx512();

}  // namespace clover
