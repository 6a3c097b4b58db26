// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/packed_matrix.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "backend/cpu/test_util.h"
#include "base/error.h"

namespace clover {
namespace {

using ::testing::HasSubstr;

class PackedMatrixTest : public ::testing::Test {
 protected:
  std::shared_ptr<const PackedMatrix> pack(std::vector<WeightView> parts) {
    return PackedMatrix::pack(parts, pool_, memory_);
  }
  // The message of the Error that packing must throw, with its code in front.
  std::string error_of(const std::vector<WeightView>& parts) {
    try {
      pack(parts);
    } catch (const Error& e) {
      return fmt::format("{} {}", static_cast<int>(e.code()), e.what());
    }
    return "no error";
  }
  ThreadPool pool_{2};
  WeightMemory memory_;
};

std::string unsupported(std::string_view text) {
  return fmt::format("{} {}", static_cast<int>(ErrorCode::kUnsupported), text);
}

bool has_products_of_scales(DType type) { return block_elements(type) == 256; }

// Largest |code - offset| of a format.
double largest_code(DType type) {
  const GroupFormat format = group_format(type);
  const double codes = format.code_bits == 4 ? 16 : 256;
  return std::max<double>(format.offset, codes - format.offset);
}

TEST_F(PackedMatrixTest, UnpackedRowsEqualTheDequantisedFile) {
  for (const DType type : kWeightTypes) {
    for (const int64_t rows : {1, 15, 16, 17, 40}) {
      for (const int64_t blocks : {1, 3}) {
        const int64_t cols =
            is_quantised(type) ? blocks * block_elements(type) : blocks * 20 + rows;
        SCOPED_TRACE(fmt::format("{} {} x {}", dtype_name(type), rows, cols));
        const RandomWeight weight(type, rows, cols, static_cast<uint64_t>(rows * 7 + cols));
        const auto matrix = pack({weight.view});
        EXPECT_EQ(matrix->rows(), rows);
        EXPECT_EQ(matrix->cols(), cols);
        EXPECT_EQ(matrix->wants_quantised(), is_quantised(type));
        EXPECT_GE(matrix->bytes(), static_cast<int64_t>(weight.bytes.size()) / 2);
        const std::vector<float> want = weight.floats();
        std::vector<float> got(want.size());
        for (int64_t r = 0; r < rows; ++r) matrix->unpack_row(r, got.data() + r * cols);
        if (!has_products_of_scales(type)) {
          ASSERT_TRUE(same_bits(got, want));
          continue;
        }
        // A k-quant's scale and minimum are products, rounded to float16: 2^-11 of themselves, or
        // 2^-25 where they are subnormal.
        const double codes = largest_code(type);
        for (size_t i = 0; i < want.size(); ++i) {
          const double size = std::abs(want[i]) + (group_format(type).has_min ? 4.0 : 0.0);
          ASSERT_NEAR(got[i], want[i], size * 0x1p-11 + codes * 0x1p-25) << i;
        }
      }
    }
  }
}

TEST_F(PackedMatrixTest, BlocksOfRandomBytesUnpackOrAreRefused) {
  Random random(99);
  int packed = 0;
  for (const DType type : kWeightTypes) {
    for (int round = 0; round < 20; ++round) {
      const int64_t cols = block_elements(type) == 1 ? 20 : block_elements(type);
      std::vector<std::byte> bytes(static_cast<size_t>(*byte_size(type, 2 * cols)));
      for (std::byte& b : bytes) b = static_cast<std::byte>(random.bits() & 255);
      std::shared_ptr<const PackedMatrix> matrix;
      try {
        matrix = pack({{type, 2, cols, bytes.data()}});
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::kUnsupported);
        continue;
      }
      ++packed;
      std::vector<float> got(static_cast<size_t>(2 * cols));
      for (int64_t r = 0; r < 2; ++r) matrix->unpack_row(r, got.data() + r * cols);
      if (!is_quantised(type)) continue;
      for (const float x : got) EXPECT_TRUE(std::isfinite(x)) << dtype_name(type);
    }
  }
  EXPECT_GT(packed, 100);
}

TEST_F(PackedMatrixTest, StackedPartsOfDifferentTypesKeepTheirRows) {
  std::vector<RandomWeight> weights;
  int64_t rows = 3;
  for (const DType type : kWeightTypes) {
    weights.emplace_back(type, rows, 512, static_cast<uint64_t>(rows));
    rows = (rows * 5 + 1) % 37 + 1;
  }
  std::vector<WeightView> parts;
  for (const RandomWeight& w : weights) parts.push_back(w.view);
  const auto matrix = pack(parts);
  int64_t first = 0;
  std::vector<float> got(512);
  for (const RandomWeight& w : weights) {
    const auto alone = pack({w.view});
    std::vector<float> want(512);
    for (int64_t r = 0; r < w.view.rows; ++r) {
      matrix->unpack_row(first + r, got.data());
      alone->unpack_row(r, want.data());
      ASSERT_TRUE(same_bits(got, want)) << dtype_name(w.view.type) << " row " << r;
    }
    first += w.view.rows;
  }
  EXPECT_EQ(matrix->rows(), first);
  EXPECT_EQ(matrix->macs(), first * 512);
}

TEST_F(PackedMatrixTest, RefusesShapesThatDoNotFit) {
  const RandomWeight a(DType::kQ4_0, 2, 64, 1);
  const RandomWeight b(DType::kQ4_0, 2, 96, 2);
  const RandomWeight f(DType::kF32, 2, 64, 3);
  EXPECT_THAT(error_of({}), HasSubstr("at least one part"));
  EXPECT_THAT(error_of({a.view, b.view}), HasSubstr("cannot stack a 2 x 96 matrix on one of 64"));
  EXPECT_THAT(error_of({a.view, f.view}), "no error");
  for (const WeightView bad :
       {WeightView{DType::kF32, 0, 64, f.view.data}, WeightView{DType::kF32, 2, 0, f.view.data},
        WeightView{DType::kF32, -1, 64, f.view.data}, WeightView{DType::kF32, 2, -64, f.view.data}})
    EXPECT_THAT(error_of({bad}), HasSubstr("cannot stack"));
  for (const DType type : kWeightTypes) {
    if (!is_quantised(type)) continue;
    const int64_t block = block_elements(type);
    for (const int64_t cols : {block - 1, block + 1, block / 2, block + 16})
      EXPECT_THAT(error_of({{type, 2, cols, a.view.data}}),
                  HasSubstr(unsupported(fmt::format("a {} matrix needs a multiple of {} columns, "
                                                    "not {}",
                                                    dtype_name(type), block, cols))));
  }
  for (const DType type :
       {DType::kF64, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8, DType::kBool})
    EXPECT_THAT(error_of({{type, 2, 32, a.view.data}}),
                HasSubstr(unsupported(fmt::format("weight matrices of type {} are not supported",
                                                  dtype_name(type)))));
}

TEST_F(PackedMatrixTest, RefusesScalesThatAreNanOrTooLarge) {
  for (const DType type : kWeightTypes) {
    if (!is_quantised(type)) continue;
    // NaN, infinity, and for products of scales a factor that overflows.
    std::vector<uint16_t> bad = {0x7e00, 0x7c00, 0xfc00};
    if (has_products_of_scales(type)) bad.push_back(0x7bff);
    for (const uint16_t half : bad) {
      for (const int at : scale_offsets(type)) {
        const int64_t cols = block_elements(type);
        RandomWeight weight(type, 19, cols, 5);
        // In the last row; its factors must not be zero.
        std::byte* block = weight.bytes.data() + 18 * block_bytes(type);
        if (has_products_of_scales(type))
          std::fill_n(block, block_bytes(type), static_cast<std::byte>(0x77));
        for (const int scale : scale_offsets(type)) std::memset(block + scale, 0, 2);
        std::memcpy(block + at, &half, 2);
        EXPECT_THAT(
            error_of({weight.view}),
            HasSubstr(unsupported(fmt::format("a {} weight has a scale", dtype_name(type)))))
            << half << " at " << at;
      }
    }
  }
}

TEST_F(PackedMatrixTest, FloatWeightsKeepNanAndInfinity) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {1.0f, inf, -inf, std::nanf(""), -0.0f, 1e-45f};
  const auto matrix = pack({{DType::kF32, 2, 3, reinterpret_cast<const std::byte*>(x.data())}});
  std::vector<float> got(6);
  matrix->unpack_row(0, got.data());
  matrix->unpack_row(1, got.data() + 3);
  EXPECT_TRUE(same_bits(got, x));
}

TEST_F(PackedMatrixTest, WeightsNeedNoAlignmentInTheFile) {
  for (const DType type : kWeightTypes) {
    const RandomWeight weight(type, 3, 256, 8);
    std::vector<std::byte> shifted(weight.bytes.size() + 1);
    std::memcpy(shifted.data() + 1, weight.bytes.data(), weight.bytes.size());
    const auto a = pack({weight.view});
    const auto b = pack({{type, 3, 256, shifted.data() + 1}});
    std::vector<float> rows[2] = {std::vector<float>(256), std::vector<float>(256)};
    for (int64_t r = 0; r < 3; ++r) {
      a->unpack_row(r, rows[0].data());
      b->unpack_row(r, rows[1].data());
      EXPECT_TRUE(same_bits(rows[0], rows[1])) << dtype_name(type);
    }
  }
}

}  // namespace
}  // namespace clover
