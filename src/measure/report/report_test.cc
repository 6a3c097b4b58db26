// SPDX-License-Identifier: Apache-2.0
#include "measure/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/error.h"
#include "base/file.h"

namespace clover {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string data(const std::string& name) {
  return std::string(CLOVER_SOURCE_DIR) + "/tests/data/report/" + name;
}

ResultFile fixture(const std::string& name) { return read_result(data(name + ".json")); }

DecodeResult& decode(ResultFile& file) { return std::get<DecodeResult>(file.content); }

// Every plot that the page shows is there, once.
void expect_whole(const ReportPage& page) {
  std::set<std::string> names;
  for (const auto& [name, svg] : page.plots()) {
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_THAT(page.text(), HasSubstr("](" + name + ")"));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("=\"inf")));
  }
  EXPECT_THAT(page.text(), Not(HasSubstr("nan")));
  EXPECT_THAT(page.text(), Not(HasSubstr("inf ")));
}

// The whole text for scripted results; tests/data/report/report.md is what `clover report` makes of
// that folder, checked by hand against tools/make_report_fixtures.py.
TEST(Report, IsTheGoldenText) {
  const ReportPage page = make_report(read_results({data("")}));
  expect_whole(page);
  EXPECT_EQ(page.plots().size(), 23u);
  EXPECT_EQ(page.text(), read_file(data("report.md"), 1 << 20));
}

// Where less is better, a ratio below 1 is the faster one.
TEST(Report, ComparisonsKnowWhatIsBetter) {
  const std::string text = make_report({fixture("peers")}).text();
  EXPECT_THAT(text, HasSubstr("| decode 1 | 50.0 [45.0–55.0] | 100 [99.0–101] | 2.00 [1.80–2.20] | "
                              "faster |"));
  EXPECT_THAT(text, HasSubstr("| 0.50 [0.40–0.60] | faster |"));
  EXPECT_THAT(text, HasSubstr("| 4 | – | 9.00 [8.00–10.0] | – | not measured |"));
  EXPECT_THAT(text, HasSubstr("| MiB | clover |\n"));
}

// I12: a gain is one only outside the spread.
TEST(Report, VerdictsFollowTheSpread) {
  EXPECT_EQ(verdict_of({1.5, 1.4, 1.6, 3}), SpreadVerdict::kAbove);
  EXPECT_EQ(verdict_of({0.9, 0.8, 0.99, 3}), SpreadVerdict::kBelow);
  EXPECT_EQ(verdict_of({1.01, 0.95, 1.1, 3}), SpreadVerdict::kNoise);
  EXPECT_EQ(verdict_of({1.5, 1.0, 1.6, 3}), SpreadVerdict::kNoise);
  EXPECT_EQ(verdict_of({1.5, 1.5, 1.5, 1}), SpreadVerdict::kUnknown);
  EXPECT_EQ(verdict_of({}), SpreadVerdict::kUnknown);
  EXPECT_EQ(verdict_text({1.5, 1.5, 1.5, 1}), "one run, spread unknown");
  EXPECT_EQ(verdict_text({}), "not measured");
  EXPECT_EQ(verdict_text({0, 0, 0, 3}), "not measured");
  EXPECT_EQ(ratio_text({1.01, 0.95, 1.1, 3}), "≈ 1.01 [0.95–1.10]");
  EXPECT_EQ(ratio_text({1.5, 1.4, 1.6, 3}), "1.50 [1.40–1.60]");
  EXPECT_EQ(ratio_text({1.5, 1.5, 1.5, 1}), "1.50");
}

TEST(Report, Numbers) {
  EXPECT_EQ(number_text(1234.5), "1234");
  EXPECT_EQ(number_text(99.96), "100");
  EXPECT_EQ(number_text(99.9), "99.9");
  EXPECT_EQ(number_text(9.999), "10.0");
  EXPECT_EQ(number_text(-0.25), "-0.25");
  EXPECT_EQ(number_text(kNoValue), "–");
  EXPECT_EQ(number_text(kInfinity), "–");
  EXPECT_EQ(percent_text(kNoValue), "–");
}

TEST(Report, NamesOfFilesStayText) {
  EXPECT_EQ(markdown_text("a|b\n<i>*x*_y_"), "a\\|b \\<i\\>\\*x\\*\\_y\\_");
  ResultFile file = fixture("decode");
  for (DecodeRow& row : decode(file).rows)
    if (row.method == "ngram") row.method = "x|<script>\n";
  const ReportPage page = make_report({file});
  EXPECT_THAT(page.text(), Not(HasSubstr("<script>")));
  for (const auto& [name, svg] : page.plots()) EXPECT_THAT(svg, Not(HasSubstr("<script>")));
}

