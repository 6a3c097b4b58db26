// SPDX-License-Identifier: Apache-2.0
#include "speculation/planner/drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// Says the same after the same token, always; counts how often it is asked.
class FixedSpeculator : public Speculator {
 public:
  using Table = std::map<int32_t, std::vector<Candidate>>;
  explicit FixedSpeculator(Table table, bool costly = false, int64_t* rounds = nullptr)
      : table_(std::move(table)), costly_(costly), rounds_(rounds) {}
  std::string_view name() const override { return "table"; }
  int32_t bins() const override { return 4; }
  int32_t max_depth() const override { return 5; }
  bool costly() const override { return costly_; }
  void begin(int64_t) override {}
  void end(int64_t) override {}
  void observe(const ObservedPass&) override {}
  void start(std::span<const DraftSequence>) override {
    if (rounds_) ++*rounds_;
  }
  void expand(std::span<const DraftNode> nodes, int32_t,
              std::vector<std::vector<Candidate>>& out) override {
    out.clear();
    for (const DraftNode& node : nodes) {
      const auto it = table_.find(node.token);
      out.push_back(it == table_.end() ? std::vector<Candidate>{} : it->second);
    }
  }

 private:
  Table table_;
  bool costly_;
  int64_t* rounds_;
};

CostCurve curve() { return CostCurve::of({1, 2, 4, 8, 16}, {3.0, 3.1, 3.4, 4.8, 9.0}); }

Drafter make(std::vector<FixedSpeculator::Table> tables, const char* tree) {
  std::vector<std::unique_ptr<Speculator>> all;
  for (auto& table : tables) all.push_back(std::make_unique<FixedSpeculator>(std::move(table)));
  return {std::move(all), TreePolicy::parse(tree), curve()};
}

DraftRequest request(const std::vector<int32_t>& tokens, int64_t nodes = 32, int64_t depth = 32) {
  DraftRequest r;
  r.sequence.id = 1;
  r.sequence.tokens = tokens;
  r.sequence.draft_slots = nodes;
  r.max_nodes = nodes;
  r.max_depth = depth;
  return r;
}

