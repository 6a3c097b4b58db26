// SPDX-License-Identifier: Apache-2.0
// Fixtures come from tools/make_quant_fixtures.py (the `gguf` Python package).
#include "tensor/quant.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "tensor/quantise.h"

namespace clover {
namespace {

std::vector<std::byte> read_fixture(const std::string& name) {
  std::ifstream in(std::string(CLOVER_SOURCE_DIR) + "/tests/data/tensor/" + name, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

struct Blocks {
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

// `blocks_first`: the fixture holds blocks, then floats; otherwise floats, then blocks.
Blocks read_blocks(const std::string& name, DType type, bool blocks_first) {
  const std::vector<std::byte> all = read_fixture(name);
  const size_t per_block = static_cast<size_t>(block_bytes(type) + 4 * block_elements(type));
  const size_t count = all.size() / per_block;
  EXPECT_GT(count, 0u) << name;
  EXPECT_EQ(all.size() % per_block, 0u) << name;
  const size_t packed = count * static_cast<size_t>(block_bytes(type));
  Blocks blocks;
  blocks.values.resize(count * static_cast<size_t>(block_elements(type)));
  const size_t floats = blocks.values.size() * sizeof(float);
  const std::byte* start = all.data() + (blocks_first ? 0 : floats);
  blocks.bytes.assign(start, start + packed);
  std::memcpy(blocks.values.data(), all.data() + (blocks_first ? packed : 0), floats);
  return blocks;
}

class QuantFormat : public testing::TestWithParam<DType> {
 protected:
  std::string name() const { return std::string(dtype_name(GetParam())); }
};

class QuantGroups : public QuantFormat {};

TEST_P(QuantFormat, DequantisesToTheBitsOfTheReference) {
  const DType type = GetParam();
  const Blocks fixture = read_blocks("dequantise_" + name() + ".bin", type, true);
  std::vector<float> out(fixture.values.size());
  dequantise(type, fixture.bytes.data(), static_cast<int64_t>(out.size()), out.data());
  int finite = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    if (std::isnan(fixture.values[i])) {
      EXPECT_TRUE(std::isnan(out[i])) << i;
      continue;
    }
    finite += std::isfinite(out[i]) && out[i] != 0;
    ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(fixture.values[i])) << i;
  }
  EXPECT_GT(finite, static_cast<int>(out.size() / 3));
}

TEST_P(QuantFormat, RefusesPartsOfBlocks) {
  float out[256];
  const std::byte block[256] = {};
  EXPECT_THROW(dequantise(GetParam(), block, -1, out), Error);
  if (is_quantised(GetParam())) {
    EXPECT_THROW(dequantise(GetParam(), block, block_elements(GetParam()) - 1, out), Error);
  }
  EXPECT_NO_THROW(dequantise(GetParam(), block, 0, out));
}

TEST_P(QuantGroups, CodesScalesAndMinimaGiveTheElements) {
  const DType type = GetParam();
  const Blocks fixture = read_blocks("dequantise_" + name() + ".bin", type, true);
  const GroupFormat format = group_format(type);
  const size_t n = fixture.values.size();
  const size_t groups = n / static_cast<size_t>(format.group);
  std::vector<uint8_t> codes(n);
  std::vector<float> scales(groups), mins(groups, 7.0f);
  unpack_groups(type, fixture.bytes.data(), static_cast<int64_t>(n), codes.data(), scales.data(),
                mins.data());
  for (size_t i = 0; i < n; ++i) {
    if (!std::isfinite(fixture.values[i])) continue;
    const size_t g = i / static_cast<size_t>(format.group);
    ASSERT_LT(codes[i], 1 << format.code_bits) << i;
    const double product = static_cast<double>(scales[g]) * (codes[i] - format.offset);
    const double bound = 1e-6 * (std::fabs(product) + std::fabs(mins[g]));
    ASSERT_NEAR(product + mins[g], fixture.values[i], bound) << i;
    if (!format.has_min) {
      ASSERT_EQ(mins[g], 0.0f);
    }
  }
}

TEST_P(QuantGroups, MinimaMayBeNullOnlyWithoutMinima) {
  const DType type = GetParam();
  const Blocks fixture = read_blocks("dequantise_" + name() + ".bin", type, true);
  std::vector<uint8_t> codes(256);
  std::vector<float> scales(16);
  const auto unpack = [&] {
    unpack_groups(type, fixture.bytes.data(), block_elements(type), codes.data(), scales.data(),
                  nullptr);
  };
  if (group_format(type).has_min) {
    EXPECT_THROW(unpack(), Error);
  } else {
    EXPECT_NO_THROW(unpack());
  }
}

constexpr auto kQuantised = std::to_array({DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                                           DType::kQ8_0, DType::kQ2_K, DType::kQ3_K, DType::kQ4_K,
                                           DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL});
std::string param_name(const testing::TestParamInfo<DType>& param) {
  return std::string(dtype_name(param.param));
}
INSTANTIATE_TEST_SUITE_P(All, QuantGroups, testing::ValuesIn(kQuantised), param_name);
INSTANTIATE_TEST_SUITE_P(Quantised, QuantFormat, testing::ValuesIn(kQuantised), param_name);
INSTANTIATE_TEST_SUITE_P(Plain, QuantFormat, testing::Values(DType::kF16, DType::kBF16),
                         param_name);

TEST(Quant, F32IsCopiedFromAnyAddress) {
  const float values[2] = {1.5f, -0.0f};
  std::byte bytes[9];
  std::memcpy(bytes + 1, values, sizeof values);
  float out[2];
  dequantise(DType::kF32, bytes + 1, 2, out);
  EXPECT_EQ(std::memcmp(out, values, sizeof values), 0);
}

TEST(Quant, PlainIntegersAreRefused) {
  float out[1];
  const std::byte bytes[8] = {};
  for (const DType type : {DType::kI8, DType::kI64, DType::kBool, DType::kF64}) {
    try {
      dequantise(type, bytes, 1, out);
      FAIL() << dtype_name(type);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUnsupported);
      EXPECT_NE(std::string(e.what()).find(dtype_name(type)), std::string::npos);
    }
  }
  EXPECT_THROW(group_format(DType::kF32), Error);
}

class Quantise : public testing::TestWithParam<DType> {};

TEST_P(Quantise, WritesTheBytesOfTheReference) {
  const DType type = GetParam();
  const auto name = "quantise_" + std::string(dtype_name(type)) + ".bin";
  const Blocks fixture = read_blocks(name, type, false);
  const auto out =
      quantise(type, fixture.values.data(), static_cast<int64_t>(fixture.values.size()));
  ASSERT_EQ(out.size(), fixture.bytes.size());
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], fixture.bytes[i]) << "byte " << i;
}

