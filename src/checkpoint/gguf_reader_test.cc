// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/gguf_reader.h"

#include <gtest/gtest.h>

#include <limits>

#include "checkpoint/test_util.h"

namespace clover {
namespace {

constexpr uint32_t kU8 = 0, kU32 = 4, kF32 = 6, kBool = 7, kString = 8, kArray = 9, kU64 = 10;

std::string text(std::string_view value) {
  return raw(uint64_t{value.size()}) + std::string(value);
}

std::string key(std::string_view name, uint32_t type, const std::string& value) {
  return text(name) + raw(type) + value;
}

std::string array(uint32_t type, uint64_t count, const std::string& values = "") {
  return raw(type) + raw(count) + values;
}

std::string tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                   uint64_t offset) {
  std::string out = text(name) + raw(static_cast<uint32_t>(dims.size()));
  for (const uint64_t size : dims) out += raw(size);
  return out + raw(type) + raw(offset);
}

// The parts of a GGUF file; counts may lie.
struct Parts {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::vector<std::string> keys;
  std::vector<std::string> tensors;
  std::optional<uint64_t> key_count;
  std::optional<uint64_t> tensor_count;
  size_t data_bytes = 0;
  size_t alignment = 32;

  std::string bytes() const {
    std::string out = magic + raw(version) + raw(tensor_count.value_or(tensors.size())) +
                      raw(key_count.value_or(keys.size()));
    for (const std::string& part : keys) out += part;
    for (const std::string& part : tensors) out += part;
    if (data_bytes > 0) {
      out.resize((out.size() + alignment - 1) / alignment * alignment);
      out.append(data_bytes, 'd');
    }
    return out;
  }
};

GgufFile read(const std::string& bytes) { return read_gguf(as_bytes(bytes), "test.gguf"); }

Parts valid() {
  Parts parts;
  parts.keys = {key("general.architecture", kString, text("llama")),
                key("list", kArray, array(kString, 2, text("a") + text(""))),
                key("flags", kArray, array(kBool, 2, std::string("\1\0", 2))),
                key("n", kU32, raw(uint32_t{7}))};
  parts.tensors = {tensor("a", {4, 2}, 0, 0), tensor("b", {32}, 2, 32), tensor("s", {}, 0, 64)};
  parts.data_bytes = 68;
  return parts;
}

TEST(GgufReader, ReadsAHandMadeFile) {
  const std::string bytes = valid().bytes();
  const GgufFile file = read(bytes);
  EXPECT_EQ(file.version, 3u);
  EXPECT_EQ(file.alignment, 32);
  ASSERT_EQ(file.metadata.size(), 4u);
  EXPECT_EQ(file.metadata[0].first, "general.architecture");
  EXPECT_EQ(std::get<std::vector<std::string>>(file.metadata[1].second.value),
            (std::vector<std::string>{"a", ""}));
  ASSERT_EQ(file.tensors.size(), 3u);
  EXPECT_EQ(file.tensors[0].shape, (std::vector<int64_t>{2, 4}));  // outermost first
  EXPECT_EQ(file.tensors[0].data.size(), 32u);
  EXPECT_EQ(file.tensors[1].type, DType::kQ4_0);
  EXPECT_EQ(file.tensors[1].data.size(), 18u);
  EXPECT_TRUE(file.tensors[2].shape.empty());
  EXPECT_EQ(file.tensors[2].data.data(), as_bytes(bytes).data() + bytes.size() - 4);
}

TEST(GgufReader, VersionTwoHasTheSameLayout) {
  Parts parts = valid();
  parts.version = 2;
  EXPECT_EQ(read(parts.bytes()).tensors.size(), 3u);
}

TEST(GgufReader, ObeysTheAlignmentKey) {
  for (const uint32_t alignment : {8u, 64u, 4096u}) {
    Parts parts;
    parts.alignment = alignment;
    parts.keys = {key("general.alignment", kU32, raw(alignment))};
    parts.tensors = {tensor("a", {1}, 0, 0), tensor("b", {1}, 0, alignment)};
    parts.data_bytes = alignment + 4;
    const std::string bytes = parts.bytes();
    const GgufFile file = read(bytes);
    EXPECT_EQ(file.tensors[1].data.data() - file.tensors[0].data.data(), alignment);
    EXPECT_EQ(file.tensors[1].data.data() + 4, as_bytes(bytes).data() + bytes.size());
  }
}

TEST(GgufReader, EmptyModelIsNoError) {
  const GgufFile file = read(Parts().bytes());
  EXPECT_TRUE(file.metadata.empty());
  EXPECT_TRUE(file.tensors.empty());
}

struct Bad {
  const char* name;
  std::string bytes;
  const char* message;  // part of the error
  ErrorCode code = ErrorCode::kCorrupt;
};

Parts with_tensor(const std::string& description, size_t data_bytes = 64) {
  Parts parts;
  parts.tensors = {description};
  parts.data_bytes = data_bytes;
  return parts;
}

Parts with_key(const std::string& description) {
  Parts parts;
  parts.keys = {description};
  return parts;
}

Parts with_alignment(uint32_t type, const std::string& value) {
  Parts parts = with_key(key("general.alignment", type, value));
  parts.tensors = {tensor("a", {1}, 0, 0)};
  parts.data_bytes = 64;
  return parts;
}

Parts counted(uint64_t tensors, uint64_t keys) {
  Parts parts;
  parts.tensor_count = tensors;
  parts.key_count = keys;
  return parts;
}

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
constexpr auto kUnsupported = ErrorCode::kUnsupported;

// Header and metadata.
std::vector<Bad> bad_metadata() {
  Parts zero_version, one, four, swapped, wrong_magic, twice;
  zero_version.version = 0;
  one.version = 1;
  four.version = 4;
  swapped.version = 0x03000000;
  wrong_magic.magic = "GGML";
  twice.keys = {key("k", kU8, "1"), key("k", kU8, "2")};
  Parts short_strings =
      with_key(key("k", kArray, array(kString, 3, text("12345678") + text("12345678"))));
  Parts nested = with_key(key("k", kArray, array(kArray, 1, array(kU8, 1, "x"))));
  return {
      {"Empty", "", "does not begin with"},
      {"Magic", wrong_magic.bytes(), "does not begin with"},
      {"Version0", zero_version.bytes(), "version 0", kUnsupported},
      {"Version1", one.bytes(), "version 1", kUnsupported},
      {"Version4", four.bytes(), "version 4", kUnsupported},
      {"BigEndian", swapped.bytes(), "big-endian", kUnsupported},
      {"KeyCountHuge", counted(0, kMax).bytes(), "keys are announced"},
      {"KeyCountAboveBytes", counted(0, 1 << 20).bytes(), "keys are announced"},
      {"TensorCountHuge", counted(kMax, 0).bytes(), "tensors are announced"},
      {"TensorCountWraps", counted(kMax / 24 + 2, 0).bytes(), "tensors are announced"},
      {"TensorCountAboveBytes", counted(3, 0).bytes(), "tensors are announced"},
      {"KeyLengthHuge", with_key(raw(kMax) + raw(kU8) + "x").bytes(), "key 0"},
      {"KeyLengthPastEnd", with_key(raw(uint64_t{100}) + raw(kU8) + "x").bytes(), "key 0"},
      {"KeyEmpty", with_key(key("", kU8, "x")).bytes(), "no name"},
      {"KeyTwice", twice.bytes(), "\"k\" occurs twice"},
      {"ValueType13", with_key(key("k", 13, "12345678")).bytes(), "\"k\" has the unknown"},
      {"ValueTypeHuge", with_key(key("k", 0xffffffff, "12345678")).bytes(),
       "\"k\" has the unknown"},
      {"ValueCut", with_key(key("longkey", kU64, "1234567")).bytes(), "\"longkey\""},
      {"Bool2", with_key(key("k", kBool, "\2")).bytes(), "truth value 2"},
      {"BoolArray", with_key(key("k", kArray, array(kBool, 1, "\7"))).bytes(), "truth value 7"},
      {"StringHuge", with_key(key("k", kString, raw(kMax))).bytes(), "\"k\""},
      {"StringPastEnd", with_key(key("k", kString, raw(uint64_t{9}) + "12345678")).bytes(),
       "\"k\""},
      {"ArrayNested", nested.bytes(), "array of arrays", kUnsupported},
      {"ArrayType13", with_key(key("k", kArray, array(13, 0))).bytes(), "unknown type 13"},
      {"ArrayHuge", with_key(key("k", kArray, array(kU64, uint64_t{1} << 40))).bytes(), "\"k\""},
      {"ArrayWraps", with_key(key("k", kArray, array(kU64, kMax / 8 + 2))).bytes(), "\"k\""},
      {"ArrayOfStringsHuge", with_key(key("k", kArray, array(kString, kMax))).bytes(), "\"k\""},
      {"ArrayPastEnd", with_key(key("k", kArray, array(kF32, 2, "1234567"))).bytes(), "\"k\""},
      {"ArrayStringsCut", short_strings.bytes(), "array of key \"k\""},
      {"Alignment0", with_alignment(kU32, raw(uint32_t{0})).bytes(), "general.alignment"},
      {"Alignment1", with_alignment(kU32, raw(uint32_t{1})).bytes(), "general.alignment"},
      {"Alignment24", with_alignment(kU32, raw(uint32_t{24})).bytes(), "general.alignment"},
      {"AlignmentHuge", with_alignment(kU32, raw(uint32_t{1} << 31)).bytes(), "general.alignment"},
      {"AlignmentFloat", with_alignment(kF32, raw(32.0f)).bytes(), "general.alignment"},
      {"AlignmentText", with_alignment(kString, text("32")).bytes(), "general.alignment"},
  };
}

// Tensor descriptions.
std::vector<Bad> bad_tensors() {
  Parts same_name, same_place, partly;
  same_name.tensors = {tensor("w", {4}, 0, 0), tensor("w", {4}, 0, 32)};
  same_name.data_bytes = same_place.data_bytes = partly.data_bytes = 128;
  same_place.tensors = {tensor("one", {4}, 0, 0), tensor("two", {4}, 0, 0)};
  partly.tensors = {tensor("two", {4}, 0, 32), tensor("one", {16}, 0, 0)};
  const uint64_t half = uint64_t{1} << 32;
  return {
      {"NameEmpty", with_tensor(tensor("", {4}, 0, 0)).bytes(), "no name"},
      {"NameHuge", with_tensor(raw(kMax) + std::string(40, 'x')).bytes(), "tensor's name"},
      {"NameTwice", same_name.bytes(), "\"w\" occurs twice"},
      {"Dimensions5", with_tensor(tensor("w", {1, 1, 1, 1, 1}, 0, 0)).bytes(), "\"w\" has 5"},
      {"DimensionsHuge", with_tensor(text("w") + raw(kMax >> 32) + std::string(40, 'x')).bytes(),
       "\"w\" has"},
      {"DimensionZero", with_tensor(tensor("w", {4, 0}, 0, 0)).bytes(), "\"w\" has an impossible"},
      {"DimensionNegative", with_tensor(tensor("w", {kMax}, 0, 0)).bytes(),
       "\"w\" has an impossible"},
      {"ProductWraps", with_tensor(tensor("w", {half, half, 4}, 0, 0)).bytes(), "\"w\" has an"},
      {"ProductWrapsToSmall", with_tensor(tensor("w", {half, half + 1}, 0, 0)).bytes(),
       "\"w\" has"},
      {"BytesWrap", with_tensor(tensor("w", {uint64_t{1} << 62}, 0, 0)).bytes(), "\"w\""},
      {"Type4", with_tensor(tensor("w", {32}, 4, 0)).bytes(), "\"w\" uses type 4, not supported",
       kUnsupported},
      {"Type39", with_tensor(tensor("w", {32}, 39, 0)).bytes(), "\"w\" uses type 39, not supported",
       kUnsupported},
      {"Type200", with_tensor(tensor("w", {32}, 200, 0)).bytes(), "Q4_1, Q5_0", kUnsupported},
      {"PartOfABlock", with_tensor(tensor("w", {16, 2}, 2, 0)).bytes(), "\"w\" has rows of 16"},
      {"PartOfASuperBlock", with_tensor(tensor("w", {32, 8}, 12, 0)).bytes(),
       "whole blocks of 256"},
      {"OffsetUnaligned", with_tensor(tensor("w", {4}, 0, 8)).bytes(), "\"w\" lies at offset 8"},
      {"OffsetPastEnd", with_tensor(tensor("w", {4}, 0, 4096)).bytes(), "\"w\" lies at 4096"},
      {"OffsetWraps", with_tensor(tensor("w", {4}, 0, kMax - 31)).bytes(), "\"w\" lies at"},
      {"DataCut", with_tensor(tensor("w", {17}, 0, 0)).bytes(), "has 64 bytes of tensor data"},
      {"DataMissing", with_tensor(tensor("w", {4}, 0, 0), 0).bytes(), "has 0 bytes"},
      {"SamePlace", same_place.bytes(), "overlap"},
      {"PartlySamePlace", partly.bytes(), "\"one\" and \"two\" overlap"},
  };
}

class BadGguf : public testing::TestWithParam<Bad> {};

// F1, F12: one clear error that names the file and the key or tensor.
TEST_P(BadGguf, IsRefusedWithItsName) {
  const std::string message = error_text([] { read(GetParam().bytes); }, GetParam().code);
  EXPECT_TRUE(contains(message, GetParam().message)) << message;
  EXPECT_TRUE(contains(message, "test.gguf")) << message;
}

std::string bad_name(const testing::TestParamInfo<Bad>& param) { return param.param.name; }
INSTANTIATE_TEST_SUITE_P(Metadata, BadGguf, testing::ValuesIn(bad_metadata()), bad_name);
INSTANTIATE_TEST_SUITE_P(Tensors, BadGguf, testing::ValuesIn(bad_tensors()), bad_name);

// F1: a file cut anywhere is an error, wherever the cut.
TEST(GgufReader, EveryTruncationIsAnError) {
  const std::string bytes = valid().bytes();
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(read(bytes.substr(0, length)), Error) << length;
  }
}

