// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/test_util.h"

namespace clover {
namespace {

constexpr double kEps = 0x1p-24;  // relative error of one rounding

// A random matrix in panels, with its weights in double beside it.
struct Panels {
  PanelView view;
  std::vector<uint8_t> memory;
  std::vector<double> weights;  // [rows][cols]
  std::vector<double> bounds;   // |scale * (code - offset)| + |minimum|: what roundings scale with

  Panels(PanelKind kind, int group, bool has_min, int64_t rows, int64_t cols) {
    view.kind = kind;
    view.group = group;
    view.has_min = has_min;
    view.rows = rows;
    view.cols = cols;
    weights.resize(static_cast<size_t>(rows * cols));
    bounds.resize(weights.size());
  }
  // The panels start 4 bytes past an aligned address.
  void allocate(int64_t panel_bytes) {
    view.panel_bytes = panel_bytes;
    memory.assign(static_cast<size_t>(view.panels() * panel_bytes) + 68, 0);
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    view.data = memory.data() + (64 - address % 64) % 64 + 4;
  }
  uint8_t* panel(int64_t p) {
    return memory.data() + (view.data - memory.data()) + p * view.panel_bytes;
  }
  template <typename T>
  static void put(uint8_t* at, T value) {
    std::memcpy(at, &value, sizeof value);
  }

  static Panels quantised(PanelKind kind, int group, bool has_min, int64_t rows, int64_t cols,
                          uint64_t seed) {
    Panels m(kind, group, has_min, rows, cols);
    const bool nibbles = kind == PanelKind::kNibbles;
    m.view.offset = has_min ? 0 : nibbles ? 8 : 128;
    m.allocate((cols / 32 + 1) / 2 * m.view.pair_bytes());
    Random random(seed);
    for (int64_t r = 0; r < rows; ++r) {
      uint8_t* panel = m.panel(r / 16);
      const int64_t lane = r % 16;
      float scale = 0;
      float minimum = 0;
      for (int64_t c = 0; c < cols; ++c) {
        const int64_t block = c / 32;
        const int64_t in = c % 32;
        if (c % group == 0) {
          const int64_t at = in / group * 16 + lane;
          const uint16_t s = f32_to_f16(random.uniform(-0.1f, 0.1f));
          put(panel + m.view.scales_at(block) + 2 * at, s);
          scale = f16_to_f32(s);
          const uint16_t low = f32_to_f16(random.uniform(-1, 1));
          if (has_min) put(panel + m.view.mins_at(block) + 2 * at, low);
          minimum = has_min ? f16_to_f32(low) : 0.0f;
        }
        const auto code = static_cast<uint8_t>(random.bits() & (nibbles ? 15 : 255));
        // As kernels.h describes the layout.
        const int64_t quad = in / 4;
        uint8_t* byte = panel + m.view.codes_at(block) + lane * 4 + in % 4;
        if (!nibbles) {
          byte[quad * 64] = code;
        } else if (quad < 4) {
          byte[quad * 64] = static_cast<uint8_t>(byte[quad * 64] | code);
        } else {
          byte[(quad - 4) * 64] = static_cast<uint8_t>(byte[(quad - 4) * 64] | code << 4);
        }
        const double part = static_cast<double>(scale) * (code - m.view.offset);
        m.weights[static_cast<size_t>(r * cols + c)] = part + minimum;
        // Without a minimum the offset is subtracted in exact integers.
        m.bounds[static_cast<size_t>(r * cols + c)] = std::abs(part) + std::abs(minimum);
      }
    }
    return m;
  }

  static Panels floats(PanelKind kind, int64_t rows, int64_t cols, uint64_t seed) {
    Panels m(kind, 32, false, rows, cols);
    const int64_t bytes = kind == PanelKind::kF32 ? 4 : 2;
    m.allocate(cols * 16 * bytes);
    Random random(seed);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        float value = random.uniform(-1, 1);
        uint8_t* at = m.panel(r / 16) + (c * 16 + r % 16) * bytes;
        if (kind == PanelKind::kF32) {
          put(at, value);
        } else if (kind == PanelKind::kF16) {
          put(at, f32_to_f16(value));
          value = f16_to_f32(f32_to_f16(value));
        } else {
          put(at, f32_to_bf16(value));
          value = bf16_to_f32(f32_to_bf16(value));
        }
        m.weights[static_cast<size_t>(r * cols + c)] = value;
        m.bounds[static_cast<size_t>(r * cols + c)] = std::abs(value);
      }
    }
    return m;
  }
};

