// SPDX-License-Identifier: Apache-2.0
#include "speculation/tree/token_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace clover {
namespace {

using ::testing::ElementsAre;

TEST(TokenTree, StartsAsItsRoot) {
  const TokenTree tree(42);
  EXPECT_EQ(tree.size(), 1);
  EXPECT_THAT(tree.tokens, ElementsAre(42));
  EXPECT_THAT(tree.parents, ElementsAre(-1));
  EXPECT_THAT(tree.depths, ElementsAre(0));
  EXPECT_EQ(tree.child(0, 42), -1);
}

//        7
//       / \.
//      1   2
//     / \   \.
//    3   1   3
TEST(TokenTree, AddsDraftsBelowTheirParents) {
  TokenTree tree(7);
  EXPECT_EQ(tree.add(0, 1), 1);
  EXPECT_EQ(tree.add(0, 2), 2);
  EXPECT_EQ(tree.add(1, 3), 3);
  EXPECT_EQ(tree.add(2, 3), 4);
  EXPECT_EQ(tree.add(1, 1), 5);
  EXPECT_THAT(tree.tokens, ElementsAre(7, 1, 2, 3, 3, 1));
  EXPECT_THAT(tree.parents, ElementsAre(-1, 0, 0, 1, 2, 1));
  EXPECT_THAT(tree.depths, ElementsAre(0, 1, 1, 2, 2, 2));
}

TEST(TokenTree, GivesBackAChildThatIsThere) {
  TokenTree tree(7);
  const int32_t a = tree.add(0, 1);
  const int32_t b = tree.add(0, 2);
  const int32_t below_a = tree.add(a, 3);
  EXPECT_EQ(tree.add(0, 2), b);
  EXPECT_EQ(tree.add(a, 3), below_a);
  EXPECT_EQ(tree.size(), 4);
  // The same token below another parent is another node.
  EXPECT_EQ(tree.add(b, 3), 4);
  EXPECT_EQ(tree.depths.back(), 2);
}

TEST(TokenTree, FindsChildrenOfTheRightParentOnly) {
  TokenTree tree(7);
  tree.add(0, 1);
  tree.add(1, 2);
  tree.add(2, 7);
  EXPECT_EQ(tree.child(0, 1), 1);
  EXPECT_EQ(tree.child(0, 2), -1);
  EXPECT_EQ(tree.child(1, 2), 2);
  EXPECT_EQ(tree.child(2, 7), 3);
  EXPECT_EQ(tree.child(3, 7), -1);  // a node is not its own child
  EXPECT_EQ(tree.child(0, 7), -1);
}

TEST(TokenTree, KeepsParentsBeforeChildrenInALongChain) {
  TokenTree tree(0);
  int32_t node = 0;
  for (int32_t i = 1; i <= 100; ++i) node = tree.add(node, 5);
  EXPECT_EQ(tree.size(), 101);
  EXPECT_EQ(tree.depths.back(), 100);
  for (int32_t i = 1; i <= 100; ++i) EXPECT_EQ(tree.parents[static_cast<size_t>(i)], i - 1);
}

}  // namespace
}  // namespace clover
