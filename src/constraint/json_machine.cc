// SPDX-License-Identifier: Apache-2.0
#include "constraint/json_machine.h"

#include <algorithm>

namespace clover {
namespace {

using Phase = GrammarFrame::Phase;
using Kind = ValueRule::Kind;

// White space within the container whose frame this is; `open` containers are.
bool step_white(GrammarFrame& frame, uint8_t byte, size_t open) {
  if (byte == ' ' && frame.white == 0) {
    frame.white = 1;
    return true;
  }
  if (byte == '\n' && frame.white == 0) {
    frame.white = 2;
    return true;
  }
  const size_t most = 2 + open * JsonMachine::kIndent;
  if (byte != ' ' || frame.white < 2 || frame.white >= most) return false;
  ++frame.white;
  return true;
}

// Behind a value that is complete.
GrammarFrame after_value(GrammarFrame frame) {
  frame.phase = Phase::kAfterValue;
  frame.white = 0;
  return frame;
}

Step step_literal(const ValueRule& rule, GrammarFrame& frame, uint8_t byte) {
  frame.at = rule.words.child(frame.at, byte);
  if (frame.at < 0) return Step::kDead;
  return rule.words.leaf(frame.at) ? Step::kEnds : Step::kStays;
}

// Whether a value whose end shows only at the byte behind it may end here.
bool may_end(const ValueRule& rule, const GrammarFrame& frame) {
  if (rule.kind == Kind::kNumber) return number_may_end(rule, frame);
  return rule.kind == Kind::kLiteral && rule.words.word_at(frame.at) >= 0;
}

}  // namespace

GrammarStack* StackSet::next() {
  if (size_ == kMaxAlternatives) return nullptr;
  if (size_ == stacks_.size()) stacks_.emplace_back();
  return &stacks_[size_++];
}

void StackSet::add(std::span<const GrammarFrame> below) {
  if (GrammarStack* stack = next()) stack->assign(below.begin(), below.end());
}

void StackSet::add(std::span<const GrammarFrame> below, const GrammarFrame& top) {
  GrammarStack* stack = next();
  if (stack == nullptr) return;
  stack->assign(below.begin(), below.end());
  stack->push_back(top);
}

void StackSet::add(std::span<const GrammarFrame> below, const GrammarFrame& top,
                   const GrammarFrame& above) {
  GrammarStack* stack = next();
  if (stack == nullptr) return;
  stack->assign(below.begin(), below.end());
  stack->push_back(top);
  stack->push_back(above);
}

void StackSet::merge() {
  size_t kept = std::min<size_t>(size_, 1);
  for (size_t i = 1; i < size_; ++i) {
    const auto end = stacks_.begin() + static_cast<int64_t>(kept);
    if (std::find(stacks_.begin(), end, stacks_[i]) != end) continue;
    if (kept != i) std::swap(stacks_[kept], stacks_[i]);
    ++kept;
  }
  size_ = kept;
}

bool StackSet::operator==(const StackSet& other) const {
  return size_ == other.size_ &&
         std::equal(stacks_.begin(), stacks_.begin() + static_cast<int64_t>(size_),
                    other.stacks_.begin());
}

// Whether a value of the rule can be written inside `open` containers.
bool JsonMachine::fits(int32_t rule, size_t open) const {
  return rule >= 0 && grammar_.rule(rule).height + static_cast<int32_t>(open) <= kMaxJsonDepth;
}

void JsonMachine::start(StackSet& out) const {
  out.clear();
  const auto add = [&](int32_t rule) {
    GrammarFrame frame;
    frame.rule = rule;
    if (fits(rule, 0)) out.add({}, frame);
  };
  const ValueRule& root = grammar_.rule(grammar_.root);
  if (root.kind != Kind::kChoice) return add(grammar_.root);
  for (const int32_t rule : root.items) add(rule);
}

Step JsonMachine::step_value(const ValueRule& rule, GrammarFrame& frame, uint8_t byte) const {
  switch (rule.kind) {
    case Kind::kLiteral:
      return step_literal(rule, frame, byte);
    case Kind::kString:
      return step_string(rule, frame, byte);
    case Kind::kNumber:
      return step_number(rule, frame, byte);
    case Kind::kObject:
    case Kind::kArray:
      frame.phase = Phase::kFirst;
      return byte == (rule.kind == Kind::kObject ? '{' : '[') ? Step::kStays : Step::kDead;
    default:
      return Step::kDead;
  }
}

// A value begins inside `parent`, which lies on `below`, with this byte.
void JsonMachine::begin_value(int32_t number, Frames below, const GrammarFrame& parent,
                              uint8_t byte, StackSet& out) const {
  const GrammarFrame after = after_value(parent);
  const size_t open = below.size() + 1;
  const auto begin = [&](int32_t alternative) {
    if (!fits(alternative, open)) return;
    GrammarFrame frame;
    frame.rule = alternative;
    const Step step = step_value(grammar_.rule(alternative), frame, byte);
    if (step == Step::kStays) out.add(below, after, frame);
    if (step == Step::kEnds) out.add(below, after);
  };
  const ValueRule& rule = grammar_.rule(number);
  if (rule.kind != Kind::kChoice) return begin(number);
  for (const int32_t alternative : rule.items) begin(alternative);
}

// The first number of a property that may come next among those below the frame's place in the
// names, or -1.
int32_t JsonMachine::declared_below(const ValueRule& rule, const GrammarFrame& frame,
                                    size_t open) const {
  const std::span<const int32_t> numbers = rule.words.below(frame.at);
  const int32_t last = rule.next_required[static_cast<size_t>(frame.count)];
  for (auto it = std::ranges::lower_bound(numbers, frame.count); it != numbers.end(); ++it) {
    if (*it > last) return -1;
    if (fits(rule.properties[static_cast<size_t>(*it)].rule, open)) return *it;
  }
  return -1;
}

bool JsonMachine::has_declared(const ValueRule& rule, const GrammarFrame& frame,
                               size_t open) const {
  GrammarFrame at_root = frame;
  at_root.at = 0;
  return declared_below(rule, at_root, open) >= 0;
}

// Whether a property that is not declared may come next: not before all required ones.
bool JsonMachine::may_have_free(const ValueRule& rule, const GrammarFrame& frame,
                                size_t open) const {
  const auto count = static_cast<int32_t>(rule.properties.size());
  return rule.next_required[static_cast<size_t>(frame.count)] == count && fits(rule.rest, open);
}

void JsonMachine::begin_key(const ValueRule& rule, Frames below, GrammarFrame frame,
                            StackSet& out) const {
  const size_t open = below.size() + 1;
  frame.white = 0;
  frame.at = 0;
  frame.phase = Phase::kKey;
  if (has_declared(rule, frame, open)) out.add(below, frame);
  frame.phase = Phase::kFreeKey;
  if (rule.words.empty()) frame.at = -1;
  if (may_have_free(rule, frame, open)) out.add(below, frame);
}

void JsonMachine::step_key(const ValueRule& rule, Frames below, GrammarFrame frame, uint8_t byte,
                           StackSet& out) const {
  if (frame.phase == Phase::kKey) {
    const int32_t word = rule.words.word_at(frame.at);
    GrammarFrame ended = frame;
    ended.at = word;
    ended.phase = Phase::kColon;
    const bool may_come = byte == '"' && word >= frame.count &&
                          word <= rule.next_required[static_cast<size_t>(frame.count)] &&
                          fits(rule.properties[static_cast<size_t>(word)].rule, below.size() + 1);
    if (may_come) out.add(below, ended);
    frame.at = rule.words.child(frame.at, byte);  // a quote, too: escaped, it is part of a name
    if (frame.at >= 0 && declared_below(rule, frame, below.size() + 1) >= 0) out.add(below, frame);
    return;
  }
  // Free keys have no escapes, so that a declared name cannot be spelled in another way.
  if (byte == '"') {
    if (frame.utf8 != Phase::kInside || (frame.at >= 0 && rule.words.word_at(frame.at) >= 0))
      return;
    frame.at = -1;
    frame.phase = Phase::kColon;
    out.add(below, frame);
    return;
  }
  if (byte == '\\') return;
  frame.utf8 = step_utf8(frame.utf8, byte);
  if (frame.utf8 == Phase::kStart) return;
  if (frame.at >= 0) frame.at = rule.words.child(frame.at, byte);
  out.add(below, frame);
}

void JsonMachine::step_object(const ValueRule& rule, Frames stack, uint8_t byte,
                              StackSet& out) const {
  const Frames below = stack.first(stack.size() - 1);
  GrammarFrame frame = stack.back();
  const size_t open = stack.size();
  const auto count = static_cast<int32_t>(rule.properties.size());
  const bool may_close = rule.next_required[static_cast<size_t>(frame.count)] == count;
  switch (frame.phase) {
    case Phase::kFirst:
      if (byte == '}' && may_close) return out.add(below);
      [[fallthrough]];
    case Phase::kNext:
      if (byte == '"') return begin_key(rule, below, frame, out);
      if (step_white(frame, byte, open)) out.add(below, frame);
      return;
    case Phase::kKey:
    case Phase::kFreeKey:
      return step_key(rule, below, frame, byte, out);
    case Phase::kColon:
      frame.phase = Phase::kBeforeValue;
      if (byte == ':') out.add(below, frame);
      return;
    case Phase::kBeforeValue: {
      if (byte == ' ') {
        if (frame.white != 0) return;
        frame.white = 1;
        return out.add(below, frame);
      }
      const int32_t property = frame.at;
      frame.at = 0;
      if (property < 0) return begin_value(rule.rest, below, frame, byte, out);
      frame.count = property + 1;
      return begin_value(rule.properties[static_cast<size_t>(property)].rule, below, frame, byte,
                         out);
    }
    default:
      if (byte == '}' && may_close) return out.add(below);
      if (byte == ',' && frame.white == 0) {
        frame.phase = Phase::kNext;
        if (has_declared(rule, frame, open) || may_have_free(rule, frame, open))
          out.add(below, frame);
        return;
      }
      if (may_close && step_white(frame, byte, open)) out.add(below, frame);
  }
}

// The rule of an array's next item, or -1 when there can be none.
int32_t JsonMachine::item_rule(const ValueRule& rule, const GrammarFrame& frame,
                               size_t open) const {
  if (frame.count >= rule.max) return -1;
  const auto next = static_cast<size_t>(frame.count);
  const int32_t item = next < rule.items.size() ? rule.items[next] : rule.rest;
  return fits(item, open) ? item : -1;
}

void JsonMachine::step_array(const ValueRule& rule, Frames stack, uint8_t byte,
                             StackSet& out) const {
  const Frames below = stack.first(stack.size() - 1);
  GrammarFrame frame = stack.back();
  const size_t open = stack.size();
  const int32_t item = item_rule(rule, frame, open);
  if (frame.phase == Phase::kAfterValue) {
    const bool may_close = frame.count >= rule.min;
    if (byte == ']' && may_close) return out.add(below);
    if (byte == ',' && frame.white == 0) {
      frame.phase = Phase::kNext;
      if (item >= 0) out.add(below, frame);
      return;
    }
    if (may_close && step_white(frame, byte, open)) out.add(below, frame);
    return;
  }
  if (byte == ']' && frame.phase == Phase::kFirst && rule.min == 0) return out.add(below);
  GrammarFrame white = frame;
  if (step_white(white, byte, open)) return out.add(below, white);
  if (item < 0) return;
  // Counted only as far as something depends on it, so that states that behave alike are alike.
  const auto all_known = std::max<int64_t>(rule.min, std::ssize(rule.items));
  if (rule.max != ValueRule::kUnbounded || frame.count < all_known) ++frame.count;
  begin_value(item, below, frame, byte, out);
}

void JsonMachine::step(Frames stack, uint8_t byte, StackSet& out) const {
  if (stack.empty()) return;
  GrammarFrame frame = stack.back();
  const ValueRule& rule = grammar_.rule(frame.rule);
  const Frames below = stack.first(stack.size() - 1);
  if (rule.kind == Kind::kObject && frame.phase != Phase::kStart)
    return step_object(rule, stack, byte, out);
  if (rule.kind == Kind::kArray && frame.phase != Phase::kStart)
    return step_array(rule, stack, byte, out);
  if (may_end(rule, frame)) step(below, byte, out);
  const Step step = step_value(rule, frame, byte);
  if (step == Step::kStays) out.add(below, frame);
  if (step == Step::kEnds) out.add(below);
}

bool JsonMachine::step(const StackSet& from, uint8_t byte, StackSet& to) const {
  to.clear();
  for (size_t i = 0; i < from.size(); ++i) step(from[i], byte, to);
  if (to.size() > 1) to.merge();
  return !to.empty();
}

bool JsonMachine::complete(const StackSet& stacks) const {
  for (size_t i = 0; i < stacks.size(); ++i) {
    const GrammarStack& stack = stacks[i];
    if (stack.empty()) return true;
    if (stack.size() == 1 && may_end(grammar_.rule(stack[0].rule), stack[0])) return true;
  }
  return false;
}

}  // namespace clover