TEST(Report, OneRunHasNoSpread) {
  ResultFile file = fixture("decode");
  decode(file).repeats = 1;
  for (DecodeRow& row : decode(file).rows) row.speed.runs = row.speedup.runs = 1;
  const ReportPage page = make_report({file});
  expect_whole(page);
  EXPECT_THAT(page.text(), HasSubstr("One run has no spread"));
  EXPECT_THAT(page.text(), HasSubstr("ngram 1.50 (one run, spread unknown)"));
  EXPECT_THAT(page.text(), Not(HasSubstr("faster")));
  for (const auto& [name, svg] : page.plots())
    if (name == "speedup.svg") {
      EXPECT_THAT(svg, Not(HasSubstr("whisker s0\"")));
    }
}

TEST(Report, ZeroAndMissingMeasurements) {
  ResultFile file = fixture("decode");
  for (DecodeRow& row : decode(file).rows) {
    row.speed = {0, 0, 0, 3};
    row.speedup = {};
    row.extra = kNoValue;
    row.ttft = row.tpot = row.draft = row.verify = row.sample = row.other = {};
  }
  const ReportPage page = make_report({file});
  expect_whole(page);
  EXPECT_THAT(page.text(), HasSubstr("(not measured)"));
  ResultFile kernels = fixture("kernels");
  for (KernelCost& cost : std::get<KernelResult>(kernels.content).costs) {
    cost.ms = {0, 0, 0, 2};
    cost.read_share = cost.mac_share = kNoValue;
  }
  expect_whole(make_report({kernels}));
}

TEST(Report, CategoriesAndBatchesMayBeMissing) {
  ResultFile file = fixture("decode");
  std::erase_if(decode(file).rows, [](const DecodeRow& row) {
    return row.category != "all" || (row.method == "ngram" && row.batch == 8);
  });
  const ReportPage page = make_report({file});
  expect_whole(page);
  EXPECT_THAT(page.text(), HasSubstr("| ngram | 150 [140–160] | – |"));
  EXPECT_THAT(page.text(), Not(HasSubstr("by category\n")));
  ResultFile eval = fixture("eval");
  for (EvalTree& tree : std::get<EvalResult>(eval.content).trees) {
    tree.by_category.clear();
    tree.per_depth.clear();
  }
  std::get<EvalResult>(eval.content).calibration.clear();
  const ReportPage drafts = make_report({eval});
  expect_whole(drafts);
  EXPECT_THAT(drafts.text(), HasSubstr("ngram no candidates"));
}

TEST(Report, WithoutABaselineThereIsNoSpeedUp) {
  ResultFile file = fixture("decode");
  std::erase_if(decode(file).rows, [](const DecodeRow& row) { return row.method == "none"; });
  const ReportPage page = make_report({file});
  expect_whole(page);
  EXPECT_THAT(page.text(), HasSubstr("none was not measured"));
  EXPECT_THAT(page.text(), Not(HasSubstr("Speed-up")));
}

TEST(Report, OtherTokensAreSaidLoudly) {
  ResultFile file = fixture("decode");
  decode(file).rows[1].same_text = false;
  EXPECT_THAT(make_report({file}).text(),
              HasSubstr("**Not lossless**: other tokens than those of none came from ngram (batch "
                        "1, all)"));
}

// Figures of two machines, models, commits or thread counts never share a table.
TEST(Report, OriginsStayApart) {
  const ResultFile here = fixture("decode");
  for (int part = 0; part < 5; ++part) {
    ResultFile there = here;
    ResultOrigin& origin = there.origin;
    if (part == 0) origin.cpu = "Other CPU";
    if (part == 1) origin.sha256 = "aa";
    if (part == 2) origin.commit = "def";
    if (part == 3) origin.threads = 1;
    if (part == 4) origin.isa = "avx512";
    const ReportPage page = make_report({here, there});
    expect_whole(page);
    EXPECT_THAT(page.text(), HasSubstr("**The results have 2 origins.**"));
    EXPECT_EQ(page.plots().size(), 2 * make_report({here}).plots().size());
  }
}

