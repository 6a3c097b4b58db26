// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/chat_template/marked_text.h"

#include <algorithm>

namespace clover {

MarkedText::MarkedText(std::string bytes, bool trusted) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), trusted});
}

void MarkedText::append(std::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  if (!runs_.empty() && runs_.back().trusted == trusted) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), trusted});
  }
}

void MarkedText::append(const MarkedText& other) { append(other, 0, other.size()); }

void MarkedText::append(const MarkedText& other, size_t begin, size_t end) {
  end = std::min(end, other.size());
  for (size_t run = begin < end ? other.run_of(begin) : 0; begin < end; ++run) {
    const size_t stop = std::min(end, other.runs_[run].end);
    append(std::string_view(other.bytes_).substr(begin, stop - begin), other.runs_[run].trusted);
    begin = stop;
  }
}

MarkedText MarkedText::slice(size_t begin, size_t end) const {
  MarkedText result;
  result.append(*this, begin, end);
  return result;
}

size_t MarkedText::run_of(size_t byte) const {
  const auto found = std::upper_bound(runs_.begin(), runs_.end(), byte,
                                      [](size_t at, const Run& run) { return at < run.end; });
  return static_cast<size_t>(found - runs_.begin());
}

bool MarkedText::trusted_at(size_t byte) const {
  return byte < size() && runs_[run_of(byte)].trusted;
}

bool MarkedText::all_trusted(size_t begin, size_t end) const {
  end = std::min(end, size());
  if (begin >= end) {
    return (begin == 0 || trusted_at(begin - 1)) && (begin >= size() || trusted_at(begin));
  }
  const size_t run = run_of(begin);
  return runs_[run].trusted && end <= runs_[run].end;
}

std::vector<TextSpan> MarkedText::spans() const {
  std::vector<TextSpan> result;
  size_t begin = 0;
  for (const Run& run : runs_) {
    result.push_back({bytes_.substr(begin, run.end - begin), run.trusted});
    begin = run.end;
  }
  return result;
}

}  // namespace clover
