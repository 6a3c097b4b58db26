// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "constraint/word_trie.h"

namespace clover {

// Containers inside each other, at most: deeper ones are not written.
inline constexpr int32_t kMaxJsonDepth = 32;
// Alternatives of one choice, and of one text, that are followed at once.
inline constexpr int32_t kMaxAlternatives = 64;

// A bounded number's size in its smallest units, at most.
inline constexpr int64_t kMostSize = 100'000'000'000'000'000;

// What one value may look like. Rules name each other by number, so that they can be recursive.
struct ValueRule {
  enum class Kind : uint8_t {
    kNever,    // no value at all
    kLiteral,  // one of `words`
    kString,   // min to max characters
    kNumber,
    kObject,
    kArray,
    kChoice,  // one of `items`, none of which is a choice again
  };
  struct Property {
    int32_t rule = -1;
    bool required = false;
  };
  static constexpr int32_t kNoHeight = kMaxJsonDepth + 1;
  static constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

  Kind kind = Kind::kNever;
  // Containers inside each other that the flattest of its values needs; kNoHeight: it has none that
  // may be written.
  int32_t height = kNoHeight;
  int64_t min = 0;  // characters of a string, items of an array
  int64_t max = kUnbounded;
  // A number: with `scale` it is a multiple of 1 / scale from low / scale to high / scale, written
  // without exponent; without (0), any number.
  int64_t scale = 0;
  int64_t low = 0;
  int64_t high = 0;
  WordTrie words;  // literals, or the names of the properties, as JSON spells them
  std::vector<Property> properties = {};    // in the order in which they are written
  std::vector<int32_t> next_required = {};  // [properties + 1]: the first required from there on
  std::vector<int32_t> items = {};  // rules of an array's first items; a choice's alternatives
  int32_t rest = -1;                // rule of further items or properties, -1: there are none
};

// The texts of a JSON value of a schema, as rules. Immutable once built.
struct JsonGrammar {
  std::vector<ValueRule> rules;
  int32_t root = 0;

  const ValueRule& rule(int32_t number) const { return rules[static_cast<size_t>(number)]; }
};

}  // namespace clover
