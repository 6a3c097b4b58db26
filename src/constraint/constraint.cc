// SPDX-License-Identifier: Apache-2.0
#include "constraint/constraint.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace clover {
namespace {

using Phase = GrammarFrame::Phase;

// Memory for masks of one constraint.
constexpr size_t kMaskBytes = size_t{2} << 20;

auto fields(const GrammarFrame& f) {
  return std::tie(f.rule, f.phase, f.at, f.count, f.value, f.white, f.utf8, f.negative);
}

}  // namespace

bool Constraint::StackLess::operator()(const GrammarStack& a, const GrammarStack& b) const {
  return std::lexicographical_compare(
      a.begin(), a.end(), b.begin(), b.end(),
      [](const GrammarFrame& x, const GrammarFrame& y) { return fields(x) < fields(y); });
}

Constraint::Constraint(std::shared_ptr<const JsonGrammar> grammar,
                       std::shared_ptr<const TokenWords> words)
    : grammar_(std::move(grammar)),
      words_(std::move(words)),
      machine_(*grammar_),
      most_masks_(std::max<size_t>(16, kMaskBytes / (8 * words_->mask_words() + 1))) {}

ConstraintState Constraint::start() const {
  ConstraintState state;
  machine_.start(state.stacks);
  return state;
}

bool Constraint::advance(ConstraintState& state, int32_t token) const {
  if (state.ended || token < 0 || token >= words_->vocab()) return false;
  if (words_->is_end(token)) {
    state.ended = complete(state);
    state.stacks.clear();
    return state.ended;
  }
  const std::string_view bytes = words_->bytes(token);
  if (bytes.empty()) return false;
  StackSet next;
  for (const char c : bytes) {
    if (!machine_.step(state.stacks, static_cast<uint8_t>(c), next)) return false;
    std::swap(state.stacks, next);
  }
  return true;
}

bool Constraint::complete(const ConstraintState& state) const {
  return !state.ended && machine_.complete(state.stacks);
}

// Between two characters of a string or of a name that may be any.
bool Constraint::inside_string(const GrammarStack& stack) const {
  if (stack.empty()) return false;
  const GrammarFrame& top = stack.back();
  if (grammar_->rule(top.rule).kind == ValueRule::Kind::kString) return top.phase == Phase::kInside;
  return top.phase == Phase::kFreeKey && top.utf8 == Phase::kInside;
}

// What the tokens that may come depend on: how many characters a string may still have does not
// matter as long as no token has so many.
GrammarStack Constraint::cache_key(const GrammarStack& stack) const {
  GrammarStack key = stack;
  if (key.empty()) return key;
  GrammarFrame& top = key.back();
  const ValueRule& rule = grammar_->rule(top.rule);
  if (rule.kind != ValueRule::Kind::kString || rule.max == ValueRule::kUnbounded) return key;
  const int64_t far = rule.max - words_->longest();
  if (top.count > rule.min && top.count < far) top.count = static_cast<int32_t>(rule.min);
  return key;
}

void Constraint::add_tokens(const TokenWords::Tree& tree, const GrammarStack& stack,
                            Mask& mask) const {
  std::vector<StackSet> after(static_cast<size_t>(tree.deepest) + 1);  // [bytes of the way]
  after[0].add(stack);
  const auto count = static_cast<int32_t>(tree.nodes.size());
  for (int32_t i = 0; i < count;) {
    const TokenWords::Node& node = tree.nodes[static_cast<size_t>(i)];
    if (!machine_.step(after[node.depth - 1U], node.byte, after[node.depth])) {
      i = node.end;
      continue;
    }
    for (int32_t t = node.tokens_begin; t < node.tokens_end; ++t)
      allow_token(mask, tree.tokens[static_cast<size_t>(t)]);
    ++i;
  }
}

Constraint::Mask Constraint::find_mask(const GrammarStack& stack) const {
  Mask mask(words_->mask_words(), 0);
  if (!inside_string(stack)) {
    add_tokens(words_->all(), stack, mask);
    return mask;
  }
  const GrammarFrame& top = stack.back();
  const ValueRule& rule = grammar_->rule(top.rule);
  const bool bounded = rule.kind == ValueRule::Kind::kString && rule.max != ValueRule::kUnbounded;
  words_->add_plain(bounded ? rule.max - top.count : ValueRule::kUnbounded - 1, mask);
  add_tokens(words_->leaving(), stack, mask);
  return mask;
}

void Constraint::allowed(const ConstraintState& state, std::vector<uint64_t>& mask) const {
  mask.assign(words_->mask_words(), 0);
  if (state.ended) return;
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < state.stacks.size(); ++i) {
    const GrammarStack key = cache_key(state.stacks[i]);
    auto known = masks_.find(key);
    if (known == masks_.end()) {
      if (masks_.size() >= most_masks_) masks_.clear();
      known = masks_.emplace(key, find_mask(key)).first;
    }
    for (size_t w = 0; w < mask.size(); ++w) mask[w] |= known->second[w];
  }
  if (!complete(state)) return;
  for (const int32_t token : words_->ends()) allow_token(mask, token);
}

}  // namespace clover