TEST(Drafter, GrowsAChainAcrossSources) {
  // One source knows 1 → 2 and 3 → 4, the other 2 → 3: together they bridge each other's gaps.
  Drafter drafter = make({{{1, {{2, 0.9f, 0}}}, {3, {{4, 0.9f, 0}}}}, {{2, {{3, 0.9f, 0}}}}}, "8");
  const std::vector<int32_t> tokens = {9, 1};
  const DraftRequest one = request(tokens);
  const auto trees = drafter.draft({&one, 1}, 0);
  ASSERT_THAT(trees, SizeIs(1));
  EXPECT_THAT(trees[0].tokens, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(trees[0].parents, ElementsAre(-1, 0, 1, 2));
}

TEST(Drafter, PromptRowsDoNotMakeDraftsCheap) {
  // A second row takes 0.1 ms of a step of 3 ms and has to bring 0.033 tokens; behind 100 prompt
  // rows it takes 0.525 ms and has to bring 0.175, although the step is long.
  const std::vector<int32_t> tokens = {1};
  const DraftRequest one = request(tokens);
  const auto nodes = [&](float probability, int64_t prompt_rows) {
    Drafter drafter = make({{{1, {{2, probability, 0}}}}}, "auto");
    return drafter.draft({&one, 1}, prompt_rows)[0].size() - 1;
  };
  EXPECT_EQ(nodes(0.12f, 0), 1);
  EXPECT_EQ(nodes(0.12f, 100), 0);
  EXPECT_EQ(nodes(0.5f, 100), 1);
}

TEST(Drafter, MergesWhatSourcesAgreeOn) {
  Drafter drafter =
      make({{{1, {{2, 0.6f, 0}, {5, 0.2f, 1}}}}, {{1, {{5, 0.5f, 0}, {6, 0.1f, 1}}}}}, "8");
  const std::vector<int32_t> tokens = {1};
  const DraftRequest one = request(tokens);
  const auto trees = drafter.draft({&one, 1}, 0);
  EXPECT_EQ(trees[0].size(), 4);  // root, 2, 5 once, 6
}

TEST(Drafter, KeepsToTheLimitsOfARequest) {
  FixedSpeculator::Table loop;
  for (int32_t t = 0; t < 4; ++t) loop[t] = {{(t + 1) % 4, 0.8f, 0}, {(t + 2) % 4, 0.1f, 1}};
  Drafter drafter = make({loop}, "64");
  const std::vector<int32_t> tokens = {1};
  for (const int64_t nodes : {0, 1, 5}) {
    for (const int64_t depth : {0, 1, 3}) {
      const DraftRequest one = request(tokens, nodes, depth);
      const auto trees = drafter.draft({&one, 1}, 0);
      EXPECT_LE(trees[0].size() - 1, nodes);
      EXPECT_LE(*std::max_element(trees[0].depths.begin(), trees[0].depths.end()), depth);
      EXPECT_EQ(trees[0].size() > 1, nodes > 0 && depth > 0);
    }
  }
}

// Likely drafts are worth their rows, unlikely ones are not.
TEST(Drafter, AutoTakesWhatPays) {
  Drafter likely = make({{{1, {{2, 0.9f, 0}}}, {2, {{3, 0.9f, 0}}}}}, "auto");
  Drafter unlikely = make({{{1, {{2, 0.02f, 0}}}}}, "auto");
  const std::vector<int32_t> tokens = {1};
  const DraftRequest one = request(tokens);
  EXPECT_EQ(likely.draft({&one, 1}, 0)[0].size(), 3);
  EXPECT_EQ(unlikely.draft({&one, 1}, 0)[0].size(), 1);
}

// Rows are shared between sequences where they pay most.
TEST(Drafter, AutoGivesRowsToTheSequenceThatUsesThem) {
  FixedSpeculator::Table table;
  for (int32_t t = 10; t < 15; ++t) table[t] = {{t + 1, 0.95f, 0}};
  table[1] = {{2, 0.12f, 1}};
  Drafter drafter = make({table}, "auto");
  const std::vector<int32_t> good = {10};
  const std::vector<int32_t> bad = {1};
  std::vector<DraftRequest> both = {request(bad), request(good)};
  both[1].sequence.id = 2;
  const auto trees = drafter.draft(both, 0);
  EXPECT_EQ(trees[0].size(), 1);
  EXPECT_GE(trees[1].size(), 4);
  // Many rows besides: the pass is bound by arithmetic, and a draft has to be surer.
  EXPECT_LE(drafter.draft(both, 100)[1].size(), trees[1].size());
}

TEST(Drafter, LearnsThatASourceIsWrongAndStops) {
  Drafter drafter = make({{{1, {{2, 0.9f, 0}}}}}, "auto");
  const std::vector<int32_t> tokens = {1};
  const DraftRequest one = request(tokens);
  const std::vector<int32_t> path = {0};
  const std::vector<int32_t> drawn = {7};
  int drafted = 0;
  for (int i = 0; i < 300; ++i) {
    const auto trees = drafter.draft({&one, 1}, 0);
    drafted += trees[0].size() - 1;
    const DraftOutcome outcome{path, drawn};
    drafter.learn({&outcome, 1});
  }
  EXPECT_GT(drafted, 0);
  EXPECT_LT(drafted, 150);
  // What it says is watched without being checked: once it is right it is believed again.
  const std::vector<int32_t> right = {2};
  int believed = 0;
  for (int i = 0; i < 600; ++i) {
    believed += drafter.draft({&one, 1}, 0)[0].size() - 1;
    const DraftOutcome outcome{path, right};
    drafter.learn({&outcome, 1});
  }
  EXPECT_GT(believed, 100);
}

// A costly source that adds nothing is asked in trials only.
TEST(Drafter, PausesACostlySourceThatAddsNothing) {
  int64_t rounds = 0;
  std::vector<std::unique_ptr<Speculator>> all;
  all.push_back(std::make_unique<FixedSpeculator>(FixedSpeculator::Table{{1, {{2, 0.9f, 0}}}}));
  all.push_back(std::make_unique<FixedSpeculator>(FixedSpeculator::Table{{1, {{2, 0.9f, 0}}}}, true,
                                                  &rounds));
  Drafter drafter(std::move(all), TreePolicy::parse("auto"), curve());
  const std::vector<int32_t> tokens = {1};
  const DraftRequest one = request(tokens);
  const std::vector<int32_t> path = {0};
  const std::vector<int32_t> drawn = {7};
  for (int i = 0; i < 4000; ++i) {
    drafter.draft({&one, 1}, 0);
    const DraftOutcome outcome{path, drawn};
    drafter.learn({&outcome, 1});
  }
  EXPECT_GT(rounds, 8);
  EXPECT_LT(rounds, 3000);
}

// Where the drawn tokens stood: 1 → {2 (0.6), 5 (0.3)}, 5 → {6, 7}; 7 has no candidates.
TEST(Drafter, CountsTheRanksOfDrawnTokens) {
  Drafter drafter = make(
      {{{1, {{2, 0.6f, 0}, {5, 0.3f, 1}}}, {5, {{6, 0.5f, 0}, {7, 0.4f, 1}}}, {2, {{3, 0.9f, 0}}}}},
      "16");
  const std::vector<int32_t> tokens = {1};
  const DraftRequest one = request(tokens);
  const auto trees = drafter.draft({&one, 1}, 0);
  ASSERT_THAT(trees, SizeIs(1));
  std::vector<int32_t> path = {0};
  for (const int32_t token : {5, 7})
    for (int32_t n = 0; n < trees[0].size(); ++n)
      if (trees[0].tokens[static_cast<size_t>(n)] == token &&
          trees[0].parents[static_cast<size_t>(n)] == path.back()) {
        path.push_back(n);
        break;
      }
  ASSERT_THAT(path, SizeIs(3));
  const std::vector<int32_t> drawn = {5, 7, 9};
  const DraftOutcome outcome{path, drawn};
  drafter.learn({&outcome, 1});
  const DraftRanks& ranks = drafter.ranks();
  EXPECT_EQ(ranks.asked(0, 0), 1);
  EXPECT_EQ(ranks.at(0, 0, 1), 1);  // 5 was second
  EXPECT_EQ(ranks.asked(1, 1), 1);  // below a second choice
  EXPECT_EQ(ranks.at(1, 1, 1), 1);  // 7 was second
  EXPECT_EQ(ranks.asked(1, 0), 0);
  EXPECT_EQ(ranks.asked(2, 1), 1);  // 7 had been asked, and named nothing
  for (int32_t rank = 0; rank < DraftRanks::kRanks; ++rank) EXPECT_EQ(ranks.at(2, 1, rank), 0);
}

TEST(DraftRanks, DeepAndLateOnesHaveAPlace) {
  DraftRanks ranks;
  ranks.add(DraftRanks::kDepths, 0, 0);  // left out
  ranks.add(0, 100, 100);
  ranks.add(0, 100, -1);
  EXPECT_EQ(ranks.asked(0, DraftRanks::kRanks - 1), 2);
  EXPECT_EQ(ranks.at(0, DraftRanks::kRanks - 1, DraftRanks::kRanks - 1), 1);
}

TEST(Drafter, ATreeOfLimitedDepth) {
  const FixedSpeculator::Table chain = {
      {1, {{2, 0.9f, 0}}}, {2, {{3, 0.9f, 0}}}, {3, {{4, 0.9f, 0}}}};
  const std::vector<int32_t> tokens = {1};
  const DraftRequest one = request(tokens);
  EXPECT_THAT(make({chain}, "8x2").draft({&one, 1}, 0)[0].tokens, ElementsAre(1, 2, 3));
  EXPECT_THAT(make({chain}, "8x1").draft({&one, 1}, 0)[0].tokens, ElementsAre(1, 2));
  EXPECT_THAT(make({chain}, "8").draft({&one, 1}, 0)[0].tokens, ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace clover
