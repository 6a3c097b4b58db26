// SPDX-License-Identifier: Apache-2.0
#include "measure/report/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "measure/report/report.h"

namespace clover {
namespace {

using ::testing::HasSubstr;

const char* const kNames[] = {"decode", "kernels", "eval", "peers"};

std::string fixture(const std::string& name) {
  return std::string(CLOVER_SOURCE_DIR) + "/tests/data/report/" + name + ".json";
}

Json load(const std::string& name) { return parse_json(read_file(fixture(name), 1 << 20), name); }

// A folder of the running test's own: tests run side by side.
std::string own_folder() {
  const std::filesystem::path folder =
      testing::TempDir() +
      ("results_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
  std::filesystem::create_directories(folder);
  return folder.string() + "/";
}

std::string write(const std::string& text) {
  const std::string path = own_folder() + "result.json";
  std::ofstream(path) << text;
  return path;
}

// What reading `text` as a result file says; "" if it can be read.
std::string fault(const std::string& text) {
  try {
    read_result(write(text));
    return "";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("result.json"));
    return error.what();
  }
}

TEST(Results, ReadEachKind) {
  const ResultFile decode = read_result(fixture("decode"));
  EXPECT_EQ(decode.origin, (ResultOrigin{"Test CPU", "avx2", 2, "tiny", "00ff", "abc1234"}));
  const auto& rows = std::get<DecodeResult>(decode.content).rows;
  ASSERT_EQ(rows.size(), 18u);
  EXPECT_EQ(rows[1].method, "ngram");
  EXPECT_EQ(rows[1].speed.median, 150);
  EXPECT_EQ(rows[1].speedup.low, 1.4);
  EXPECT_EQ(rows[1].speedup.runs, 3);
  EXPECT_EQ(rows[1].ttft.p99, 30);
  const auto kernels = std::get<KernelResult>(read_result(fixture("kernels")).content);
  EXPECT_EQ(kernels.costs.size(), 12u);
  const auto eval = std::get<EvalResult>(read_result(fixture("eval")).content);
  ASSERT_EQ(eval.trees.size(), 2u);
  EXPECT_EQ(eval.trees[0].nodes, 1);  // in order of size
  EXPECT_EQ(eval.calibration.size(), 10u);
  ASSERT_EQ(eval.limited.size(), 2u);
  EXPECT_EQ(eval.limited[1].depth, 2);
  EXPECT_EQ(eval.trees[1].recall.size(), 3u);
  ASSERT_EQ(eval.ranks.size(), 4u);
  EXPECT_EQ(eval.ranks[2].parent_rank, 2);
  EXPECT_EQ(eval.ranks[2].at_rank[0], 10);
  const ResultFile peers = read_result(fixture("peers"));
  EXPECT_EQ(peers.origin.threads, 2);
  const auto& comparisons = std::get<ComparisonResult>(peers.content).comparisons;
  ASSERT_EQ(comparisons.size(), 3u);
  EXPECT_EQ(comparisons[0].groups[1].ratio.high, 1.1);
  EXPECT_EQ(comparisons[1].sides[1], "auto");
  EXPECT_EQ(comparisons[1].groups[1].sides[1].median, 9);
  EXPECT_EQ(comparisons[1].groups[1].sides[0].runs, 0);  // null
}

TEST(Results, MissingFilesAndWhatIsNoResult) {
  EXPECT_THROW(read_result("/no/such/result.json"), Error);
  EXPECT_THAT(fault(""), HasSubstr("result.json"));
  EXPECT_THAT(fault("{}"), HasSubstr("no result of bench decode"));
  EXPECT_THAT(fault("[1, 2]"), HasSubstr("no result of bench decode"));
  EXPECT_THAT(fault("{\"text\": \"an answer\", \"tokens_per_second\": 3.5}"),
              HasSubstr("no result of bench decode"));
}

TEST(Results, TruncatedFilesAreRefused) {
  for (const char* name : kNames) {
    const std::string text = read_file(fixture(name), 1 << 20);
    for (size_t length = 0; length + 2 < text.size(); length += 97)
      EXPECT_NE(fault(text.substr(0, length)), "") << name << " " << length;
  }
}

// Every key that a reader asks for is named when it is gone or of another kind: whatever is taken
// out, the file is either still read or refused with the key in the sentence.
void take_out(const Json& whole, Json& part, const std::string& name, int& refused) {
  if (part.is_object()) {
    std::vector<std::string> keys;
    for (const auto& [key, unused] : part.items()) keys.push_back(key);
    for (const std::string& key : keys) {
      const Json kept = part[key];
      part.erase(key);
      const std::string missing = fault(whole.dump());
      if (!missing.empty()) {
        ++refused;
        EXPECT_THAT(missing, ::testing::AnyOf(HasSubstr(key), HasSubstr("no result"))) << name;
      }
      part[key] = Json::array({"foreign"});
      const std::string foreign = fault(whole.dump());
      if (!missing.empty()) {
        EXPECT_NE(foreign, "") << name << " " << key;
      }
      part[key] = kept;
      if (kept.is_structured()) take_out(whole, part[key], name, refused);
    }
  } else if (part.is_array() && !part.empty()) {
    take_out(whole, part[0], name, refused);
  }
}

TEST(Results, MissingAndForeignKeysAreNamed) {
  for (const char* name : kNames) {
    Json whole = load(name);
    int refused = 0;
    take_out(whole, whole, name, refused);
    EXPECT_GT(refused, 12) << name;
  }
}

TEST(Results, ThePathOfABadValueIsWhole) {
  Json decode = load("decode");
  decode["results"][3]["batch"] = "eight";
  EXPECT_THAT(fault(decode.dump()), HasSubstr("results[3].batch is no whole number"));
  decode["results"][3]["batch"] = 0;
  EXPECT_THAT(fault(decode.dump()), HasSubstr("results[3].batch is 0"));
  decode["results"][3]["batch"] = 1e300;
  EXPECT_THAT(fault(decode.dump()), HasSubstr("results[3].batch is no whole number"));
  decode["results"][3]["batch"] = 18446744073709551615U;
  EXPECT_THAT(fault(decode.dump()), HasSubstr("results[3].batch is no whole number"));
  decode = load("decode");
  decode["results"][0]["tokens_per_second"].erase("max");
  EXPECT_THAT(fault(decode.dump()),
              HasSubstr("the key results[0].tokens_per_second.max is missing"));
  decode = load("decode");
  decode["results"] = Json::array();
  EXPECT_THAT(fault(decode.dump()), HasSubstr("results is empty"));
}

// JSON has no word for what is not finite: it is written as null, and is no measurement.
TEST(Results, SidesOfAComparisonHaveTheSameGroups) {
  Json peers = load("peers");
  peers["comparisons"][0]["sides"][1]["values"].erase("prompt");
  EXPECT_THAT(fault(peers.dump()), HasSubstr("comparisons[0].sides[1].values.prompt is missing"));
  peers = load("peers");
  peers["comparisons"][1]["sides"] = Json::array();
  EXPECT_THAT(fault(peers.dump()), HasSubstr("comparisons[1].sides is empty"));
  peers["comparisons"] = Json::array();
  EXPECT_THAT(fault(peers.dump()), HasSubstr("comparisons is empty"));
}

TEST(Results, NullIsNotMeasured) {
  Json decode = load("decode");
  decode["results"][0]["tokens_per_second"]["median"] = nullptr;
  decode["results"][0]["ttft_ms"] = nullptr;
  decode["results"][0]["tokens_per_second"]["runs"] = {1.0, nullptr, 2.0};
  const auto result = std::get<DecodeResult>(read_result(write(decode.dump())).content);
  EXPECT_TRUE(std::isnan(result.rows[0].speed.median));
  EXPECT_TRUE(std::isnan(result.rows[0].ttft.p50));
}

TEST(Results, OlderFilesWithoutACommitAreOfUnknownCommit) {
  Json decode = load("decode");
  decode.erase("commit");
  decode.erase("date");
  EXPECT_EQ(read_result(write(decode.dump())).origin.commit, "unknown");
}

// Results of before recall and ranks were counted can still be read.
TEST(Results, OlderEvaluationsLackTheRanks) {
  Json eval = load("eval");
  eval.erase("ranks");
  for (Json& tree : eval["trees"]) {
    tree.erase("recall");
    if (tree["depth"].is_null()) tree.erase("depth");
  }
  const auto result = std::get<EvalResult>(read_result(write(eval.dump())).content);
  EXPECT_TRUE(result.ranks.empty());
  EXPECT_EQ(result.trees.size(), 2u);
  EXPECT_EQ(result.limited.size(), 2u);
}

TEST(Results, MoreHitsThanCasesAreRefused) {
  Json eval = load("eval");
  eval["ranks"][1]["asked"] = 49;
  EXPECT_THAT(fault(eval.dump()), HasSubstr("ranks[1].at_rank"));
  eval["ranks"][1]["asked"] = 0;
  EXPECT_THAT(fault(eval.dump()), HasSubstr("ranks[1].asked is 0"));
}

TEST(Results, PackagesGoByTheirShortNames) {
  EXPECT_EQ(short_speculators("ngram+recycle"), "ngram+recycle");
  EXPECT_EQ(short_speculators("runs/medusa/best+ngram"), "medusa+ngram");
  EXPECT_EQ(short_speculators("/a/b/clover2/"), "clover2");
  EXPECT_EQ(short_speculators("/a/clover2/last/"), "clover2");
  EXPECT_EQ(short_speculators("best"), "best");
  EXPECT_EQ(short_speculators(""), "");
  Json decode = load("decode");
  decode["results"][1]["method"] = "runs/x/best+ngram@8x2";
  const auto result = std::get<DecodeResult>(read_result(write(decode.dump())).content);
  EXPECT_EQ(result.rows[1].method, "x+ngram@8x2");
}

std::string run_folder(const std::string& log) {
  const std::filesystem::path folder = own_folder() + "a_run";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "log.jsonl") << log;
  return folder.string();
}

const char* const kLog =
    "{\"step\":0,\"tokens\":0,\"held_out\":[{\"teacher_forced_top1\":0.1,"
    "\"teacher_forced_top5\":0.2}],\"acceptance\":{\"score\":9,\"tree 8 alone\":0.5}}\n"
    "{\"step\":10,\"tokens\":500,\"loss\":3}\n"
    "{\"step\":20,\"tokens\":1000,\"held_out\":[{\"teacher_forced_top1\":0.3,"
    "\"teacher_forced_top5\":0.6}],\"acceptance\":{\"score\":9,\"tree 8 alone\":0.75}}\n";

TEST(Results, TrainingRuns) {
  const TrainingResult run = read_training(run_folder(kLog) + "/");
  EXPECT_EQ(run.name, "a_run");
  ASSERT_EQ(run.points.size(), 2u);
  EXPECT_EQ(run.points[1].tokens, 1000);
  EXPECT_EQ(run.points[1].top5[0], 0.6);
  ASSERT_EQ(run.points[1].extra.size(), 1u);
  EXPECT_EQ(run.points[1].extra[0].first, "tree 8 alone");
  const auto results = read_results({run_folder(kLog)});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<TrainingResult>(results[0].content));
}

