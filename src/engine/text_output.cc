// SPDX-License-Identifier: Apache-2.0
#include "engine/text_output.h"

#include <algorithm>
#include <utility>

namespace clover {
namespace {

// Length of the longest end of `text` that is a proper beginning of `stop`.
size_t held_back(const std::string& text, const std::string& stop) {
  for (size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n)
    if (text.compare(text.size() - n, n, stop, 0, n) == 0) return n;
  return 0;
}

}  // namespace

TextOutput::TextOutput(const Tokenizer& tokenizer, std::vector<std::string> stop)
    : decoder_(tokenizer, true), stop_(std::move(stop)) {}

bool TextOutput::push(OutputToken token, bool silent) {
  const size_t before = text_.size();
  if (!silent) text_ += decoder_.push(token.id);
  pending_.push_back({std::move(token), text_begin_ + text_.size()});
  size_t cut = std::string::npos;
  for (const std::string& stop : stop_) {
    const size_t from = before >= stop.size() ? before - stop.size() + 1 : 0;
    cut = std::min(cut, text_.find(stop, from));
  }
  if (cut == std::string::npos) return false;
  stopped_ = true;
  text_.resize(cut);
  // A token stays if some of its text does; the one that opened the stop string in mid-token too.
  while (!pending_.empty()) {
    const size_t begin =
        pending_.size() > 1 ? pending_[pending_.size() - 2].text_end : token_begin_;
    if (begin < text_begin_ + cut) break;
    pending_.pop_back();
  }
  return true;
}

Output TextOutput::take(bool all) {
  Output output;
  if (all && !stopped_) text_ += decoder_.finish();
  size_t held = 0;
  if (!all)
    for (const std::string& stop : stop_) held = std::max(held, held_back(text_, stop));
  const size_t certain = text_.size() - held;
  output.text = text_.substr(0, certain);
  text_.erase(0, certain);
  text_begin_ += certain;
  auto token = pending_.begin();
  for (; token != pending_.end(); ++token) {
    // A token that has no text yet, being part of a character, may belong to a stop string.
    const bool kept = stop_.empty() || token_begin_ < text_begin_;
    if (!all && (!kept || token->text_end > text_begin_)) break;
    const size_t end = std::min(token->text_end, text_begin_);
    token->token.text_bytes = static_cast<int64_t>(end - std::min(token_begin_, end));
    token_begin_ = token->text_end;
    output.tokens.push_back(std::move(token->token));
  }
  delivered_ += static_cast<int64_t>(output.tokens.size());
  pending_.erase(pending_.begin(), token);
  return output;
}

}  // namespace clover
