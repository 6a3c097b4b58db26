// SPDX-License-Identifier: Apache-2.0
#include "speculation/planner/tree_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Adds children with the given probabilities below `parent`, best first; returns the first.
int32_t family(DraftPool& pool, int32_t parent, const std::vector<float>& probabilities) {
  const int32_t first = pool.size();
  pool[parent].first_child = first;
  pool[parent].children = static_cast<int32_t>(probabilities.size());
  for (size_t i = 0; i < probabilities.size(); ++i) {
    DraftPool::Entry entry;
    entry.parent = parent;
    entry.token = static_cast<int32_t>(100 * parent + static_cast<int32_t>(i));
    entry.depth = pool[parent].depth + 1;
    entry.rank = static_cast<int32_t>(i);
    entry.probability = probabilities[i];
    entry.joint = pool[parent].joint * probabilities[i];
    pool.entries.push_back(entry);
  }
  return first;
}

DraftPool root() {
  DraftPool pool;
  pool.reset(7);
  return pool;
}

TEST(TreePolicy, NamesGoBothWays) {
  for (const char* name :
       {"auto", "1", "25", "256", "chain3", "fixed25", "clover1", "8x2", "256x1"})
    EXPECT_EQ(TreePolicy::parse(name).name(), name);
  for (const char* name :
       {"", "0", "-1", "257", "4x", "chain", "chain0", "Auto", "fixed", "1e3", "x4", "4x0", "4x257",
        "4x2x1", "4 x2", "chain3x2", "99999999999999999999"})
    EXPECT_THROW(TreePolicy::parse(name), Error) << name;
}

TEST(TreePolicy, NodesAreTheLikeliestWithTheirParents) {
  DraftPool pool = root();
  const int32_t a = family(pool, 0, {0.6f, 0.3f, 0.05f});  // 1 2 3
  const int32_t b = family(pool, a, {0.9f, 0.05f});        // 4 (.54), 5 (.03)
  family(pool, a + 1, {0.5f});                             // 6 (.15)
  family(pool, b, {0.9f});                                 // 7 (.486)
  const auto nodes = [&](int64_t n) { return tree_nodes(TreePolicy::parse("64"), pool, n); };
  EXPECT_THAT(nodes(1), ElementsAre(1));
  EXPECT_THAT(nodes(3), ElementsAre(1, 4, 7));
  EXPECT_THAT(nodes(5), ElementsAre(1, 2, 4, 6, 7));
  EXPECT_THAT(nodes(100), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(nodes(0), IsEmpty());
  EXPECT_THAT(tree_nodes(TreePolicy::parse("2"), pool, 100), ElementsAre(1, 4));
}

TEST(TreePolicy, AChainFollowsTheBestChild) {
  DraftPool pool = root();
  family(pool, 0, {0.3f, 0.2f});  // 1 2
  family(pool, 1, {0.1f});        // 3
  family(pool, 2, {0.99f});       // 4
  family(pool, 3, {0.5f, 0.4f});  // 5 6
  EXPECT_THAT(tree_nodes(TreePolicy::parse("chain9"), pool, 9), ElementsAre(1, 3, 5));
  EXPECT_THAT(tree_nodes(TreePolicy::parse("chain2"), pool, 9), ElementsAre(1, 3));
}

// All of EAGLE-1's shape where every node has four children, five deep.
TEST(TreePolicy, TheFixedShapeHasTwentyFiveNodes) {
  DraftPool pool = root();
  const TreePolicy policy = TreePolicy::parse("fixed25");
  std::vector<int32_t> frontier{0};
  std::vector<size_t> expanded;
  for (int depth = 0; depth < 7; ++depth) {
    const int32_t begin = pool.size();
    for (const int32_t at : frontier) family(pool, at, {0.4f, 0.3f, 0.2f, 0.1f});
    expanded.push_back(frontier.size());
    frontier = tree_frontier(policy, pool, begin, pool.size(), 0.0f);
  }
  EXPECT_THAT(expanded, ElementsAre(1, 4, 4, 1, 1, 0, 0));
  const std::vector<int32_t> nodes = tree_nodes(policy, pool, 25);
  EXPECT_EQ(nodes.size(), 25u);
  std::vector<int64_t> by_depth(6, 0);
  std::vector<bool> in(static_cast<size_t>(pool.size()), false);
  in[0] = true;
  for (const int32_t node : nodes) {
    EXPECT_TRUE(in[static_cast<size_t>(pool[node].parent)]);
    in[static_cast<size_t>(node)] = true;
    ++by_depth[static_cast<size_t>(pool[node].depth)];
  }
  EXPECT_THAT(by_depth, ElementsAre(0, 4, 8, 8, 3, 2));
  EXPECT_EQ(tree_nodes(policy, pool, 10).size(), 10u);
}

// Clover-1: tokens inside the first 0.8 and with at least a quarter of the best, by joint
// probability, each depth with what the depths before it left.
TEST(TreePolicy, Clover1KeepsWhatIsLikelyAndSpendsDepthByDepth) {
  DraftPool sharp = root();
  family(sharp, 0, {0.85f, 0.1f});       // 1 2: the second lies beyond 0.8
  family(sharp, 1, {0.5f, 0.2f, 0.1f});  // 3 4 5: 0.1 is less than a quarter of 0.5
  family(sharp, 3, {0.7f});
  EXPECT_THAT(tree_nodes(TreePolicy::parse("clover1"), sharp, 64), ElementsAre(1, 3, 4, 6));
  DraftPool flat = root();
  family(flat, 0, {0.2f, 0.18f, 0.16f, 0.14f, 0.12f});
  family(flat, 1, {0.9f});
  EXPECT_THAT(tree_nodes(TreePolicy::parse("clover1"), flat, 64), ElementsAre(1, 2, 3, 4));
}

TEST(TreePolicy, TheFrontierLeavesOutWhatIsOfNoUse) {
  DraftPool pool = root();
  family(pool, 0, {0.5f, 0.3f, 0.1f, 0.02f});
  EXPECT_THAT(tree_frontier(TreePolicy::parse("auto"), pool, 1, 5, 0.05f), ElementsAre(1, 2, 3));
  EXPECT_THAT(tree_frontier(TreePolicy::parse("2"), pool, 1, 5, 0.0f), ElementsAre(1, 2));
}

}  // namespace
}  // namespace clover