INSTANTIATE_TEST_SUITE_P(All, Quantise,
                         testing::Values(DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kF16,
                                         DType::kBF16),
                         param_name);

TEST(QuantiseErrors, NonFiniteAndOversizedValuesAreRefused) {
  for (const DType type : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
    std::vector<float> values(32, 1.0f);
    values[31] = NAN;
    EXPECT_THROW(quantise(type, values.data(), 32), Error) << dtype_name(type);
    values[31] = -INFINITY;
    EXPECT_THROW(quantise(type, values.data(), 32), Error) << dtype_name(type);
    values[31] = 3e38f;
    EXPECT_THROW(quantise(type, values.data(), 32), Error) << dtype_name(type);
    values[31] = -std::numeric_limits<float>::denorm_min();
    EXPECT_NO_THROW(quantise(type, values.data(), 32)) << dtype_name(type);
    EXPECT_THROW(quantise(type, values.data(), 31), Error) << dtype_name(type);
  }
  const float value = 1;
  EXPECT_THROW(quantise(DType::kQ6_K, &value, 0), Error);
  EXPECT_THROW(quantise(DType::kI32, &value, 1), Error);
}

TEST(QuantiseErrors, ValuesAllTinyBecomeZero) {
  std::vector<float> values(32, std::numeric_limits<float>::denorm_min());
  values[0] = 0;
  for (const DType type : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
    const auto block = quantise(type, values.data(), 32);
    std::vector<float> out(32, 1.0f);
    dequantise(type, block.data(), 32, out.data());
    for (const float value : out) EXPECT_EQ(value, 0.0f) << dtype_name(type);
  }
}

}  // namespace
}  // namespace clover
