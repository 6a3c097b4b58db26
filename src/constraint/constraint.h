// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "constraint/json_grammar.h"
#include "constraint/json_machine.h"
#include "constraint/token_words.h"

namespace clover {

// How far the text of one answer has come under its constraint. A value: a copy goes its own way.
struct ConstraintState {
  StackSet stacks;
  bool ended = false;  // an end-of-text token came
  bool operator==(const ConstraintState&) const = default;
};

// The texts that a request allows as its answer, over the tokens of a model. Which tokens may come
// is a function of the tokens before, so that it holds along every branch of a tree of drafts alike
// and nothing has to be undone when drafts are wrong. Thread-safe.
class Constraint {
 public:
  Constraint(std::shared_ptr<const JsonGrammar> grammar, std::shared_ptr<const TokenWords> words);

  // Before the first token.
  ConstraintState start() const;
  // Takes a token over. False when it is not allowed there; the state is lost then.
  bool advance(ConstraintState& state, int32_t token) const;
  // Whether the text is a whole value: end-of-text tokens are allowed here, and only here.
  bool complete(const ConstraintState& state) const;
  // The tokens that may come next, a bit each (SamplerState::draw): text that leads on to a whole
  // value, or an end-of-text token. `mask` takes the size of the vocabulary.
  void allowed(const ConstraintState& state, std::vector<uint64_t>& mask) const;
  const TokenWords& words() const { return *words_; }

 private:
  using Mask = std::vector<uint64_t>;
  struct StackLess {
    bool operator()(const GrammarStack& a, const GrammarStack& b) const;
  };

  GrammarStack cache_key(const GrammarStack& stack) const;
  bool inside_string(const GrammarStack& stack) const;
  Mask find_mask(const GrammarStack& stack) const;
  void add_tokens(const TokenWords::Tree& tree, const GrammarStack& stack, Mask& mask) const;

  std::shared_ptr<const JsonGrammar> grammar_;
  std::shared_ptr<const TokenWords> words_;
  JsonMachine machine_;
  size_t most_masks_;
  mutable std::mutex mutex_;
  mutable std::map<GrammarStack, Mask, StackLess> masks_;
};

}  // namespace clover
