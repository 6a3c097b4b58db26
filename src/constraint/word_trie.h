// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace clover {

// Words over bytes, each with a number. Node 0 is the root.
class WordTrie {
 public:
  WordTrie() : nodes_(1) {}

  // Numbers must ascend from call to call. A word that is there already keeps its number.
  void add(std::string_view word, int32_t number);
  bool empty() const { return nodes_.front().below.empty(); }
  // -1 when no word goes on like that.
  int32_t child(int32_t node, uint8_t byte) const;
  // The number of the word that ends here, or -1.
  int32_t word_at(int32_t node) const { return nodes_[static_cast<size_t>(node)].word; }
  bool leaf(int32_t node) const { return nodes_[static_cast<size_t>(node)].children.empty(); }
  // Numbers of the words that begin with the way to this node, ascending.
  std::span<const int32_t> below(int32_t node) const {
    return nodes_[static_cast<size_t>(node)].below;
  }

 private:
  struct Node {
    std::vector<std::pair<uint8_t, int32_t>> children;
    std::vector<int32_t> below;
    int32_t word = -1;
  };
  std::vector<Node> nodes_;
};

}  // namespace clover
