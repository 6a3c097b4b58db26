// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "constraint/json_grammar.h"

namespace clover {

// How far the text of one value has come.
struct GrammarFrame {
  enum class Phase : uint8_t {
    kStart,
    // Strings and keys: between characters, within an escape, within a character of UTF-8 (how
    // many bytes are to come, or what the next may be).
    kInside,
    kEscape,
    kHex1,
    kHex2,
    kHex3,
    kHex4,
    kTail1,
    kTail2,
    kTail3,
    kTailE0,
    kTailEd,
    kTailF0,
    kTailF4,
    // Numbers.
    kMinus,
    kZero,
    kDigits,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
    // Objects and arrays.
    kFirst,  // behind the bracket
    kNext,   // behind a comma
    kKey,    // of a declared property
    kFreeKey,
    kColon,
    kBeforeValue,
    kAfterValue,
  };

  int64_t value = 0;  // a number's digits
  int32_t rule = 0;
  int32_t at = 0;     // node of the rule's words; -1: no word begins like that
  int32_t count = 0;  // characters, digits, items, or properties that are behind
  Phase phase = Phase::kStart;
  uint8_t white = 0;            // white space so far: 1 a space, 2 + n a new line and n spaces
  Phase utf8 = Phase::kInside;  // within a key
  bool negative = false;

  bool operator==(const GrammarFrame&) const = default;
};

enum class Step : uint8_t { kDead, kStays, kEnds };

// The frame after a byte of a string or number: it stays open, it ended with this byte, or the byte
// cannot come.
Step step_string(const ValueRule& rule, GrammarFrame& frame, uint8_t byte);
Step step_number(const ValueRule& rule, GrammarFrame& frame, uint8_t byte);
// Whether a number may end where it is.
bool number_may_end(const ValueRule& rule, const GrammarFrame& frame);
// The phase within UTF-8 text after a byte that is neither quote nor backslash; kStart when the
// byte cannot come. Control characters cannot.
GrammarFrame::Phase step_utf8(GrammarFrame::Phase phase, uint8_t byte);

}  // namespace clover
