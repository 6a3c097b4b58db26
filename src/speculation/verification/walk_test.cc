// SPDX-License-Identifier: Apache-2.0
#include "speculation/verification/walk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "base/random.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Tokens = std::vector<int32_t>;

// A target that says a fixed text, whatever it is asked: the draw of depth d is text[d]. Notes
// which nodes it was asked at and which tokens were pending there.
struct ScriptedTarget {
  Tokens text;
  Tokens asked = {};
  std::vector<Tokens> pendings = {};

  WalkResult walk_tree(const TokenTree& tree, const std::function<bool(int32_t)>& stop) {
    return walk(
        tree,
        [&](int32_t node, std::span<const int32_t> pending) {
          asked.push_back(node);
          pendings.emplace_back(pending.begin(), pending.end());
          return Draw{.id = text.at(pending.size()), .logprob = -0.5f, .top = {}};
        },
        stop);
  }
  WalkResult walk_tree(const TokenTree& tree) {
    return walk_tree(tree, [](int32_t) { return false; });
  }
};

Tokens ids(const WalkResult& result) {
  Tokens out;
  for (const Draw& draw : result.draws) out.push_back(draw.id);
  return out;
}

TokenTree chain(int32_t root, const Tokens& drafts) {
  TokenTree tree(root);
  int32_t node = 0;
  for (const int32_t token : drafts) node = tree.add(node, token);
  return tree;
}

TEST(Walk, TheRootAloneGivesOneToken) {
  ScriptedTarget target{{11}};
  const WalkResult result = target.walk_tree(TokenTree(9));
  EXPECT_THAT(result.path, ElementsAre(0));
  EXPECT_THAT(ids(result), ElementsAre(11));
  EXPECT_THAT(target.pendings, ElementsAre(IsEmpty()));
}

// A3: a draft that equals the target is accepted whole, and one token more comes out.
TEST(Walk, AChainThatIsAllRightGivesOneTokenMoreA3) {
  for (int32_t k = 1; k <= 8; ++k) {
    Tokens text;
    for (int32_t i = 0; i <= k; ++i) text.push_back(20 + i);
    ScriptedTarget target{text};
    const WalkResult result = target.walk_tree(chain(9, Tokens(text.begin(), text.begin() + k)));
    EXPECT_EQ(ids(result), text);
    EXPECT_EQ(result.path.size(), static_cast<size_t>(k) + 1);
    EXPECT_EQ(result.path.back(), k);
  }
}

// A7: a draft that fails at position i costs nothing that came before, and the target's own token
// stands in its place.
TEST(Walk, ADraftThatFailsKeepsEveryTargetTokenA7) {
  const Tokens text = {20, 21, 22, 23, 24};
  for (size_t wrong = 0; wrong < 4; ++wrong) {
    Tokens drafts(text.begin(), text.begin() + 4);
    drafts[wrong] = 99;
    ScriptedTarget target{text};
    const WalkResult result = target.walk_tree(chain(9, drafts));
    EXPECT_EQ(ids(result), Tokens(text.begin(), text.begin() + static_cast<int64_t>(wrong) + 1));
    EXPECT_EQ(result.path.size(), wrong + 1);
    EXPECT_EQ(result.draws.size(), result.path.size());
  }
}

// A6: among siblings the one that carries the drawn token is taken, wherever it stands.
TEST(Walk, GoesToTheSiblingThatWasDrawnA6) {
  TokenTree tree(9);
  const int32_t a = tree.add(0, 1);
  const int32_t b = tree.add(0, 2);
  const int32_t c = tree.add(0, 3);
  tree.add(a, 5);
  const int32_t below_b = tree.add(b, 5);
  tree.add(c, 5);
  ScriptedTarget second{{2, 5, 7}};
  const WalkResult result = second.walk_tree(tree);
  EXPECT_THAT(result.path, ElementsAre(0, b, below_b));
  EXPECT_THAT(ids(result), ElementsAre(2, 5, 7));
  EXPECT_THAT(second.asked, ElementsAre(0, b, below_b));
  EXPECT_THAT(second.pendings, ElementsAre(IsEmpty(), ElementsAre(2), ElementsAre(2, 5)));

  ScriptedTarget none{{4, 5}};
  EXPECT_THAT(none.walk_tree(tree).path, ElementsAre(0));
  // A token that stands deeper in the tree, or at the root, is not a child.
  ScriptedTarget deeper{{5, 5}};
  EXPECT_THAT(deeper.walk_tree(tree).path, ElementsAre(0));
  ScriptedTarget root{{9, 1}};
  EXPECT_THAT(root.walk_tree(tree).path, ElementsAre(0));
}

