// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace clover {

// UTF-8 text in which every byte knows whether it stands in the template (trusted) or came from
// data. The rules, which lean to untrusted where a character has no single origin:
//  - cutting, joining, repeating and changing case keep each character's mark;
//  - a replacement inside untrusted text is untrusted, since the data chose where it goes;
//  - quotes, brackets and escapes that printing a list or tojson adds are untrusted;
//  - printed numbers, booleans and None are trusted unless the value itself came from data.
class MarkedText {
 public:
  MarkedText() = default;
  MarkedText(std::string bytes, bool trusted);

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  void append(std::string_view bytes, bool trusted);
  void append(const MarkedText& other);
  // Bytes [begin, end) of `other`.
  void append(const MarkedText& other, size_t begin, size_t end);
  MarkedText slice(size_t begin, size_t end) const;

  bool trusted_at(size_t byte) const;
  // Whether bytes [begin, end) are all trusted; true for an empty range in trusted surroundings.
  bool all_trusted(size_t begin, size_t end) const;
  bool all_trusted() const { return all_trusted(0, size()); }

  // The runs of equal trust, none empty.
  std::vector<TextSpan> spans() const;

 private:
  struct Run {
    size_t end;  // first byte after the run
    bool trusted;
  };
  size_t run_of(size_t byte) const;

  std::string bytes_;
  std::vector<Run> runs_;  // ascending, neighbours differ in trust
};

}  // namespace clover