// Activations in both forms; `exact` are the values that a kernel multiplies by.
struct Activations {
  std::vector<float> x;
  FloatRows floats;
  std::vector<int8_t> q;
  std::vector<float> scale;
  std::vector<int32_t> half_sums;
  std::vector<float> sums;
  QuantRows quantised;
  std::vector<double> exact;

  Activations(int64_t n, int64_t cols, bool quantise, uint64_t seed) {
    const int64_t stride = cols + 9;
    x = Random(seed).floats(n * stride, 4.0f);
    floats = {n, cols, stride, x.data()};
    exact.resize(static_cast<size_t>(n * cols));
    for (int64_t i = 0; i < n * cols; ++i)
      exact[static_cast<size_t>(i)] = x[static_cast<size_t>(i / cols * stride + i % cols)];
    if (!quantise) return;
    q.resize(static_cast<size_t>(n * cols));
    scale.resize(q.size() / 32);
    half_sums.resize(q.size() / 16);
    sums.resize(q.size() / 32);
    quantised = {n, cols, q.data(), scale.data(), half_sums.data(), sums.data()};
    kernels_reference().quantise(floats, {0, n}, 0, quantised);
    for (int64_t r = 0; r < n; ++r) {
      const RowTile tile = row_tile(n, r);
      for (int64_t c = 0; c < cols; ++c) {
        const auto at =
            static_cast<size_t>(tile.first * (cols / 32) + c / 32 * tile.rows + r - tile.first);
        exact[static_cast<size_t>(r * cols + c)] =
            static_cast<double>(scale[at]) * q[at * 32 + static_cast<size_t>(c % 32)];
      }
    }
  }
};

// Runs every set over all panels in two parts and checks the values, the bits between the sets and
// that nothing else was written.
void check(const Panels& w, const Activations& x, bool quantised, bool extras) {
  const int64_t n = x.floats.rows;
  const int64_t rows = w.view.rows;
  const int64_t stride = rows + 3;
  Random random(77);
  const std::vector<float> bias = random.floats(rows);
  const std::vector<float> residual = random.floats(n * (rows + 5));
  const int64_t split = w.view.panels() / 2;
  std::vector<float> first;
  for (const KernelTable* table : tables()) {
    Misaligned y(n * stride, 3);
    MatmulOut out{y.data(), stride, extras ? bias.data() : nullptr,
                  extras ? residual.data() : nullptr, rows + 5};
    for (const Range part : {Range{split, w.view.panels()}, Range{0, split}}) {
      if (quantised) {
        table->matmul_quantised(w.view, part, x.quantised, out);
      } else {
        table->matmul_float(w.view, part, x.floats, out);
      }
    }
    EXPECT_TRUE(y.guards_intact());
    if (first.empty()) first.assign(y.values().begin(), y.values().end());
    ASSERT_TRUE(same_bits(first, y.values())) << table->name;
  }
  const int64_t cols = w.view.cols;
  // One rounding per block and part of a quantised sum (at most 4), one per input of a float sum,
  // and a few for the scales' product, bias and residual.
  const double roundings = static_cast<double>(quantised ? cols / 8 : cols) + 5;
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t o = 0; o < stride; ++o) {
      const float got = first[static_cast<size_t>(r * stride + o)];
      if (o >= rows) {
        ASSERT_EQ(got, Misaligned::kGuard);
        continue;
      }
      const float add_bias = extras ? bias[static_cast<size_t>(o)] : 0;
      const float add_residual = extras ? residual[static_cast<size_t>(r * (rows + 5) + o)] : 0;
      double want = static_cast<double>(add_bias) + add_residual;
      double size = std::abs(add_bias) + std::abs(add_residual);
      const double* xs = x.exact.data() + r * cols;
      for (int64_t c = 0; c < cols; ++c) {
        want += xs[c] * w.weights[static_cast<size_t>(o * cols + c)];
        size += std::abs(xs[c]) * w.bounds[static_cast<size_t>(o * cols + c)];
      }
      ASSERT_NEAR(got, want, roundings * kEps * size) << r << " " << o;
    }
  }
}

struct Shape {
  int64_t rows;  // outputs
  int64_t cols;
  int64_t n;
};

constexpr Shape kShapes[] = {{1, 32, 1},   {16, 64, 2},  {17, 96, 3},  {40, 160, 8}, {15, 96, 13},
                             {5, 1504, 1}, {33, 320, 7}, {32, 32, 21}, {2, 96, 67}};