// A8: nothing is drawn, kept or counted behind a token that ends the text, though the draft goes
// on and is right.
TEST(Walk, StopsInMidTreeA8) {
  constexpr int32_t kEos = 2;
  const Tokens text = {10, kEos, 11, 12, 13};
  ScriptedTarget target{text};
  Tokens seen;
  const WalkResult result = target.walk_tree(chain(9, text), [&](int32_t token) {
    seen.push_back(token);
    return token == kEos;
  });
  EXPECT_THAT(ids(result), ElementsAre(10, kEos));
  EXPECT_THAT(result.path, ElementsAre(0, 1));
  EXPECT_THAT(seen, ElementsAre(10, kEos));
  EXPECT_THAT(target.asked, ElementsAre(0, 1));
}

// A8: a drafted end of text that the target does not say ends nothing.
TEST(Walk, ARejectedEndOfTextDoesNotStopA8) {
  constexpr int32_t kEos = 2;
  ScriptedTarget target{{10, 11, 12}};
  const WalkResult result =
      target.walk_tree(chain(9, {10, kEos}), [](int32_t token) { return token == kEos; });
  EXPECT_THAT(ids(result), ElementsAre(10, 11));
}

TEST(Walk, KeepsWhatTheDrawCarries) {
  const WalkResult result = walk(
      chain(9, {10}),
      [](int32_t node, std::span<const int32_t>) {
        return Draw{.id = 10 + node,
                    .logprob = -1.0f - static_cast<float>(node),
                    .top = {{.id = node, .logprob = -2.0f}}};
      },
      [](int32_t) { return false; });
  ASSERT_EQ(result.draws.size(), 2U);
  EXPECT_EQ(result.draws[1].logprob, -2.0f);
  ASSERT_EQ(result.draws[1].top.size(), 1U);
  EXPECT_EQ(result.draws[1].top[0].id, 1);
}

TEST(Walk, PassesOnTheErrorOfADraw) {
  EXPECT_THROW(walk(
                   TokenTree(1),
                   [](int32_t, std::span<const int32_t>) -> Draw {
                     fail(ErrorCode::kInvalidArgument, "no token is left");
                   },
                   [](int32_t) { return false; }),
               Error);
}

// Whatever the trees, the text is the target's own (A6, A19).
TEST(Walk, RandomTreesNeverChangeTheText) {
  Tokens text;
  for (uint64_t i = 0; i < 400; ++i)
    text.push_back(static_cast<int32_t>(random_bits(stream_key(1, i), 0) % 4));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Tokens said;
    uint64_t lane = 0;
    while (said.size() < 300) {
      TokenTree tree(said.empty() ? 0 : said.back());
      for (int i = 0; i < 12; ++i) {
        const uint64_t bits = random_bits(stream_key(seed, 7), lane++);
        tree.add(static_cast<int32_t>(bits % static_cast<uint64_t>(tree.size())),
                 static_cast<int32_t>((bits >> 32) % 4));
      }
      ScriptedTarget target{Tokens(text.begin() + static_cast<int64_t>(said.size()), text.end())};
      const WalkResult result = target.walk_tree(tree);
      ASSERT_FALSE(result.draws.empty());
      for (size_t i = 1; i < result.path.size(); ++i) {
        const auto node = static_cast<size_t>(result.path[i]);
        ASSERT_EQ(tree.parents[node], result.path[i - 1]);
        ASSERT_EQ(tree.tokens[node], result.draws[i - 1].id);
      }
      for (const int32_t id : ids(result)) said.push_back(id);
    }
    said.resize(300);
    EXPECT_EQ(said, Tokens(text.begin(), text.begin() + 300));
  }
}

}  // namespace
}  // namespace clover
