// SPDX-License-Identifier: Apache-2.0
#include "train/distilled_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/dataset.h"
#include "train/train_fixtures.h"

namespace clover {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using train_testing::made_up;
using train_testing::same_sample;

DistillSettings settings() {
  DistillSettings s;
  s.target = "a \"model\"";
  s.fingerprint = train_testing::kFingerprint;
  s.vocab = 100;
  s.seed = UINT64_MAX;
  s.context = 64;
  return s;
}

ShardHeader header(uint64_t first, uint32_t tasks) {
  ShardHeader h;
  h.fingerprint = train_testing::kFingerprint;
  h.vocab = 100;
  h.first_task = first;
  h.tasks = tasks;
  return h;
}

class Folder : public ::testing::Test {
 protected:
  void fill() {
    DistilledFolder folder(path_, settings());
    folder.write(header(0, 3), std::vector{made_up(0, {1}, {2, 3}), made_up(2, {4}, {5})});
    folder.write(header(3, 2), std::vector{made_up(1, {6, 7}, {8})});
  }
  std::string open_fault(const DistillSettings& s, ErrorCode code = ErrorCode::kInvalidArgument) {
    return error_text([&] { DistilledFolder(path_, s); }, code);
  }
  std::string read_fault(ErrorCode code = ErrorCode::kCorrupt) {
    return error_text([&] { Dataset({path_}); }, code);
  }
  std::string shard(const std::string& number) const { return path_ + "/shard-" + number + ".bin"; }
  void edit_manifest(const std::function<void(Json&)>& change) {
    const std::string path = path_ + "/manifest.json";
    Json json = parse_json(read_file(path, 1 << 20), path);
    change(json);
    write_file(path, json.dump());
  }

