// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/packed_matrix.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tensor/quant.h"

namespace clover {
namespace {

PanelKind float_kind(DType type) {
  switch (type) {
    case DType::kF32:
      return PanelKind::kF32;
    case DType::kF16:
      return PanelKind::kF16;
    case DType::kBF16:
      return PanelKind::kBF16;
    default:
      fail(ErrorCode::kUnsupported, "weight matrices of type {} are not supported",
           dtype_name(type));
  }
}

int64_t float_bytes(PanelKind kind) { return kind == PanelKind::kF32 ? 4 : 2; }

PanelView layout(const WeightView& part) {
  PanelView view;
  view.rows = part.rows;
  view.cols = part.cols;
  if (!is_quantised(part.type)) {
    view.kind = float_kind(part.type);
    view.panel_bytes = part.cols * kPanelRows * float_bytes(view.kind);
    return view;
  }
  if (part.cols % block_elements(part.type) != 0 || part.cols % kBlockCols != 0)
    fail(ErrorCode::kUnsupported, "a {} matrix needs a multiple of {} columns, not {}",
         dtype_name(part.type), block_elements(part.type), part.cols);
  const GroupFormat format = group_format(part.type);
  view.kind = format.code_bits == 4 ? PanelKind::kNibbles : PanelKind::kBytes;
  view.group = format.group;
  view.has_min = format.has_min;
  view.offset = format.offset;
  view.panel_bytes = (part.cols / kBlockCols + 1) / 2 * view.pair_bytes();
  return view;
}

// One row of a quantised part, unpacked.
struct RowCodes {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<float> mins;
  RowCodes(int64_t cols, int group)
      : codes(static_cast<size_t>(cols)),
        scales(static_cast<size_t>(cols / group)),
        mins(static_cast<size_t>(cols / group)) {}
};

// Where the code of column c and a lane lies in a panel, and whether in the high nibble.
struct CodePlace {
  int64_t byte;
  bool high;
};
CodePlace code_place(const PanelView& view, int64_t c, int64_t lane) {
  const int64_t group = c % kBlockCols / 4;
  const int64_t at = view.codes_at(c / kBlockCols) + lane * 4 + c % 4;
  if (view.kind == PanelKind::kBytes) return {at + group * 64, false};
  return {at + group % 4 * 64, group >= 4};
}

// Index of column c's scale among the panel's scales of its block.
int64_t scale_lane(const PanelView& view, int64_t c, int64_t lane) {
  return c % kBlockCols / view.group * kPanelRows + lane;
}

uint16_t* halves(uint8_t* panel, int64_t offset) {
  return reinterpret_cast<uint16_t*>(panel + offset);
}
const uint16_t* halves(const uint8_t* panel, int64_t offset) {
  return reinterpret_cast<const uint16_t*>(panel + offset);
}

void put_codes(const PanelView& view, const uint8_t* codes, int64_t lane, uint8_t* panel) {
  for (int64_t c = 0; c < view.cols; ++c) {
    const CodePlace place = code_place(view, c, lane);
    uint8_t& target = panel[place.byte];
    target = static_cast<uint8_t>(target | (place.high ? codes[c] << 4 : codes[c]));
  }
}

// Scales and minima are kept as float16: exact for the formats that store them so; products of
// k-quants lose at most 2^-11 of themselves (below 2^-14, at most 2^-25), far below the
// quantisation step.
uint16_t to_half(float value, std::atomic<bool>& overflow) {
  if (!(std::abs(value) <= 65504.0f)) overflow.store(true, std::memory_order_relaxed);
  return f32_to_f16(value);
}

void put_scales(const PanelView& view, const RowCodes& row, int64_t lane, uint8_t* panel,
                std::atomic<bool>& overflow) {
  for (int64_t c = 0; c < view.cols; c += view.group) {
    const int64_t block = c / kBlockCols;
    const int64_t at = scale_lane(view, c, lane);
    const auto g = static_cast<size_t>(c / view.group);
    halves(panel, view.scales_at(block))[at] = to_half(row.scales[g], overflow);
    if (view.has_min) halves(panel, view.mins_at(block))[at] = to_half(row.mins[g], overflow);
  }
}

void pack_quantised(const WeightView& part, const PanelView& view, int64_t p, uint8_t* panel,
                    std::atomic<bool>& overflow) {
  RowCodes row(part.cols, view.group);
  const int64_t row_bytes = *byte_size(part.type, part.cols);
  const int64_t count = std::min<int64_t>(kPanelRows, part.rows - p * kPanelRows);
  for (int64_t lane = 0; lane < count; ++lane) {
    const std::byte* src = part.data + (p * kPanelRows + lane) * row_bytes;
    unpack_groups(part.type, src, part.cols, row.codes.data(), row.scales.data(), row.mins.data());
    put_codes(view, row.codes.data(), lane, panel);
    put_scales(view, row, lane, panel, overflow);
  }
}

// The 32 elements of one block and lane.
void unpack_block(const PanelView& view, const uint8_t* panel, int64_t block, int64_t lane,
                  float* out) {
  float scales[2] = {};
  float mins[2] = {};
  for (int64_t g = 0; g < kBlockCols / view.group; ++g) {
    scales[g] = f16_to_f32(halves(panel, view.scales_at(block))[g * kPanelRows + lane]);
    if (view.has_min)
      mins[g] = f16_to_f32(halves(panel, view.mins_at(block))[g * kPanelRows + lane]);
  }
  const uint8_t* codes = panel + view.codes_at(block) + lane * 4;
  const bool nibbles = view.kind == PanelKind::kNibbles;
  for (int64_t four = 0; four < kBlockCols / 4; ++four) {  // as code_place() says
    const uint8_t* bytes = codes + (nibbles ? four % 4 : four) * 64;
    const int64_t g = four * 4 / view.group;
    for (int64_t i = 0; i < 4; ++i) {
      const int code = !nibbles ? bytes[i] : four >= 4 ? bytes[i] >> 4 : bytes[i] & 15;
      float x = scales[g] * static_cast<float>(code - view.offset);
      if (view.has_min) x += mins[g];
      out[four * 4 + i] = x;
    }
  }
}

template <typename T>
void pack_floats(const WeightView& part, int64_t p, uint8_t* panel) {
  const auto* src = reinterpret_cast<const uint8_t*>(part.data);
  auto* dst = reinterpret_cast<T*>(panel);
  const int64_t count = std::min<int64_t>(kPanelRows, part.rows - p * kPanelRows);
  for (int64_t lane = 0; lane < count; ++lane) {
    const uint8_t* row = src + (p * kPanelRows + lane) * part.cols * sizeof(T);
    for (int64_t c = 0; c < part.cols; ++c)
      std::memcpy(dst + c * kPanelRows + lane, row + c * sizeof(T), sizeof(T));
  }
}

}  // namespace

std::shared_ptr<const PackedMatrix> PackedMatrix::pack(std::span<const WeightView> parts,
                                                       ThreadPool& pool, WeightMemory& memory) {
  if (parts.empty()) fail(ErrorCode::kInvalidArgument, "a matrix needs at least one part");
  auto matrix = std::make_shared<PackedMatrix>();
  matrix->cols_ = parts[0].cols;
  for (const WeightView& part : parts) {
    if (part.cols != matrix->cols_ || part.cols <= 0 || part.rows <= 0)
      fail(ErrorCode::kInvalidArgument, "cannot stack a {} x {} matrix on one of {} columns",
           part.rows, part.cols, matrix->cols_);
    Segment segment;
    segment.view = layout(part);
    segment.first_row = matrix->rows_;
    segment.bytes = segment.view.panels() * segment.view.panel_bytes;
    segment.memory = memory.allocate(segment.bytes);
    uint8_t* data = segment.memory.get();
    segment.view.data = data;
    const PanelView& view = segment.view;
    std::atomic<bool> overflow{false};
    pool.parallel_for(view.panels(), [&](int64_t p, int) {
      uint8_t* panel = data + p * view.panel_bytes;
      if (view.quantised()) {
        pack_quantised(part, view, p, panel, overflow);
      } else if (view.kind == PanelKind::kF32) {
        pack_floats<uint32_t>(part, p, panel);
      } else {
        pack_floats<uint16_t>(part, p, panel);
      }
    });
    if (overflow)
      fail(ErrorCode::kUnsupported, "a {} weight has a scale that is NaN or too large for float16",
           dtype_name(part.type));
    const std::string name(dtype_name(part.type));
    if (matrix->type_name_.empty()) matrix->type_name_ = name;
    if (matrix->type_name_.find(name) == std::string::npos) matrix->type_name_ += "+" + name;
    matrix->rows_ += part.rows;
    matrix->segments_.push_back(std::move(segment));
  }
  return matrix;
}

int64_t PackedMatrix::bytes() const {
  int64_t sum = 0;
  for (const Segment& segment : segments_) sum += segment.bytes;
  return sum;
}

bool PackedMatrix::wants_quantised() const {
  return std::any_of(segments_.begin(), segments_.end(),
                     [](const Segment& s) { return s.view.quantised(); });
}

bool PackedMatrix::wants_floats() const {
  return std::any_of(segments_.begin(), segments_.end(),
                     [](const Segment& s) { return !s.view.quantised(); });
}

void PackedMatrix::unpack_row(int64_t row, float* out) const {
  const Segment* segment = segments_.data();
  while (row >= segment->first_row + segment->view.rows) ++segment;
  const PanelView& view = segment->view;
  const int64_t local = row - segment->first_row;
  const int64_t lane = local % kPanelRows;
  const uint8_t* panel = view.data + local / kPanelRows * view.panel_bytes;
  if (view.quantised()) {
    for (int64_t block = 0; block < view.cols / kBlockCols; ++block)
      unpack_block(view, panel, block, lane, out + block * kBlockCols);
    return;
  }
  for (int64_t c = 0; c < view.cols; ++c) {
    const int64_t at = c * kPanelRows + lane;
    if (view.kind == PanelKind::kF32) {
      std::memcpy(out + c, panel + at * 4, 4);
      continue;
    }
    uint16_t bits;
    std::memcpy(&bits, panel + at * 2, 2);
    out[c] = view.kind == PanelKind::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
  }
}

}  // namespace clover