class MatmulQuantised : public ::testing::TestWithParam<int> {};

TEST_P(MatmulQuantised, MatchesDoubleAndEverySetGivesTheSameBits) {
  const bool bytes = GetParam() & 1;
  const int group = GetParam() & 2 ? 32 : 16;
  const bool has_min = GetParam() & 4;
  for (const auto& [rows, cols, n] : kShapes) {
    SCOPED_TRACE(fmt::format("{} x {}, {} rows", rows, cols, n));
    const Panels w = Panels::quantised(bytes ? PanelKind::kBytes : PanelKind::kNibbles, group,
                                       has_min, rows, cols, static_cast<uint64_t>(rows + cols));
    const Activations x(n, cols, true, static_cast<uint64_t>(n));
    check(w, x, true, false);
    check(w, x, true, true);
  }
}
INSTANTIATE_TEST_SUITE_P(Layouts, MatmulQuantised, ::testing::Range(0, 8));

// The largest codes and activations of one sign: pairs of products must not saturate.
TEST(MatmulExtremes, LargestCodesAndActivations) {
  for (int layout = 0; layout < 8; ++layout) {
    Panels w = Panels::quantised(layout & 1 ? PanelKind::kBytes : PanelKind::kNibbles,
                                 layout & 2 ? 32 : 16, layout & 4, 16, 96, 1);
    for (int64_t b = 0; b < 3; ++b)
      std::memset(w.panel(0) + w.view.codes_at(b), 255, static_cast<size_t>(w.view.code_bytes()));
    for (int64_t i = 0; i < 16 * 96; ++i) {
      const int64_t c = i % 96;
      const int64_t at = c % 32 / w.view.group * 16 + i / 96;
      uint16_t scale = 0;
      uint16_t minimum = 0;
      std::memcpy(&scale, w.panel(0) + w.view.scales_at(c / 32) + 2 * at, 2);
      if (w.view.has_min) std::memcpy(&minimum, w.panel(0) + w.view.mins_at(c / 32) + 2 * at, 2);
      const double part =
          static_cast<double>(f16_to_f32(scale)) * ((layout & 1 ? 255 : 15) - w.view.offset);
      w.weights[static_cast<size_t>(i)] = part + f16_to_f32(minimum);
      w.bounds[static_cast<size_t>(i)] = std::abs(part) + std::abs(f16_to_f32(minimum));
    }
    for (const float sign : {1.0f, -1.0f}) {
      Activations x(3, 96, true, 5);
      std::fill(x.x.begin(), x.x.end(), 127.0f * sign);
      kernels_reference().quantise(x.floats, {0, 3}, 0, x.quantised);
      std::fill(x.exact.begin(), x.exact.end(), 127.0 * sign);
      check(w, x, true, false);
    }
  }
}

TEST(MatmulFloat, MatchesDoubleAndEverySetGivesTheSameBits) {
  constexpr Shape kFloatShapes[] = {{1, 1, 1},   {16, 7, 2},    {40, 33, 3},  {80, 100, 8},
                                    {97, 20, 5}, {17, 1500, 2}, {160, 32, 1}, {3, 64, 21}};
  for (const PanelKind kind : {PanelKind::kF32, PanelKind::kF16, PanelKind::kBF16}) {
    for (const auto& [rows, cols, n] : kFloatShapes) {
      SCOPED_TRACE(fmt::format("{} x {}, {} rows", rows, cols, n));
      const Panels w = Panels::floats(kind, rows, cols, static_cast<uint64_t>(rows + cols));
      const Activations x(n, cols, false, static_cast<uint64_t>(n));
      check(w, x, false, false);
      check(w, x, false, true);
    }
  }
}

TEST(RowTile, CoversEveryRowOnceInTilesOfEightAndARest) {
  for (int64_t rows = 1; rows <= 70; ++rows) {
    int64_t next = 0;
    while (next < rows) {
      const RowTile tile = row_tile(rows, next);
      ASSERT_EQ(tile.first, next);
      ASSERT_EQ(tile.rows, std::min<int64_t>(8, rows - next));
      for (int64_t r = next; r < next + tile.rows; ++r) {
        ASSERT_EQ(row_tile(rows, r).first, tile.first);
        ASSERT_EQ(row_tile(rows, r).rows, tile.rows);
      }
      next += tile.rows;
    }
    ASSERT_EQ(next, rows);
  }
}

}  // namespace
}  // namespace clover