TEST(GgufReader, FiftyTruncationsOfARealFileAreErrors) {
  const std::string bytes = read_file(fixture_path("all_types.gguf"), 1 << 20);
  const size_t data_end = bytes.size() - 32;  // the last tensor may be followed by padding
  for (size_t i = 0; i < 50; ++i) {
    EXPECT_THROW(read(bytes.substr(0, data_end * i / 50)), Error) << i;
  }
}

// F2: a small file that announces 2^40 of something costs next to nothing.
TEST(GgufReader, AnnouncedSizesAreNotAllocated) {
  constexpr uint64_t kHuge = uint64_t{1} << 40;
  const std::vector<std::string> files = {
      counted(kHuge, 0).bytes(),
      counted(0, kHuge).bytes(),
      with_key(key("k", kArray, array(kString, kHuge))).bytes(),
      with_key(key("k", kArray, array(kU8, kHuge))).bytes(),
      with_key(key("k", kString, raw(kHuge))).bytes(),
      with_tensor(tensor("w", {kHuge}, 0, 0)).bytes(),
      with_tensor(tensor("w", {1 << 20, 1 << 20}, 8, 0)).bytes(),
  };
  for (std::string file : files) {
    file.resize(1024, 'x');
    reset_allocation_meter();
    error_text([&] { read(file); });
    EXPECT_LT(largest_allocation(), 4096u);
    EXPECT_LT(total_allocated(), 65536u);
  }
}

