// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.h"

#include <gtest/gtest.h>

#include "checkpoint/test_util.h"

namespace clover {
namespace {

std::string file_bytes(const std::string& header, size_t data_bytes = 0) {
  return raw(uint64_t{header.size()}) + header + std::string(data_bytes, 'd');
}

std::string tensor(const std::string& name, const std::string& type, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

std::string one(const std::string& type, const std::string& shape, const std::string& offsets,
                size_t data_bytes) {
  return file_bytes("{" + tensor("w", type, shape, offsets) + "}", data_bytes);
}

std::string two(const std::string& first, const std::string& second, size_t data_bytes) {
  return file_bytes(
      "{" + tensor("one", "U8", "[4]", first) + "," + tensor("two", "U8", "[4]", second) + "}",
      data_bytes);
}

SafetensorsFile read(const std::string& bytes) {
  return read_safetensors(as_bytes(bytes), "test.safetensors");
}

TEST(Safetensors, ReadsAHandMadeFile) {
  const std::string bytes =
      file_bytes("{\"__metadata__\":{\"format\":\"pt\"}," + tensor("b", "BF16", "[2,3]", "[4,16]") +
                     "," + tensor("a", "F32", "[]", "[0,4]") + "," +
                     tensor("none", "F32", "[0,9]", "[16,16]") + "}  ",
                 16);
  const SafetensorsFile file = read(bytes);
  EXPECT_EQ(file.metadata, (decltype(file.metadata){{"format", "pt"}}));
  ASSERT_EQ(file.tensors.size(), 3u);
  EXPECT_EQ(file.tensors[0].name, "a");  // by position
  EXPECT_EQ(file.tensors[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file.tensors[1].type, DType::kBF16);
  EXPECT_EQ(file.tensors[1].data.data() + 12, as_bytes(bytes).data() + bytes.size());
  EXPECT_TRUE(file.tensors[2].data.empty());
  EXPECT_TRUE(read(file_bytes("{}")).tensors.empty());
}

struct Bad {
  const char* name;
  std::string bytes;
  const char* message;
  ErrorCode code = ErrorCode::kCorrupt;
};

std::vector<Bad> bad_headers() {
  return {
      {"Empty", "", "header's length"},
      {"SevenBytes", "1234567", "header's length"},
      {"Length0", raw(uint64_t{0}) + "{}", "have 0 bytes"},
      {"Length2To63", raw(uint64_t{1} << 63) + "{}", "9223372036854775808"},
      {"LengthMax", raw(~uint64_t{0}) + "{}", "18446744073709551615"},
      {"LengthPastEnd", raw(uint64_t{3}) + "{}", "have 3 bytes"},
      {"LengthAboveLimit", raw(uint64_t{17} << 20) + std::string(17 << 20, ' '), "allowed"},
      {"NotJson", file_bytes("hello!"), "not valid JSON"},
      {"CutJson", file_bytes("{\"w\":{\"dtype\":"), "not valid JSON"},
      {"InvalidUtf8", file_bytes("{\"\xff\":1}"), "not valid JSON"},
      {"Array", file_bytes("[1,2]"), "not a JSON object"},
      {"Deep", file_bytes(std::string(100000, '[')), "deep"},
      {"MetadataList", file_bytes("{\"__metadata__\":[]}"), "__metadata__"},
      {"MetadataNumber", file_bytes("{\"__metadata__\":{\"k\":1}}"), "\"k\""},
      {"NameTwice",
       file_bytes(
           "{" + tensor("w", "U8", "[1]", "[0,1]") + "," + tensor("w", "U8", "[1]", "[1,2]") + "}",
           2),
       "\"w\" twice"},
      {"NoObject", file_bytes("{\"w\":3}"), "\"w\""},
      {"NoName", file_bytes("{" + tensor("", "U8", "[1]", "[0,1]") + "}", 1), "\"\""},
  };
}

// F3.
std::vector<Bad> bad_tensors() {
  const std::string no_type = "{\"w\":{\"shape\":[1],\"data_offsets\":[0,1]}}";
  const std::string no_shape = "{\"w\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}";
  const std::string no_range = "{\"w\":{\"dtype\":\"U8\",\"shape\":[1]}}";
  const std::string wrap = "[4294967296,4294967296,4]";
  return {
      {"DTypeMissing", file_bytes(no_type, 1), "\"w\" has no \"dtype\""},
      {"DTypeUnknown", one("F7", "[1]", "[0,1]", 1), "\"w\" uses type \"F7\"",
       ErrorCode::kUnsupported},
      {"DTypeF8", one("F8_E4M3", "[1]", "[0,1]", 1), "BF16", ErrorCode::kUnsupported},
      {"DTypeQuantised", one("Q4_0", "[32]", "[0,18]", 18), "\"w\" uses", ErrorCode::kUnsupported},
      {"ShapeMissing", file_bytes(no_shape, 1), "\"w\" has no \"shape\""},
      {"ShapeText", one("U8", "\"1\"", "[0,1]", 1), "\"w\" has no \"shape\""},
      {"ShapeNegative", one("U8", "[-1]", "[0,1]", 1), "\"w\" has the impossible dimension"},
      {"ShapeFraction", one("U8", "[1.5]", "[0,1]", 1), "\"w\" has the impossible dimension"},
      {"ShapeTooLarge", one("U8", "[18446744073709551615]", "[0,1]", 1),
       "\"w\" has the impossible"},
      {"ShapeOfArrays", one("U8", "[[1]]", "[0,1]", 1), "\"w\" has the impossible"},
      {"ShapeManyDimensions", one("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]", 1),
       "\"w\" has no \"shape\""},
      {"ShapeProductWraps", one("F32", wrap, "[0,0]", 0), "\"w\" has more than 2^63"},
      {"ShapeBytesWrap", one("F64", "[4611686018427387904]", "[0,0]", 0), "\"w\""},
      {"ShapeAboveRange", one("F32", "[2]", "[0,4]", 4), "\"w\" has 4 bytes"},
      {"ShapeBelowRange", one("F16", "[1]", "[0,4]", 4), "\"w\" has 4 bytes"},
      {"RangeMissing", file_bytes(no_range, 1), "\"w\" has no \"data_offsets\""},
      {"RangeOfThree", one("U8", "[1]", "[0,1,2]", 2), "\"w\" has no \"data_offsets\""},
      {"RangeNegative", one("U8", "[1]", "[-1,0]", 1), "\"w\" has no \"data_offsets\""},
      {"RangeFraction", one("U8", "[1]", "[0.0,1.0]", 1), "\"w\" has no \"data_offsets\""},
      {"RangeBackwards", one("U8", "[1]", "[1,0]", 1), "\"w\" claims bytes 1 to 0"},
      {"RangePastEnd", one("U8", "[2]", "[0,2]", 1), "\"w\" claims bytes 0 to 2 of the 1"},
      {"RangeHuge", one("U8", "[1]", "[18446744073709551614,18446744073709551615]", 1), "\"w\""},
      {"Overlap", two("[0,4]", "[2,6]", 6), "\"one\" and \"two\" overlap"},
      {"SameRange", two("[0,4]", "[0,4]", 4), "overlap"},
      {"Hole", two("[0,4]", "[5,9]", 9), "1 unused bytes lie before tensor \"two\""},
      {"HoleAtStart", two("[1,5]", "[5,9]", 9), "before tensor \"one\""},
      {"RestAtEnd", two("[0,4]", "[4,8]", 9), "after tensor \"two\""},
      {"RestOnly", file_bytes("{}", 3), "3 unused bytes"},
  };
}

class BadSafetensors : public testing::TestWithParam<Bad> {};

TEST_P(BadSafetensors, IsRefusedWithItsName) {
  const std::string message = error_text([] { read(GetParam().bytes); }, GetParam().code);
  EXPECT_TRUE(contains(message, GetParam().message)) << message;
  EXPECT_TRUE(contains(message, "test.safetensors")) << message;
}

std::string bad_name(const testing::TestParamInfo<Bad>& param) { return param.param.name; }
INSTANTIATE_TEST_SUITE_P(Headers, BadSafetensors, testing::ValuesIn(bad_headers()), bad_name);
INSTANTIATE_TEST_SUITE_P(Tensors, BadSafetensors, testing::ValuesIn(bad_tensors()), bad_name);

TEST(Safetensors, EveryTruncationIsAnError) {
  const std::string bytes =
      read_file(fixture_path("folder/model-00001-of-00002.safetensors"), 1 << 20);
  ASSERT_GT(bytes.size(), 50u);
  ASSERT_FALSE(read(bytes).tensors.empty());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(read(bytes.substr(0, length)), Error) << length;
  }
  EXPECT_THROW(read(bytes + "x"), Error);
}

// F2, F3: neither the header's length nor a shape sizes an allocation.
TEST(Safetensors, AnnouncedSizesAreNotAllocated) {
  const std::string shape = "[1048576,1048576]";
  for (const std::string& bytes : {raw(uint64_t{1} << 40) + std::string(1000, ' '),
                                   one("F32", shape, "[0,4398046511104]", 64)}) {
    reset_allocation_meter();
    error_text([&] { read(bytes); });
    EXPECT_LT(largest_allocation(), 4096u);
  }
}

}  // namespace
}  // namespace clover
