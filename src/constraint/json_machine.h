// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "constraint/json_grammar.h"
#include "constraint/scalar_steps.h"

namespace clover {

// One way to read a text: the values that are open, outermost first. Empty: the value is complete.
using GrammarStack = std::vector<GrammarFrame>;

// All ways to read a text, at most kMaxAlternatives (the first ones are kept: fewer texts can be
// written then, and each of them is still right). None: the text is wrong. Keeps its memory when it
// is filled again.
class StackSet {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const GrammarStack& operator[](size_t i) const { return stacks_[i]; }
  void clear() { size_ = 0; }
  // `below` and on top of it one or two frames.
  void add(std::span<const GrammarFrame> below);
  void add(std::span<const GrammarFrame> below, const GrammarFrame& top);
  void add(std::span<const GrammarFrame> below, const GrammarFrame& top, const GrammarFrame& above);
  // Drops what is there twice.
  void merge();
  bool operator==(const StackSet& other) const;

 private:
  GrammarStack* next();
  std::vector<GrammarStack> stacks_;  // size_ of them count
  size_t size_ = 0;
};

// Reads texts byte by byte by the rules of a grammar. White space is a space or a new line with at
// most kIndent spaces for each open container, behind brackets and commas and before closing
// brackets; a single space behind a colon. None before or behind the whole value.
class JsonMachine {
 public:
  static constexpr int32_t kIndent = 4;

  // The grammar must outlive the machine.
  explicit JsonMachine(const JsonGrammar& grammar) : grammar_(grammar) {}

  void start(StackSet& out) const;
  // Adds to `out` what a stack becomes with this byte.
  void step(std::span<const GrammarFrame> stack, uint8_t byte, StackSet& out) const;
  // Fills `to` from `from`, another set. False when no way is left.
  bool step(const StackSet& from, uint8_t byte, StackSet& to) const;
  // Whether the text may end here.
  bool complete(const StackSet& stacks) const;

 private:
  using Frames = std::span<const GrammarFrame>;

  void step_object(const ValueRule& rule, Frames stack, uint8_t byte, StackSet& out) const;
  void step_array(const ValueRule& rule, Frames stack, uint8_t byte, StackSet& out) const;
  void begin_key(const ValueRule& rule, Frames below, GrammarFrame frame, StackSet& out) const;
  void step_key(const ValueRule& rule, Frames below, GrammarFrame frame, uint8_t byte,
                StackSet& out) const;
  void begin_value(int32_t rule, Frames below, const GrammarFrame& parent, uint8_t byte,
                   StackSet& out) const;
  Step step_value(const ValueRule& rule, GrammarFrame& frame, uint8_t byte) const;
  bool fits(int32_t rule, size_t open) const;
  bool has_declared(const ValueRule& rule, const GrammarFrame& frame, size_t open) const;
  int32_t declared_below(const ValueRule& rule, const GrammarFrame& frame, size_t open) const;
  bool may_have_free(const ValueRule& rule, const GrammarFrame& frame, size_t open) const;
  int32_t item_rule(const ValueRule& rule, const GrammarFrame& frame, size_t open) const;

  const JsonGrammar& grammar_;
};

}  // namespace clover
