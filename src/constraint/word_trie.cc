// SPDX-License-Identifier: Apache-2.0
#include "constraint/word_trie.h"

namespace clover {

int32_t WordTrie::child(int32_t node, uint8_t byte) const {
  for (const auto& [label, child] : nodes_[static_cast<size_t>(node)].children)
    if (label == byte) return child;
  return -1;
}

void WordTrie::add(std::string_view word, int32_t number) {
  std::vector<int32_t> way = {0};
  for (const char c : word) {
    const auto byte = static_cast<uint8_t>(c);
    int32_t next = child(way.back(), byte);
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      nodes_[static_cast<size_t>(way.back())].children.emplace_back(byte, next);
      nodes_.emplace_back();
    }
    way.push_back(next);
  }
  Node& end = nodes_[static_cast<size_t>(way.back())];
  if (end.word >= 0) return;
  end.word = number;
  for (const int32_t node : way) nodes_[static_cast<size_t>(node)].below.push_back(number);
}

}  // namespace clover
