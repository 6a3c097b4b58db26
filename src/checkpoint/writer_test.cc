// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/writer.h"

#include <gtest/gtest.h>

#include <limits>

#include "checkpoint/gguf_reader.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/test_util.h"
#include "tensor/quantise.h"

namespace clover {
namespace {

using Metadata = std::vector<std::pair<std::string, MetaValue>>;

class Writer : public testing::Test {
 protected:
  Writer() : floats_(64) {
    for (size_t i = 0; i < floats_.size(); ++i) floats_[i] = static_cast<float>(i) - 20.5f;
    blocks_ = quantise(DType::kQ4_1, floats_.data(), 64);
    halves_ = quantise(DType::kF16, floats_.data(), 3);
  }
  TensorInfo floats(const std::string& name = "f") const {
    return {name, DType::kF32, {2, 32}, std::as_bytes(std::span(floats_))};
  }
  TensorInfo blocks() const { return {"q", DType::kQ4_1, {2, 32}, blocks_}; }
  TensorInfo halves() const { return {"h", DType::kF16, {3}, halves_}; }

  void expect_same(const std::vector<TensorInfo>& read, const std::vector<TensorInfo>& written) {
    ASSERT_EQ(read.size(), written.size());
    for (size_t i = 0; i < read.size(); ++i) {
      EXPECT_EQ(read[i].name, written[i].name);
      EXPECT_EQ(read[i].type, written[i].type);
      EXPECT_EQ(read[i].shape, written[i].shape);
      EXPECT_TRUE(std::ranges::equal(read[i].data, written[i].data)) << read[i].name;
    }
  }

  ScratchFolder folder_;
  std::string path_ = folder_ / "file";
  std::vector<float> floats_;
  std::vector<std::byte> blocks_, halves_;
};

TEST_F(Writer, GgufRoundTrip) {
  using Scalar = MetaValue::Scalar;
  const Metadata metadata = {
      {"text", {Scalar(std::string("é\0x", 4))}},
      {"yes", {Scalar(true)}},
      {"small", {Scalar(uint64_t{5})}},
      {"large", {Scalar(std::numeric_limits<uint64_t>::max())}},
      {"minus", {Scalar(int64_t{-5})}},
      {"very minus", {Scalar(std::numeric_limits<int64_t>::min())}},
      {"half", {Scalar(0.5)}},
      {"tenth", {Scalar(0.1)}},
      {"huge", {Scalar(1e300)}},
      {"infinite", {Scalar(-std::numeric_limits<double>::infinity())}},
      {"flags", {std::vector<bool>{true, false}}},
      {"ints", {std::vector<int64_t>{-1, int64_t{1} << 40}}},
      {"naturals", {std::vector<uint64_t>{1, 2}}},
      {"floats", {std::vector<double>{0.1, 2}}},
      {"strings", {std::vector<std::string>{"", "b"}}},
      {"no strings", {std::vector<std::string>{}}},
  };
  const std::vector<TensorInfo> tensors = {floats(), blocks(), halves(), floats("g")};
  write_gguf(path_, metadata, tensors);
  const MappedFile map(path_);
  const GgufFile file = read_gguf(map.bytes(), path_);
  expect_same(file.tensors, tensors);
  ASSERT_EQ(file.metadata.size(), metadata.size());
  for (size_t i = 0; i < metadata.size(); ++i) {
    EXPECT_EQ(file.metadata[i].first, metadata[i].first);
    EXPECT_EQ(file.metadata[i].second.value, metadata[i].second.value) << metadata[i].first;
  }
}

TEST_F(Writer, GgufNumbersAreNarrowWhereNothingIsLost) {
  const auto size_with = [&](const MetaValue& value) {
    write_gguf(path_, {{"k", value}}, {});
    return std::filesystem::file_size(path_);
  };
  using Scalar = MetaValue::Scalar;
  // 24 bytes of header, 9 of the key, 4 of the type, the value; all padded to 32.
  EXPECT_EQ(size_with({std::vector<uint64_t>(100, 7)}), 24u + 9 + 4 + 12 + 400 + 31);
  EXPECT_EQ(size_with({std::vector<double>(100, 0.1)}), 24u + 9 + 4 + 12 + 800 + 15);
  write_gguf(path_, {{"general.alignment", {Scalar(uint64_t{64})}}}, std::vector{floats()});
  const MappedFile map(path_);
  EXPECT_EQ(read_gguf(map.bytes(), path_).alignment, 64);
}

TEST_F(Writer, SafetensorsRoundTripAlignsByWidth) {
  const std::vector<TensorInfo> tensors = {halves(), floats(), floats("g")};
  write_safetensors(path_, tensors, {{"format", "pt"}, {"é", ""}});
  const MappedFile map(path_);
  const SafetensorsFile file = read_safetensors(map.bytes(), path_);
  expect_same(file.tensors, {floats(), floats("g"), halves()});
  EXPECT_EQ(file.metadata, (decltype(file.metadata){{"format", "pt"}, {"é", ""}}));
  EXPECT_EQ((file.tensors[0].data.data() - map.bytes().data()) % 8, 0);
  write_safetensors(path_, {}, {});
  EXPECT_TRUE(read_safetensors(MappedFile(path_).bytes(), path_).tensors.empty());
}

TEST_F(Writer, RefusesWhatItCannotStore) {
  constexpr auto kBad = ErrorCode::kInvalidArgument;
  const auto gguf = [&](std::vector<TensorInfo> tensors) {
    return [this, tensors] { write_gguf(path_, {}, tensors); };
  };
  const auto safetensors = [&](std::vector<TensorInfo> tensors) {
    return [this, tensors] { write_safetensors(path_, tensors, {}); };
  };
  TensorInfo wrong = floats("wrong");
  wrong.shape = {3, 32};
  TensorInfo wrapped = floats("wrapped");
  wrapped.shape = {int64_t{1} << 62, 4, 4};
  TensorInfo deep = floats("deep");
  deep.shape = {2, 32, 1, 1, 1};
  TensorInfo split_rows = blocks();
  split_rows.shape = {4, 16};
  for (const auto& write :
       {std::function<std::function<void()>(std::vector<TensorInfo>)>(gguf),
        std::function<std::function<void()>(std::vector<TensorInfo>)>(safetensors)}) {
    EXPECT_TRUE(contains(error_text(write({wrong}), kBad), "\"wrong\""));
    EXPECT_TRUE(contains(error_text(write({wrapped}), kBad), "\"wrapped\""));
    EXPECT_TRUE(contains(error_text(write({floats(), floats()}), kBad), "\"f\""));
    error_text(write({floats("")}), kBad);
  }
  EXPECT_TRUE(contains(error_text(gguf({deep}), kBad), "\"deep\""));
  EXPECT_TRUE(contains(error_text(gguf({split_rows}), kBad), "\"q\""));
  EXPECT_TRUE(contains(error_text(safetensors({blocks()}), ErrorCode::kUnsupported), "\"q\""));
  error_text(safetensors({floats("__metadata__")}), kBad);
  error_text(safetensors({floats("\xff")}), kBad);
  const TensorInfo flag = {"flag", DType::kBool, {1}, as_bytes("\1")};
  EXPECT_TRUE(contains(error_text(gguf({flag}), ErrorCode::kUnsupported), "\"flag\""));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace clover