  ScratchFolder scratch_;
  std::string path_ = scratch_ / "a/b";
};

TEST_F(Folder, IsReadAsItWasWritten) {
  EXPECT_FALSE(is_distilled(path_));
  fill();
  EXPECT_TRUE(is_distilled(path_));
  EXPECT_THAT(shard_names(path_), ElementsAre("shard-000000000000.bin", "shard-000000000003.bin"));
  const Dataset data({path_});
  ASSERT_EQ(data.size(), 3u);
  EXPECT_TRUE(same_sample(data.sample(0), made_up(0, {1}, {2, 3})));
  EXPECT_TRUE(same_sample(data.sample(2), made_up(1, {6, 7}, {8})));
  EXPECT_EQ(data.tokens(0), 3u);
  EXPECT_EQ(data.response_tokens(0), 2u);
  EXPECT_EQ(data.temperature(2), 1.0f);
  EXPECT_EQ(data.prompt_hash(2), 1001u);
  EXPECT_EQ(data.counts().tasks, 5);
  EXPECT_EQ(data.counts().response_tokens, 4);
  EXPECT_EQ(data.shares().greedy_samples, 2);
  EXPECT_EQ(data.settings().seed, UINT64_MAX);
  EXPECT_EQ(data.settings().target, "a \"model\"");
}

TEST_F(Folder, GoesOnWhereItWas) {
  fill();
  write_file(path_ + "/shard-000000000005.bin.77-0.tmp", "half");
  write_file(path_ + "/manifest.json.77-1.tmp", "half");
  write_file(path_ + "/notes.tmp", "the user's own");
  DistilledFolder folder(path_, settings());
  EXPECT_EQ(folder.shards().size(), 2u);
  EXPECT_EQ(folder.counts().samples, 3);
  EXPECT_EQ(folder.finished().at(4).hash, 1001u);
  EXPECT_FALSE(folder.finished().contains(1));
  EXPECT_FALSE(fs::exists(path_ + "/shard-000000000005.bin.77-0.tmp"));
  EXPECT_FALSE(fs::exists(path_ + "/manifest.json.77-1.tmp"));
  EXPECT_TRUE(fs::exists(path_ + "/notes.tmp"));
}

// Killed between a shard and the manifest: the shards are what counts.
TEST_F(Folder, ShardsCountThatTheManifestDoesNotKnow) {
  fill();
  edit_manifest([](Json& json) { json["shards"].erase(1); });
  EXPECT_EQ(Dataset({path_}).size(), 3u);
  EXPECT_EQ(DistilledFolder(path_, settings()).counts().shards, 2);
}

TEST_F(Folder, HasOneWriter) {
  const DistilledFolder first(path_, settings());
  EXPECT_THAT(open_fault(settings()), HasSubstr("another process is writing"));
}

TEST_F(Folder, OtherSettingsAreNamed) {
  fill();
  DistillSettings other = settings();
  other.seed = 7;
  other.max_tokens = 9;
  const std::string text = open_fault(other);
  EXPECT_THAT(text, HasSubstr("seed 18446744073709551615, not 7"));
  EXPECT_THAT(text, HasSubstr("tokens of an answer 256, not 9"));
  other = settings();
  other.fingerprint[0] = 'f';
  EXPECT_THAT(open_fault(other), HasSubstr("fingerprint"));
  other = settings();
  other.greedy_share = 0.25;
  EXPECT_THAT(open_fault(other), HasSubstr("greedy answers 0.7, not 0.25"));
}

TEST_F(Folder, ShardsWithoutAManifestAreNotTouched) {
  fill();
  fs::remove(path_ + "/manifest.json");
  EXPECT_THAT(open_fault(settings()), HasSubstr("no manifest.json"));
  EXPECT_THAT(read_fault(ErrorCode::kNotFound), HasSubstr("manifest.json"));
}

TEST_F(Folder, BrokenManifestsNameTheField) {
  fill();
  const std::string path = path_ + "/manifest.json";
  const std::string good = read_file(path, 1 << 20);
  const auto fault = [&](const std::function<void(Json&)>& change,
                         ErrorCode code = ErrorCode::kCorrupt) {
    write_file(path, good);
    edit_manifest(change);
    return read_fault(code);
  };
  EXPECT_THAT(fault([](Json& j) { j["format"] = 1; }), HasSubstr("format"));
  EXPECT_THAT(fault([](Json& j) { j["version"] = 2; }, ErrorCode::kUnsupported),
              HasSubstr("version 2"));
  EXPECT_THAT(fault([](Json& j) { j.erase("target"); }), HasSubstr("target"));
  EXPECT_THAT(fault([](Json& j) { j["settings"]["seed"] = "x"; }), HasSubstr("seed"));
  EXPECT_THAT(fault([](Json& j) { j["target"]["vocab_size"] = 7; }), HasSubstr("vocab"));
  EXPECT_THAT(fault([](Json& j) { j = 3; }), HasSubstr("manifest.json"));
  write_file(path, good.substr(0, good.size() / 2));
  EXPECT_THAT(read_fault(), HasSubstr("manifest.json"));
  EXPECT_FALSE(is_distilled(path_));
}

TEST_F(Folder, BrokenShardsAreNamedByReaderAndWriter) {
  fill();
  const std::string path = shard("000000000003");
  const std::string good = read_file(path, 1 << 20);
  for (const size_t size : {size_t{0}, size_t{50}, good.size() - 1}) {
    write_file(path, good.substr(0, size));
    EXPECT_THAT(read_fault(), HasSubstr("shard-000000000003.bin"));
    EXPECT_THAT(open_fault(settings(), ErrorCode::kCorrupt), HasSubstr("shard-000000000003.bin"));
  }
  std::string changed = good;
  changed[130] = static_cast<char>(changed[130] ^ 1);
  write_file(path, changed);
  EXPECT_THAT(read_fault(), HasSubstr("checksum"));
  write_file(path, good);
  fs::copy_file(path, shard("000000000009"));
  EXPECT_THAT(open_fault(settings(), ErrorCode::kCorrupt), HasSubstr("file's name"));
}

TEST_F(Folder, DataOfTwoTargetsDoNotMix) {
  fill();
  DistillSettings other = settings();
  other.fingerprint[0] = 'f';
  const std::string second = scratch_ / "other";
  DistilledFolder(second, other)
      .write(
          [] {
            ShardHeader h = header(0, 1);
            h.fingerprint[0] = 'f';
            return h;
          }(),
          std::vector{made_up(0, {1}, {2})});
  EXPECT_EQ(Dataset({second}).size(), 1u);
  EXPECT_THAT(error_text(
                  [&] {
                    Dataset({path_, second});
                  },
                  ErrorCode::kInvalidArgument),
              HasSubstr("another target"));
  fs::copy_file(second + "/shard-000000000000.bin", shard("000000000000"),
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(read_fault(), HasSubstr("fingerprint"));
}

TEST_F(Folder, WithoutSamplesIsAnError) {
  { const DistilledFolder folder(path_, settings()); }
  EXPECT_THAT(read_fault(ErrorCode::kInvalidArgument), HasSubstr("no sample"));
}

}  // namespace
}  // namespace clover
