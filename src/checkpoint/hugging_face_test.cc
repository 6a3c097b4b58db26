// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/hugging_face.h"

#include <gtest/gtest.h>

#include "checkpoint/test_util.h"
#include "checkpoint/writer.h"

namespace clover {
namespace {

namespace fs = std::filesystem;

class Folder : public testing::Test {
 protected:
  void write_shard(const std::string& path, std::vector<std::string> tensors,
                   std::string_view value = "0123") {
    std::vector<TensorInfo> infos;
    for (const auto& name : tensors) infos.push_back({name, DType::kF32, {}, as_bytes(value)});
    write_safetensors(path, infos, {});
  }
  void write_index(const std::string& weight_map) {
    write_file(folder_ / "model.safetensors.index.json", "{\"weight_map\":" + weight_map + "}");
  }
  std::unique_ptr<Checkpoint> open() const { return open_checkpoint(folder_.path()); }
  std::string error(ErrorCode code = ErrorCode::kCorrupt) const {
    return error_text([this] { open(); }, code);
  }

  ScratchFolder folder_;
};

TEST_F(Folder, SingleFile) {
  write_shard(folder_ / "model.safetensors", {"a", "b"});
  const auto checkpoint = open();
  EXPECT_EQ(checkpoint->format(), Checkpoint::Format::kHuggingFace);
  EXPECT_EQ(checkpoint->files(), (std::vector<std::string>{folder_ / "model.safetensors"}));
  EXPECT_EQ(checkpoint->at("b").data.size(), 4u);
  EXPECT_TRUE(checkpoint->metadata().empty());
  EXPECT_EQ(checkpoint->meta_int("x"), std::nullopt);
}

TEST_F(Folder, ReferenceShards) {
  const auto checkpoint = open_checkpoint(fixture_path("folder"));
  EXPECT_EQ(checkpoint->tensors().size(), 6u);
  EXPECT_EQ(checkpoint->at("a.weight").shape, (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(checkpoint->at("a.weight").type, DType::kF16);
  EXPECT_EQ(checkpoint->at("b.weight").type, DType::kI64);
  EXPECT_EQ(checkpoint->at("mask").type, DType::kBool);
  EXPECT_EQ(checkpoint->at("empty").shape, (std::vector<int64_t>{0, 4}));
  float scalar;
  std::memcpy(&scalar, checkpoint->at("scalar").data.data(), 4);
  EXPECT_EQ(scalar, 2.5f);
  ASSERT_NE(checkpoint->document("config.json"), nullptr);
  EXPECT_EQ((*checkpoint->document("config.json"))["hidden_size"], 6);
}

TEST_F(Folder, DocumentsAreParsedOnce) {
  write_shard(folder_ / "model.safetensors", {"a"});
  write_file(folder_ / "config.json", "{\"a\":1}");
  write_file(folder_ / "broken.json", "{\"a\":");
  write_file(folder_ / "chat_template.jinja", "{{ x }}");
  const auto checkpoint = open();
  const Json* document = checkpoint->document("config.json");
  ASSERT_NE(document, nullptr);
  EXPECT_EQ((*document)["a"], 1);
  EXPECT_EQ(checkpoint->document("config.json"), document);
  EXPECT_EQ(checkpoint->document("tokenizer.json"), nullptr);
  EXPECT_TRUE(
      contains(error_text([&] { checkpoint->document("broken.json"); }), folder_ / "broken.json"));
  EXPECT_EQ(checkpoint->side_file("chat_template.jinja"), folder_ / "chat_template.jinja");
  EXPECT_EQ(checkpoint->side_file("none"), std::nullopt);
  EXPECT_EQ(checkpoint->side_file("../" + fs::path(folder_.path()).filename().string()),
            std::nullopt);
  EXPECT_EQ(checkpoint->side_file("."), std::nullopt);
}

TEST_F(Folder, WithoutWeightsSaysWhatIsThere) {
  EXPECT_TRUE(contains(error(ErrorCode::kNotFound), "has no model.safetensors"));
  write_file(folder_ / "pytorch_model.bin", "x");
  EXPECT_TRUE(contains(error(ErrorCode::kUnsupported), "pytorch_model.bin"));
  write_file(folder_ / "model-00001-of-00002.safetensors", "x");
  EXPECT_TRUE(contains(error(ErrorCode::kNotFound), "model.safetensors.index.json"));
  write_file(folder_ / "m.gguf", "x");
  EXPECT_TRUE(contains(error(ErrorCode::kInvalidArgument), folder_ / "m.gguf"));
}

TEST_F(Folder, IndexDecidesBetweenCopies) {
  write_shard(folder_ / "1.safetensors", {"a", "b"}, "1111");
  write_shard(folder_ / "2.safetensors", {"b", "c"}, "2222");
  write_index(R"({"a":"1.safetensors","b":"2.safetensors"})");
  const auto checkpoint = open();
  EXPECT_EQ(checkpoint->tensors().size(), 2u);
  EXPECT_EQ(static_cast<char>(checkpoint->at("b").data[0]), '2');
  EXPECT_EQ(checkpoint->find("c"), nullptr);
}

TEST_F(Folder, BrokenIndexIsRefused) {
  write_shard(folder_ / "1.safetensors", {"a"});
  const std::string index = folder_ / "model.safetensors.index.json";
  for (const char* text : {"", "[]", "{}", "3", "{\"weight_map\":[]}", "{\"weight_map\":{}}"}) {
    write_file(index, text);
    EXPECT_TRUE(contains(error(), index)) << text;
  }
  write_index(R"({"a":"1.safetensors","b":"1.safetensors"})");
  EXPECT_TRUE(contains(error(), "\"b\""));
  write_index(R"({"a":"1.safetensors","b":"2.safetensors"})");
  EXPECT_TRUE(contains(error(ErrorCode::kNotFound), "\"2.safetensors\""));
  write_index(R"({"a":7})");
  EXPECT_TRUE(contains(error(), "\"a\" in \"7\""));
}

// F5: shard names that are not plain names in the folder.
TEST_F(Folder, PathsInTheIndexAreRefused) {
  fs::create_directory(folder_ / "sub");
  write_shard(folder_ / "sub/1.safetensors", {"a"});
  const std::string outside = folder_.path() + "_outside.safetensors";
  write_shard(outside, {"a"});
  const std::string outside_name = fs::path(outside).filename().string();
  for (const std::string& name :
       {"../" + outside_name, outside, std::string("sub/1.safetensors"),
        std::string("./sub/../sub/1.safetensors"), std::string("sub\\\\1.safetensors"),
        std::string("..\\\\1.safetensors"), std::string(".."), std::string(""),
        std::string("1.safetensors\\u0000"), std::string("config.json")}) {
    write_index("{\"tensor\":\"" + name + "\"}");
    EXPECT_TRUE(contains(error(), "places tensor \"tensor\"")) << name;
  }
  fs::remove(outside);
}

// F5: links.
TEST_F(Folder, ShardLinksMustStayInside) {
  const ScratchFolder other;
  write_shard(other / "1.safetensors", {"a"});
  write_shard(folder_ / "real.safetensors", {"a"});
  write_index(R"({"a":"1.safetensors"})");
  fs::create_symlink(other / "1.safetensors", folder_ / "1.safetensors");
  EXPECT_TRUE(contains(error(), "leaves the folder"));
  fs::remove(folder_ / "1.safetensors");
  fs::create_symlink("real.safetensors", folder_ / "1.safetensors");
  EXPECT_EQ(open()->tensors().size(), 1u);
}

TEST_F(Folder, LinksOfTheHuggingFaceCacheAreFollowed) {
  const std::string snapshot = folder_ / "models--x/snapshots/0123";
  const std::string blobs = folder_ / "models--x/blobs";
  fs::create_directories(snapshot);
  fs::create_directories(blobs);
  write_shard(blobs + "/aaaa", {"a"});
  write_file(blobs + "/bbbb", R"({"weight_map":{"a":"1.safetensors"}})");
  fs::create_symlink("../../blobs/aaaa", snapshot + "/1.safetensors");
  fs::create_symlink("../../blobs/bbbb", snapshot + "/model.safetensors.index.json");
  EXPECT_EQ(open_checkpoint(snapshot)->tensors().size(), 1u);
  fs::create_symlink(snapshot, folder_ / "alias");
  EXPECT_EQ(open_checkpoint(folder_ / "alias")->tensors().size(), 1u);
  // A folder called blobs elsewhere is no such store.
  fs::create_directories(folder_ / "m/plain/0123");
  fs::create_directories(folder_ / "m/blobs");
  write_shard(folder_ / "m/blobs/aaaa", {"a"});
  fs::create_symlink("../../blobs/aaaa", folder_ / "m/plain/0123/1.safetensors");
  fs::copy_file(blobs + "/bbbb", folder_ / "m/plain/0123/model.safetensors.index.json");
  const auto open_plain = [&] { open_checkpoint(folder_ / "m/plain/0123"); };
  EXPECT_TRUE(contains(error_text(open_plain), "leaves the folder"));
  // A single file that is itself a link comes from the folder, not from an index.
  fs::create_symlink("../../blobs/aaaa", folder_ / "m/plain/0123/model.safetensors");
  EXPECT_EQ(open_checkpoint(folder_ / "m/plain/0123")->tensors().size(), 1u);
}

TEST_F(Folder, SameTensorTwiceInOneFileIsRefused) {
  const std::string tensor = R"("w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  const std::string header = "{" + tensor + "," + tensor + "}";
  write_file(folder_ / "model.safetensors", raw(uint64_t{header.size()}) + header + "x");
  EXPECT_TRUE(contains(error(), "\"w\" twice"));
}

}  // namespace
}  // namespace clover