TEST(GgufReader, MemoryOfManySmallStringsIsBounded) {
  constexpr uint64_t kCount = (1 << 22) + 1;  // one above the limit on array elements
  const std::string file =
      with_key(key("k", kArray, array(kString, kCount, std::string(kCount * 8, '\0')))).bytes();
  reset_allocation_meter();
  error_text([&] { read(file); });
  EXPECT_LT(total_allocated(), 65536u);
}

TEST(GgufReader, NamesInErrorsAreCutAndEscaped) {
  const std::string name = "evil\n\x1b[31m" + std::string(1000, 'x');
  const std::string bytes = with_tensor(tensor(name, {32}, 39, 0)).bytes();
  const std::string message = error_text([&] { read(bytes); }, kUnsupported);
  EXPECT_TRUE(contains(message, "evil\\x0a\\x1b[31m")) << message;
  EXPECT_LT(message.size(), 500u);
}

// Any one byte changed: an error or a file whose tensors still lie inside the bytes.
TEST(GgufReader, EveryChangedByteIsHandled) {
  const std::string good = valid().bytes();
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ change);
      try {
        const GgufFile file = read(bytes);
        for (const TensorInfo& info : file.tensors) {
          ASSERT_GE(info.data.data(), as_bytes(bytes).data());
          ASSERT_LE(info.data.data() + info.data.size(), as_bytes(bytes).data() + bytes.size());
        }
      } catch (const Error& e) {
        EXPECT_TRUE(contains(e.what(), "test.gguf"));
      }
    }
  }
}

}  // namespace
}  // namespace clover