TEST(Report, RunsWithOtherSettingsStayApart) {
  const ResultFile greedy = fixture("decode");
  ResultFile warm = greedy;
  decode(warm).settings = "temperature=1";
  decode(warm).temperature = 1;
  const ReportPage page = make_report({greedy, warm});
  EXPECT_THAT(page.text(), HasSubstr("greedy"));
  EXPECT_THAT(page.text(), HasSubstr("temperature 1.00"));
  EXPECT_THAT(page.text(), Not(HasSubstr("origins")));
  EXPECT_EQ(page.plots().size(), 2 * make_report({greedy}).plots().size());
}

TEST(Report, RunsOfOneSettingShareATable) {
  ResultFile one = fixture("decode"), eight = one;
  std::erase_if(decode(one).rows, [](const DecodeRow& row) { return row.batch != 1; });
  std::erase_if(decode(eight).rows, [](const DecodeRow& row) { return row.batch != 8; });
  EXPECT_EQ(make_report({one, eight}).plots(), make_report({fixture("decode")}).plots());
}

TEST(Report, TheSameMeasurementTwiceIsRefused) {
  for (const char* name : {"decode", "eval"}) {
    try {
      make_report({fixture(name), fixture(name)});
      FAIL() << name;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(std::string(name) + ".json"));
      EXPECT_THAT(error.what(), HasSubstr("both hold"));
    }
  }
  ResultFile file = fixture("decode");
  decode(file).rows.push_back(decode(file).rows.front());
  EXPECT_THROW(make_report({file}), Error);
  EXPECT_THROW(make_report({}), Error);
}

TEST(Report, SeveralSpeculatorsShareAPlot) {
  ResultFile one = fixture("eval");
  std::get<EvalResult>(one.content).limited.clear();  // a plot for each speculator
  ResultFile two = one;
  std::get<EvalResult>(two.content).speculator = "recycle";
  const ReportPage page = make_report({one, two});
  expect_whole(page);
  EXPECT_EQ(page.plots().size(), make_report({one}).plots().size());
  EXPECT_THAT(page.text(), HasSubstr("| recycle | 8 |"));
}

TEST(Report, PairedRatios) {
  const ResultSpread over{3, 2, 4, 3, {2, 3, 4}}, under{2, 1, 4, 3, {1, 2, 4}};
  const ResultSpread ratio = paired_ratio(over, under);
  EXPECT_EQ(ratio.median, 1.5);
  EXPECT_EQ(ratio.low, 1);
  EXPECT_EQ(ratio.high, 2);
  EXPECT_EQ(ratio.runs, 3);
  EXPECT_EQ(paired_ratio({}, under).runs, 0);
  EXPECT_EQ(paired_ratio({0, 0, 0, 1, {0}}, under).runs, 0);
  EXPECT_EQ(paired_ratio({3, 1, 5, 2, {1, 5}}, {1, 1, 1, 2, {1, 1}}).median, 3);
}

// Regret needs the planned method, none and two fixed sizes.
TEST(Report, RegretNeedsFixedSettings) {
  ResultFile file = fixture("decode");
  EXPECT_THAT(make_report({file}).text(), HasSubstr("best fixed setting"));
  std::erase_if(decode(file).rows, [](const DecodeRow& row) { return row.method == "ngram@2"; });
  EXPECT_THAT(make_report({file}).text(), Not(HasSubstr("best fixed setting")));
}

TEST(Report, AllEightCombinations) {
  std::vector<ResultFile> files;
  int n = 0;
  for (const char* name : {"0", "r", "a", "ra", "b", "rb", "ab", "rab"}) {
    files.push_back(fixture("eval"));
    auto& eval = std::get<EvalResult>(files.back().content);
    eval.speculator = std::string("combo-") + name;
    // r brings 1, a 2, b 3; r and a together another 0.5.
    eval.trees.back().extra = (n & 1) + (n & 2) + 3 * (n >> 2) + ((n & 3) == 3 ? 0.5 : 0);
    ++n;
  }
  const std::string text = make_report(files).text();
  EXPECT_THAT(text, HasSubstr("regressive connection +1.25, attention decoder +2.25, regressive × "
                              "attention +0.25, augmenting block +3.00, regressive × block +0.00"));
  files.pop_back();
  EXPECT_THAT(make_report(files).text(), Not(HasSubstr("All eight combinations")));
}

ResultFile eval_of(const std::string& speculator, int64_t nodes, double extra) {
  ResultFile file = fixture("eval");
  auto& eval = std::get<EvalResult>(file.content);
  eval.speculator = speculator;
  eval.trees.back().nodes = nodes;
  eval.trees.back().extra = extra;
  return file;
}

