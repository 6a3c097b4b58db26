// SPDX-License-Identifier: Apache-2.0
#include "speculation/planner/tree_policy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace clover {
namespace {

constexpr int64_t kMaxNodes = 256;
constexpr int64_t kClover1Nodes = 4;  // the size of the paper's experiments
constexpr float kClover1TopP = 0.8f;
constexpr float kClover1Share = 0.25f;  // of the best sibling's probability

// A node of the fixed shape: its rank among its siblings under the node `parent` of this list (-1:
// the root). Parents first.
struct ShapeNode {
  int32_t parent;
  int32_t rank;
};
constexpr std::array<ShapeNode, 25> kShape25 = {{
    {-1, 0}, {-1, 1}, {-1, 2}, {-1, 3},                                  // 0-3
    {0, 0},  {0, 1},  {0, 2},  {1, 0},  {1, 1}, {2, 0}, {2, 1}, {3, 0},  // 4-11
    {4, 0},  {4, 1},  {4, 2},  {5, 0},  {5, 1}, {6, 0}, {6, 1}, {7, 0},  // 12-19
    {12, 0}, {12, 1}, {12, 2},                                           // 20-22
    {20, 0}, {20, 1},                                                    // 23-24
}};

// A number from 1 to kMaxNodes; 0 for anything else.
int64_t tree_number(std::string_view digits) {
  int64_t number = 0;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = error == std::errc() && rest == digits.data() + digits.size();
  return whole && number >= 1 && number <= kMaxNodes ? number : 0;
}

// Entry of every shape node, -1 where the pool has none.
std::array<int32_t, kShape25.size()> place_shape(const DraftPool& pool) {
  std::array<int32_t, kShape25.size()> place{};
  for (size_t i = 0; i < kShape25.size(); ++i) {
    const int32_t parent =
        kShape25[i].parent < 0 ? 0 : place[static_cast<size_t>(kShape25[i].parent)];
    place[i] = -1;
    if (parent < 0) continue;
    const DraftPool::Entry& entry = pool[parent];
    for (int32_t c = entry.first_child; c < entry.first_child + entry.children; ++c)
      if (pool[c].rank == kShape25[i].rank) place[i] = c;
  }
  return place;
}

bool likelier(const DraftPool& pool, int32_t a, int32_t b) {
  if (pool[a].joint != pool[b].joint) return pool[a].joint > pool[b].joint;
  return a < b;
}

// The `count` likeliest of `entries`, ascending by number (parents before children).
std::vector<int32_t> likeliest(const DraftPool& pool, std::vector<int32_t> entries, int64_t count) {
  if (static_cast<int64_t>(entries.size()) > count) {
    const auto end = entries.begin() + count;
    std::partial_sort(entries.begin(), end, entries.end(),
                      [&](int32_t a, int32_t b) { return likelier(pool, a, b); });
    entries.erase(end, entries.end());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

// The children of `parent` that Clover-1 keeps: inside the first kClover1TopP of probability and
// not far below the best.
void keep_clover1(const DraftPool& pool, int32_t parent, std::vector<int32_t>& kept) {
  const DraftPool::Entry& entry = pool[parent];
  std::vector<int32_t> children(static_cast<size_t>(entry.children));
  std::iota(children.begin(), children.end(), entry.first_child);
  std::sort(children.begin(), children.end(),
            [&](int32_t a, int32_t b) { return pool[a].rank < pool[b].rank; });
  float before = 0.0f;
  for (const int32_t child : children) {
    const float p = pool[child].probability;
    if (before >= kClover1TopP || p < kClover1Share * pool[children.front()].probability) break;
    kept.push_back(child);
    before += p;
  }
}

// Depth by depth; each depth may take what the depths before it left.
std::vector<int32_t> clover1_nodes(const DraftPool& pool, int64_t nodes) {
  std::vector<int32_t> all;
  std::vector<int32_t> level{0};
  while (!level.empty() && static_cast<int64_t>(all.size()) < nodes) {
    std::vector<int32_t> kept;
    for (const int32_t parent : level) keep_clover1(pool, parent, kept);
    level = likeliest(pool, std::move(kept), nodes - static_cast<int64_t>(all.size()));
    all.insert(all.end(), level.begin(), level.end());
  }
  return all;
}

std::vector<int32_t> chain_nodes(const DraftPool& pool, int64_t nodes) {
  std::vector<int32_t> chain;
  for (int32_t at = 0; static_cast<int64_t>(chain.size()) < nodes;) {
    const DraftPool::Entry& entry = pool[at];
    int32_t best = -1;
    for (int32_t c = entry.first_child; c < entry.first_child + entry.children; ++c)
      if (pool[c].rank == 0) best = c;
    if (best < 0) break;
    chain.push_back(best);
    at = best;
  }
  return chain;
}

}  // namespace

TreePolicy TreePolicy::parse(std::string_view text) {
  if (text == "auto") return {};
  if (text == "fixed25") return {Kind::kFixed25, static_cast<int64_t>(kShape25.size())};
  if (text == "clover1") return {Kind::kClover1, kClover1Nodes};
  const bool chain = text.starts_with("chain");
  const std::string_view numbers = chain ? text.substr(5) : text;
  const size_t cross = chain ? std::string_view::npos : numbers.find('x');
  const int64_t nodes = tree_number(numbers.substr(0, cross));
  const int64_t depth =
      cross == std::string_view::npos ? kUnlimitedDepth : tree_number(numbers.substr(cross + 1));
  if (nodes < 1 || depth < 1) {
    fail(ErrorCode::kInvalidArgument,
         "tree '{}' is not auto, a number of nodes from 1 to {}, NxD (N nodes, D deep), chainN, "
         "fixed25 or clover1",
         text, kMaxNodes);
  }
  return {chain ? Kind::kChain : Kind::kNodes, nodes, depth};
}

std::string TreePolicy::name() const {
  switch (kind) {
    case Kind::kAuto:
      return "auto";
    case Kind::kNodes:
      return depth == kUnlimitedDepth ? std::to_string(nodes) : fmt::format("{}x{}", nodes, depth);
    case Kind::kChain:
      return "chain" + std::to_string(nodes);
    case Kind::kFixed25:
      return "fixed25";
    case Kind::kClover1:
      return "clover1";
  }
  return "";
}

std::vector<int32_t> tree_frontier(const TreePolicy& policy, const DraftPool& pool, int32_t begin,
                                   int32_t end, float least) {
  std::vector<int32_t> entries;
  switch (policy.kind) {
    case TreePolicy::Kind::kFixed25: {
      const auto place = place_shape(pool);
      for (const ShapeNode& node : kShape25) {
        const int32_t entry = node.parent < 0 ? -1 : place[static_cast<size_t>(node.parent)];
        if (entry >= begin && entry < end && (entries.empty() || entries.back() != entry))
          entries.push_back(entry);
      }
      return entries;
    }
    case TreePolicy::Kind::kClover1: {
      for (const int32_t entry : clover1_nodes(pool, policy.nodes))
        if (entry >= begin && entry < end) entries.push_back(entry);
      return entries;
    }
    case TreePolicy::Kind::kChain: {
      for (const int32_t entry : chain_nodes(pool, policy.nodes))
        if (entry >= begin && entry < end) entries.push_back(entry);
      return entries;
    }
    case TreePolicy::Kind::kAuto:
    case TreePolicy::Kind::kNodes:
      break;
  }
  for (int32_t i = begin; i < end; ++i)
    if (pool[i].joint >= least) entries.push_back(i);
  return likeliest(pool, std::move(entries), policy.nodes);
}

std::vector<int32_t> tree_nodes(const TreePolicy& policy, const DraftPool& pool, int64_t nodes) {
  nodes = std::min(nodes, policy.nodes);
  std::vector<int32_t> all;
  switch (policy.kind) {
    case TreePolicy::Kind::kFixed25:
      for (const int32_t entry : place_shape(pool))
        if (entry >= 0 && static_cast<int64_t>(all.size()) < nodes) all.push_back(entry);
      return all;
    case TreePolicy::Kind::kClover1:
      return clover1_nodes(pool, nodes);
    case TreePolicy::Kind::kChain:
      return chain_nodes(pool, nodes);
    case TreePolicy::Kind::kAuto:
    case TreePolicy::Kind::kNodes:
      break;
  }
  all.resize(static_cast<size_t>(pool.size()) - 1);
  std::iota(all.begin(), all.end(), 1);
  return likeliest(pool, std::move(all), nodes);
}

}  // namespace clover