TEST(Results, BrokenTrainingLogsNameTheLine) {
  const auto fault_of = [](const std::string& log) -> std::string {
    try {
      read_training(run_folder(log));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string log = kLog;
  EXPECT_THAT(fault_of(""), HasSubstr("no judgement"));
  EXPECT_THAT(fault_of(log.substr(0, 60)), HasSubstr("line 1"));
  EXPECT_THAT(fault_of(log.substr(0, log.size() - 5)), HasSubstr("line 3"));
  std::string other = log;
  other.replace(other.rfind("teacher_forced_top5"), 19, "teacher_forced_top9");
  EXPECT_THAT(fault_of(other), HasSubstr("held_out[0].teacher_forced_top5"));
  EXPECT_THROW(read_training("/no/such/run"), Error);
}

TEST(Results, FoldersAndFiles) {
  const std::string folder = std::string(CLOVER_SOURCE_DIR) + "/tests/data/report";
  EXPECT_EQ(read_results({folder}).size(), 4u);
  EXPECT_EQ(read_results({fixture("eval"), fixture("decode")}).size(), 2u);
  const std::filesystem::path empty = own_folder() + "no_results";
  std::filesystem::create_directories(empty);
  EXPECT_THROW(read_results({empty.string()}), Error);
}

}  // namespace
}  // namespace clover
