// SPDX-License-Identifier: Apache-2.0
#include "kv/prefix_index.h"

#include <algorithm>

#include "base/random.h"

namespace clover {
namespace {

uint64_t hash_of(int64_t parent, std::span<const int32_t> ids) {
  return mix_all(mix64(static_cast<uint64_t>(parent)), ids);
}

}  // namespace

int64_t PrefixIndex::child(int64_t parent, std::span<const int32_t> ids) const {
  const auto [begin, end] = by_hash_.equal_range(hash_of(parent, ids));
  for (auto it = begin; it != end; ++it) {
    const Node& node = nodes_.at(it->second);
    if (node.parent == parent && std::ranges::equal(node.ids, ids)) return it->second;
  }
  return -1;
}

// A use makes a node and all before it the last to go; only leaves stand in the order.
void PrefixIndex::touch(int64_t node) {
  for (; node >= 0; node = nodes_.at(node).parent) {
    Node& n = nodes_.at(node);
    if (n.children == 0) leaves_.erase(n.used);
    n.used = ++clock_;
    if (n.children == 0) leaves_.emplace(n.used, node);
  }
}

std::vector<int32_t> PrefixIndex::find(std::span<const int32_t> tokens) {
  const auto size = static_cast<size_t>(pool_.block_tokens());
  std::vector<int32_t> blocks;
  int64_t node = -1;
  for (size_t begin = 0; begin + size <= tokens.size(); begin += size) {
    const int64_t next = child(node, tokens.subspan(begin, size));
    if (next < 0) break;
    node = next;
    blocks.push_back(nodes_.at(node).block);
  }
  touch(node);
  return blocks;
}

int64_t PrefixIndex::add(int64_t parent, std::span<const int32_t> ids, int32_t block) {
  const int64_t id = next_node_++;
  Node node{.parent = parent,
            .block = block,
            .used = ++clock_,
            .hash = hash_of(parent, ids),
            .ids = {ids.begin(), ids.end()}};
  if (parent >= 0) {
    Node& above = nodes_.at(parent);
    if (above.children++ == 0) leaves_.erase(above.used);
  }
  by_hash_.emplace(node.hash, id);
  leaves_.emplace(node.used, id);
  nodes_.emplace(id, std::move(node));
  return id;
}

PrefixIndex::Known PrefixIndex::publish(int64_t sequence, std::span<const int32_t> tokens,
                                        const Known& known) {
  const int64_t size = pool_.block_tokens();
  const int64_t full = pool_.committed(sequence) / size;
  Known now = known.epoch == epoch_ ? known : Known{};
  for (; now.blocks < full; ++now.blocks) {
    const auto ids =
        tokens.subspan(static_cast<size_t>(now.blocks * size), static_cast<size_t>(size));
    int64_t node = child(now.node, ids);
    if (node < 0) node = add(now.node, ids, pool_.share(sequence, now.blocks));
    now.node = node;
  }
  now.epoch = epoch_;
  return now;
}

bool PrefixIndex::drop_one() {
  for (auto it = leaves_.begin(); it != leaves_.end(); ++it) {
    const int64_t id = it->second;
    const Node& node = nodes_.at(id);
    if (pool_.in_use(node.block)) continue;
    const auto [begin, end] = by_hash_.equal_range(node.hash);
    by_hash_.erase(
        std::find_if(begin, end, [id](const auto& entry) { return entry.second == id; }));
    leaves_.erase(it);
    pool_.unshare(node.block);
    if (node.parent >= 0) {
      Node& above = nodes_.at(node.parent);
      if (--above.children == 0) leaves_.emplace(above.used, node.parent);
    }
    nodes_.erase(id);
    ++epoch_;
    return true;
  }
  return false;
}

bool PrefixIndex::make_room(int64_t wanted) {
  while (pool_.free_blocks() < wanted)
    if (!drop_one()) return false;
  return true;
}

}  // namespace clover
