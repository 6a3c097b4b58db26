// SPDX-License-Identifier: Apache-2.0
// Fixtures come from tools/make_checkpoint_fixtures.py (the reference writers).
#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <cmath>

#include "checkpoint/test_util.h"
#include "checkpoint/writer.h"

namespace clover {
namespace {

std::string sha256_of(std::span<const std::byte> bytes) {
  unsigned char digest[32];
  EVP_Digest(bytes.data(), bytes.size(), digest, nullptr, EVP_sha256(), nullptr);
  std::string text;
  for (const unsigned char byte : digest) text += fmt::format("{:02x}", byte);
  return text;
}

TEST(GgufParity, TensorsAndKeysEqualTheReferenceReader) {
  const auto checkpoint = open_checkpoint(fixture_path("all_types.gguf"));
  const Json expected = parse_json(read_file(fixture_path("all_types.json"), 1 << 20), "json");
  EXPECT_EQ(checkpoint->format(), Checkpoint::Format::kGguf);
  ASSERT_EQ(checkpoint->tensors().size(), expected["tensors"].size());
  for (size_t i = 0; i < checkpoint->tensors().size(); ++i) {
    const TensorInfo& tensor = checkpoint->tensors()[i];
    const Json& reference = expected["tensors"][i];
    EXPECT_EQ(tensor.name, reference["name"]);
    EXPECT_EQ(dtype_name(tensor.type), reference["type"].get<std::string>());
    EXPECT_EQ(tensor.shape, reference["shape"].get<std::vector<int64_t>>());
    EXPECT_EQ(sha256_of(tensor.data), reference["sha256"]) << tensor.name;
    EXPECT_EQ(checkpoint->find(tensor.name), &tensor);
  }
  std::vector<std::string> keys;
  for (const auto& [key, value] : checkpoint->metadata()) keys.push_back(key);
  EXPECT_EQ(keys, expected["keys"].get<std::vector<std::string>>());
}

class GgufMeta : public testing::Test {
 protected:
  std::unique_ptr<Checkpoint> checkpoint_ = open_checkpoint(fixture_path("all_types.gguf"));
};

TEST_F(GgufMeta, NumbersOfEveryWidth) {
  EXPECT_EQ(checkpoint_->meta_int("t.u8"), 200);
  EXPECT_EQ(checkpoint_->meta_int("t.i8"), -100);
  EXPECT_EQ(checkpoint_->meta_int("t.u16"), 60000);
  EXPECT_EQ(checkpoint_->meta_int("t.i16"), -30000);
  EXPECT_EQ(checkpoint_->meta_int("t.u32"), 4'000'000'000);
  EXPECT_EQ(checkpoint_->meta_int("t.i32"), -2'000'000'000);
  EXPECT_EQ(checkpoint_->meta_int("t.i64"), INT64_MIN);
  EXPECT_EQ(checkpoint_->meta_float("t.f32"), double{0.1f});
  EXPECT_EQ(checkpoint_->meta_float("t.f64"), 0.1);
  EXPECT_EQ(checkpoint_->meta_float("t.u16"), 60000.0);
  EXPECT_EQ(checkpoint_->meta_float("t.i64"), -0x1p63);
  EXPECT_EQ(checkpoint_->meta_bool("t.yes"), true);
  EXPECT_EQ(checkpoint_->meta_string("t.text"), "naïve ▁Ġ 日本");
}

TEST_F(GgufMeta, Arrays) {
  EXPECT_EQ(checkpoint_->meta_ints("t.ints"), (std::vector<int64_t>{-1, 2, 3}));
  EXPECT_EQ(checkpoint_->meta_ints("t.bytes"), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(checkpoint_->meta_floats("t.floats"), (std::vector<double>{0.5, -1.25}));
  EXPECT_EQ(checkpoint_->meta_floats("t.ints"), (std::vector<double>{-1, 2, 3}));
  ASSERT_NE(checkpoint_->meta_strings("t.strings"), nullptr);
  EXPECT_EQ(*checkpoint_->meta_strings("t.strings"), (std::vector<std::string>{"", "a", "▁b"}));
}

TEST_F(GgufMeta, MissingKeysAreNothing) {
  EXPECT_EQ(checkpoint_->find_meta("none"), nullptr);
  EXPECT_EQ(checkpoint_->meta_int("none"), std::nullopt);
  EXPECT_EQ(checkpoint_->meta_float("none"), std::nullopt);
  EXPECT_EQ(checkpoint_->meta_bool("none"), std::nullopt);
  EXPECT_EQ(checkpoint_->meta_string("none"), std::nullopt);
  EXPECT_EQ(checkpoint_->meta_strings("none"), nullptr);
  EXPECT_EQ(checkpoint_->meta_ints("none"), std::nullopt);
  EXPECT_EQ(checkpoint_->meta_floats("none"), std::nullopt);
}

TEST_F(GgufMeta, LossyConversionsAreErrorsNamingTheKey) {
  const Checkpoint& c = *checkpoint_;
  EXPECT_TRUE(contains(error_text([&] { c.meta_int("t.u64"); }), "\"t.u64\""));
  EXPECT_TRUE(contains(error_text([&] { c.meta_int("t.f32"); }), "\"t.f32\""));
  EXPECT_TRUE(contains(error_text([&] { c.meta_int("t.yes"); }), "\"t.yes\""));
  EXPECT_TRUE(contains(error_text([&] { c.meta_int("t.ints"); }), "\"t.ints\""));
  EXPECT_TRUE(contains(error_text([&] { c.meta_float("t.u64"); }), "\"t.u64\""));
  EXPECT_TRUE(contains(error_text([&] { c.meta_float("t.text"); }), "\"t.text\""));
  EXPECT_TRUE(contains(error_text([&] { c.meta_bool("t.u8"); }), "\"t.u8\""));
  EXPECT_TRUE(contains(error_text([&] { c.meta_string("t.u8"); }), "\"t.u8\""));
  EXPECT_TRUE(contains(error_text([&] { c.meta_strings("t.text"); }), "\"t.text\""));
  EXPECT_TRUE(contains(error_text([&] { c.meta_ints("t.floats"); }), "\"t.floats\""));
  EXPECT_TRUE(contains(error_text([&] { c.meta_ints("t.u8"); }), "\"t.u8\""));
  EXPECT_TRUE(contains(error_text([&] { c.meta_floats("t.strings"); }), "\"t.strings\""));
}

TEST(GgufNumbers, ConvertOnlyWithoutLoss) {
  using Scalar = MetaValue::Scalar;
  const ScratchFolder folder;
  constexpr int64_t kExact = int64_t{1} << 53;
  const auto number = [](auto value) { return MetaValue{Scalar(value)}; };
  write_gguf(folder / "m.gguf",
             {{"exact", number(kExact)},
              {"odd", number(kExact + 1)},
              {"max", number(INT64_MAX)},
              {"whole", number(-3.0)},
              {"fraction", number(2.5)},
              {"huge", number(1e30)},
              {"nan", number(std::nan(""))}},
             {});
  const auto c = open_checkpoint(folder / "m.gguf");
  EXPECT_EQ(c->meta_float("exact"), 0x1p53);
  error_text([&] { c->meta_float("odd"); });
  error_text([&] { c->meta_float("max"); });
  EXPECT_EQ(c->meta_int("max"), INT64_MAX);
  EXPECT_EQ(c->meta_int("whole"), -3);
  error_text([&] { c->meta_int("fraction"); });
  error_text([&] { c->meta_int("huge"); });
  error_text([&] { c->meta_int("nan"); });
}

TEST_F(GgufMeta, MissingTensorIsNamed) {
  EXPECT_EQ(checkpoint_->find("w.nope"), nullptr);
  EXPECT_EQ(checkpoint_->at("w.F32").name, "w.F32");
  const auto at = [&] { checkpoint_->at("w.nope"); };
  EXPECT_TRUE(contains(error_text(at, ErrorCode::kNotFound), "\"w.nope\""));
}

TEST_F(GgufMeta, HasNoDocuments) {
  EXPECT_EQ(checkpoint_->document("config.json"), nullptr);
  EXPECT_EQ(checkpoint_->side_file("config.json"), std::nullopt);
}

TEST(OpenCheckpoint, SaysWhatIsWrongWithThePath) {
  const ScratchFolder folder;
  const auto open = [](const std::string& path) { return [path] { open_checkpoint(path); }; };
  const std::string missing = folder / "missing.gguf";
  EXPECT_TRUE(contains(error_text(open(missing), ErrorCode::kNotFound), missing));
  EXPECT_FALSE(error_text(open(""), ErrorCode::kNotFound).empty());
  error_text(open("/dev/null"), ErrorCode::kInvalidArgument);
  write_file(folder / "text.gguf", "hello");
  EXPECT_TRUE(contains(error_text(open(folder / "text.gguf")), "not a GGUF file"));
  write_file(folder / "empty.gguf", "");
  EXPECT_TRUE(contains(error_text(open(folder / "empty.gguf")), "not a GGUF file"));
  write_file(folder / "model.safetensors", "x");
  const std::string one_file = folder / "model.safetensors";
  EXPECT_TRUE(contains(error_text(open(one_file), ErrorCode::kUnsupported), "its folder"));
}

TEST(CheckpointSha256, IsThatOfTheFilesInOrder) {
  const std::string path = fixture_path("all_types.gguf");
  const std::string bytes = read_file(path, 1 << 20);
  EXPECT_EQ(files_sha256(open_checkpoint(path)->files()), sha256_of(as_bytes(bytes)));
  const auto folder = open_checkpoint(fixture_path("folder"));
  std::string joined;
  for (const std::string& file : folder->files()) joined += read_file(file, 1 << 20);
  EXPECT_EQ(folder->files().size(), 2u);
  EXPECT_EQ(files_sha256(folder->files()), sha256_of(as_bytes(joined)));
}

MetaValue natural(uint64_t value) { return {MetaValue::Scalar(value)}; }

// A model in splits, as other tools write them.
class Splits : public testing::Test {
 protected:
  std::string path(int number, int count = 3) const {
    return folder_ / fmt::format("m-{:05}-of-{:05}.gguf", number + 1, count);
  }
  void write(int number, std::vector<std::string> tensors, uint64_t total = 3, uint64_t count = 3) {
    std::vector<TensorInfo> infos;
    for (const std::string& name : tensors) {
      infos.push_back({name, DType::kF32, {4}, as_bytes("0123456789abcdef")});
    }
    write_gguf(path(number),
               {{"split.no", natural(static_cast<uint64_t>(number))},
                {"split.count", natural(count)},
                {"split.tensors.count", natural(total)}},
               infos);
  }
  void write_all() {
    write(0, {});
    write(1, {"a", "b"});
    write(2, {"c"});
  }

  ScratchFolder folder_;
};

TEST_F(Splits, AnyPartOpensAll) {
  write_all();
  for (int named = 0; named < 3; ++named) {
    const auto checkpoint = open_checkpoint(path(named));
    EXPECT_EQ(checkpoint->path(), path(named));
    EXPECT_EQ(checkpoint->files(), (std::vector<std::string>{path(0), path(1), path(2)}));
    ASSERT_EQ(checkpoint->tensors().size(), 3u);
    EXPECT_EQ(checkpoint->at("c").data.size(), 16u);
    EXPECT_EQ(checkpoint->meta_int("split.no"), 0);  // the first part's keys
    int64_t bytes = 0;
    for (const auto& file : checkpoint->files()) {
      bytes += static_cast<int64_t>(std::filesystem::file_size(file));
    }
    EXPECT_EQ(checkpoint->total_bytes(), bytes);
  }
}

TEST_F(Splits, MissingPartIsNamed) {
  write_all();
  std::filesystem::remove(path(1));
  for (const int named : {0, 2}) {
    const auto open = [&] { open_checkpoint(path(named)); };
    EXPECT_TRUE(contains(error_text(open, ErrorCode::kNotFound), path(1)));
  }
}

TEST_F(Splits, RenamedPartIsExplained) {
  write_all();
  std::filesystem::rename(path(0), folder_ / "renamed.gguf");
  const auto open = [&] { open_checkpoint(folder_ / "renamed.gguf"); };
  EXPECT_TRUE(
      contains(error_text(open, ErrorCode::kInvalidArgument), "must end in -00001-of-00003.gguf"));
}

TEST_F(Splits, PartsThatDoNotBelongTogetherAreRefused) {
  const auto open = [&] { open_checkpoint(path(0)); };
  write_all();
  std::filesystem::copy_file(path(2), path(1), std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(contains(error_text(open), "part 2 of 3"));
  write_all();
  write(2, {"c"}, 3, 4);
  EXPECT_TRUE(contains(error_text(open), "part 3 of 3"));
  write_all();
  write(2, {"a"});
  EXPECT_TRUE(contains(error_text(open), "\"a\" occurs in two"));
  write_all();
  write(2, {"c", "d"});
  EXPECT_TRUE(contains(error_text(open), "hold 4 tensors"));
  write_all();
  write(0, {}, 3, 1000000);
  EXPECT_TRUE(contains(error_text(open), "split.count"));
  write_gguf(path(0), {{"split.no", natural(9)}, {"split.count", natural(3)}}, {});
  EXPECT_TRUE(contains(error_text(open), "split.no"));
  write_gguf(path(0), {{"split.no", natural(0)}, {"split.count", {MetaValue::Scalar(-3.5)}}}, {});
  EXPECT_TRUE(contains(error_text(open), "\"split.count\""));
}

}  // namespace
}  // namespace clover