TEST(Report, ContradictionsOfThePapersAreSaid) {
  const auto text = [](double clover1, double clover2) {
    return make_report({eval_of("clover1", 4, clover1), eval_of("medusa", 4, 1.0),
                        eval_of("clover2", 25, clover2), eval_of("eagle", 25, 2.0)})
        .text();
  };
  EXPECT_THAT(text(1.6, 2.1),
              HasSubstr("1.60 over 1.00 extra tokens per step: +60 % | as there |"));
  EXPECT_THAT(text(1.6, 2.1), HasSubstr("2.10 over 2.00 extra tokens per step: +5 % | as there |"));
  EXPECT_THAT(text(1.2, 2.1), HasSubstr("+20 % | the same direction, but less |"));
  EXPECT_THAT(text(1.6, 1.5), HasSubstr("-25 % | **contradicts it** |"));
  ResultFile file = fixture("decode");
  for (DecodeRow& row : decode(file).rows) {
    if (row.method == "ngram") row.method = "default";
    if (row.batch == 8) row.batch = 32;
  }
  const std::string batches = make_report({file}).text();
  EXPECT_THAT(batches, HasSubstr("the defaults, all categories: 1.50 [1.40–1.60] at 1"));
  EXPECT_THAT(batches, HasSubstr("slower than it from 32 on"));
  EXPECT_THAT(batches, Not(HasSubstr("were not measured")));
}

TEST(Report, TreesThatStopGrowingContradictFigure8) {
  ResultFile file = fixture("eval");
  auto& trees = std::get<EvalResult>(file.content).trees;  // of 1 and of 8 nodes, 0.5 and 1.0
  EXPECT_THAT(make_report({file}).text(), Not(HasSubstr("figure 8")));
  trees.push_back(trees.back());
  trees.back().nodes = 16;
  trees.back().extra = 1.2;
  EXPECT_THAT(make_report({file}).text(), HasSubstr("brings 0.17, 0.20 | as there |"));
  trees.back().extra = 1.05;
  EXPECT_THAT(make_report({file}).text(), HasSubstr("brings 0.17, 0.05 | **contradicts it**"));
}

TEST(Report, TrainingRunsHaveTheirOwnChapter) {
  TrainingResult run{
      "runs/x/log.jsonl",
      "x",
      {{0, {0.1}, {0.2}, {{"alone", 0.5}}}, {2000000, {0.3}, {0.6}, {{"alone", 0.75}}}}};
  const ReportPage page = make_report({{{}, run}});
  expect_whole(page);
  EXPECT_THAT(page.text(), HasSubstr("## Training"));
  EXPECT_THAT(page.text(), HasSubstr("| x | 2000000 | 0.75 | 30 % | 60 % |"));
  EXPECT_THROW(make_report({{{}, run}, {{}, run}}), Error);
}

// Runs that have only none in common are tables of their own, each with its own none.
TEST(Report, EveryRunHasItsOwnBaseline) {
  const ResultFile one = fixture("decode");
  ResultFile two = one;
  std::erase_if(decode(two).rows,
                [](const DecodeRow& row) { return row.method.starts_with("ngram"); });
  for (DecodeRow& row : decode(two).rows)
    if (row.method == "wrong") row.method = "medusa";
  const ReportPage page = make_report({one, two});
  expect_whole(page);
  EXPECT_EQ(page.plots().size(), 2 * make_report({one}).plots().size());
  std::erase_if(decode(two).rows, [](const DecodeRow& row) { return row.method != "none"; });
  EXPECT_THROW(make_report({one, two}), Error);
}

TEST(Report, NotesAndFurtherDevices) {
  ReportOptions options;
  options.notes = {"Training was <left> out."};
  options.devices = {parse_scale_device(
      R"({"name": "toy", "bytes_per_s": 1e12, "flops_per_s": 1e14})", "toy.json")};
  const ReportPage page = make_report(read_results({data("")}), options);
  expect_whole(page);
  EXPECT_THAT(page.text(), HasSubstr("Training was \\<left\\> out."));
  EXPECT_THAT(page.text(), HasSubstr("#### Predicted: 7B on toy"));
}

TEST(Report, TheScaleModelSaysThatItPredicts) {
  const std::string text = make_report(read_results({data("")})).text();
  EXPECT_THAT(text, HasSubstr("Predictions, not measurements"));
  EXPECT_THAT(text, HasSubstr("8 × H200"));
  // 15.3 ms, 0.354 ms a row and 1.56 drafts, checked by hand from the three published figures.
  EXPECT_THAT(text, HasSubstr("fit a pass of 15.3 ms and 0.354 ms for every row, and 1.56"));
}

}  // namespace
}  // namespace clover
