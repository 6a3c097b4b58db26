// SPDX-License-Identifier: Apache-2.0
#include "constraint/scalar_steps.h"

#include <algorithm>
#include <string_view>

namespace clover {
namespace {

using Phase = GrammarFrame::Phase;

// Digits that a number without bounds may have before and behind its point: what a double keeps.
constexpr int32_t kDigits = 15;
constexpr int32_t kExponentDigits = 2;

bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

bool is_hex(uint8_t byte) {
  return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

bool within(uint8_t byte, uint8_t low, uint8_t high) { return byte >= low && byte <= high; }

Phase first_of_character(uint8_t byte) {
  if (byte < 0x20) return Phase::kStart;
  if (byte < 0x80) return Phase::kInside;
  if (within(byte, 0xc2, 0xdf)) return Phase::kTail1;
  if (byte == 0xe0) return Phase::kTailE0;
  if (byte == 0xed) return Phase::kTailEd;
  if (within(byte, 0xe1, 0xef)) return Phase::kTail2;
  if (byte == 0xf0) return Phase::kTailF0;
  if (within(byte, 0xf1, 0xf3)) return Phase::kTail3;
  return byte == 0xf4 ? Phase::kTailF4 : Phase::kStart;
}

// One more character of a string. Its number is kept only as far as a bound depends on it, so that
// states that behave alike are alike.
bool count_character(const ValueRule& rule, GrammarFrame& frame) {
  if (rule.max == ValueRule::kUnbounded) {
    if (frame.count < rule.min) ++frame.count;
    return true;
  }
  if (frame.count >= rule.max) return false;
  ++frame.count;
  return true;
}

// Escapes of four digits give no surrogates, which would have to come in pairs.
Step step_escape(GrammarFrame& frame, uint8_t byte) {
  switch (frame.phase) {
    case Phase::kEscape:
      if (byte == 'u') {
        frame.phase = Phase::kHex1;
        return Step::kStays;
      }
      if (std::string_view("\"\\/bfnrt").find(static_cast<char>(byte)) == std::string_view::npos)
        return Step::kDead;
      frame.phase = Phase::kInside;
      return Step::kStays;
    case Phase::kHex1:
      if (!is_hex(byte)) return Step::kDead;
      frame.negative = byte == 'd' || byte == 'D';
      frame.phase = Phase::kHex2;
      return Step::kStays;
    case Phase::kHex2:
      if (!is_hex(byte) || (frame.negative && byte > '7')) return Step::kDead;
      frame.negative = false;
      frame.phase = Phase::kHex3;
      return Step::kStays;
    default:
      if (!is_hex(byte)) return Step::kDead;
      frame.phase = frame.phase == Phase::kHex3 ? Phase::kHex4 : Phase::kInside;
      return Step::kStays;
  }
}

// The sizes that values of one sign may have, in units of 1 / scale; none when high < low, which is
// for callers to see.
struct Sizes {
  int64_t low;
  int64_t high;
  bool meet(uint64_t from, uint64_t to) const {
    return from <= static_cast<uint64_t>(high) && to >= static_cast<uint64_t>(low);
  }
};

Sizes sizes_of(const ValueRule& rule, bool negative) {
  if (negative) return {std::max<int64_t>(-rule.high, 0), -rule.low};
  return {std::max<int64_t>(rule.low, 0), rule.high};
}

// What one unit of the last digit is worth.
uint64_t unit_of(const ValueRule& rule, const GrammarFrame& frame) {
  auto unit = static_cast<uint64_t>(rule.scale);
  if (frame.phase == Phase::kFraction)
    for (int32_t i = 0; i < frame.count; ++i) unit /= 10;
  return unit;
}

// Whether the digits so far can still become a number within the bounds.
bool can_reach(const ValueRule& rule, const GrammarFrame& frame) {
  const Sizes sizes = sizes_of(rule, frame.negative);
  if (sizes.high < sizes.low) return false;  // so that both are sizes below
  uint64_t unit = unit_of(rule, frame);
  auto digits = static_cast<uint64_t>(frame.value);
  if (sizes.meet(digits * unit, digits * unit + unit - 1)) return true;
  if (frame.phase != Phase::kDigits) return false;
  // More digits before the point. Sizes are at most kMostSize, so that nothing here overflows.
  while (digits * unit <= static_cast<uint64_t>(sizes.high)) {
    unit *= 10;
    if (sizes.meet(digits * unit, digits * unit + unit - 1)) return true;
  }
  return false;
}

bool may_have_exponent(const ValueRule& rule) { return rule.scale == 0; }

bool add_digit(const ValueRule& rule, GrammarFrame& frame, uint8_t byte) {
  ++frame.count;
  if (rule.scale != 0) {
    frame.value = frame.value * 10 + (byte - '0');
    return can_reach(rule, frame);
  }
  return frame.count <= (frame.phase == Phase::kExponentDigits ? kExponentDigits : kDigits);
}

bool enter(const ValueRule& rule, GrammarFrame& frame, Phase phase) {
  frame.phase = phase;
  frame.count = 0;
  return rule.scale == 0 || can_reach(rule, frame);
}

// The first digit: no other may follow a zero, and a whole number has no minus before it.
bool first_digit(const ValueRule& rule, GrammarFrame& frame, uint8_t byte) {
  if (byte == '0' && frame.negative && rule.scale == 1) return false;
  frame.count = 0;
  frame.value = 0;
  frame.phase = byte == '0' ? Phase::kZero : Phase::kDigits;
  return add_digit(rule, frame, byte);
}

bool step_digits(const ValueRule& rule, GrammarFrame& frame, uint8_t byte) {
  if (frame.phase == Phase::kPoint) frame.phase = Phase::kFraction;
  if (frame.phase == Phase::kExponent || frame.phase == Phase::kExponentSign)
    frame.phase = Phase::kExponentDigits;
  if (frame.phase == Phase::kZero) return false;
  if (frame.phase == Phase::kFraction && rule.scale != 0 && unit_of(rule, frame) == 1) return false;
  return add_digit(rule, frame, byte);
}

}  // namespace

GrammarFrame::Phase step_utf8(Phase phase, uint8_t byte) {
  const auto tail = [&](uint8_t low, uint8_t high, Phase next) {
    return within(byte, low, high) ? next : Phase::kStart;
  };
  switch (phase) {
    case Phase::kTail1:
      return tail(0x80, 0xbf, Phase::kInside);
    case Phase::kTail2:
      return tail(0x80, 0xbf, Phase::kTail1);
    case Phase::kTail3:
      return tail(0x80, 0xbf, Phase::kTail2);
    case Phase::kTailE0:
      return tail(0xa0, 0xbf, Phase::kTail1);
    case Phase::kTailEd:
      return tail(0x80, 0x9f, Phase::kTail1);
    case Phase::kTailF0:
      return tail(0x90, 0xbf, Phase::kTail2);
    case Phase::kTailF4:
      return tail(0x80, 0x8f, Phase::kTail2);
    default:
      return first_of_character(byte);
  }
}

Step step_string(const ValueRule& rule, GrammarFrame& frame, uint8_t byte) {
  if (frame.phase == Phase::kStart) {
    frame.phase = Phase::kInside;
    return byte == '"' ? Step::kStays : Step::kDead;
  }
  if (frame.phase >= Phase::kEscape && frame.phase <= Phase::kHex4) return step_escape(frame, byte);
  if (frame.phase == Phase::kInside) {
    if (byte == '"') return frame.count >= rule.min ? Step::kEnds : Step::kDead;
    if (!count_character(rule, frame)) return Step::kDead;
    if (byte == '\\') {
      frame.phase = Phase::kEscape;
      return Step::kStays;
    }
  }
  frame.phase = step_utf8(frame.phase, byte);
  return frame.phase == Phase::kStart ? Step::kDead : Step::kStays;
}

Step step_number(const ValueRule& rule, GrammarFrame& frame, uint8_t byte) {
  const bool whole = frame.phase == Phase::kZero || frame.phase == Phase::kDigits;
  bool lives = false;
  if (frame.phase == Phase::kStart && byte == '-') {
    frame.phase = Phase::kMinus;
    frame.negative = true;
    const Sizes sizes = sizes_of(rule, true);
    lives = rule.scale == 0 || (rule.low < 0 && sizes.high >= sizes.low);
  } else if (is_digit(byte)) {
    lives = frame.phase == Phase::kStart || frame.phase == Phase::kMinus
                ? first_digit(rule, frame, byte)
                : step_digits(rule, frame, byte);
  } else if (byte == '.') {
    lives = whole && rule.scale != 1 && enter(rule, frame, Phase::kPoint);
  } else if (byte == 'e' || byte == 'E') {
    lives = (whole || frame.phase == Phase::kFraction) && may_have_exponent(rule) &&
            enter(rule, frame, Phase::kExponent);
  } else if (byte == '+' || byte == '-') {
    lives = frame.phase == Phase::kExponent && enter(rule, frame, Phase::kExponentSign);
  }
  return lives ? Step::kStays : Step::kDead;
}

bool number_may_end(const ValueRule& rule, const GrammarFrame& frame) {
  switch (frame.phase) {
    case Phase::kExponentDigits:
      return true;
    case Phase::kZero:
    case Phase::kDigits:
    case Phase::kFraction: {
      if (rule.scale == 0) return true;
      const Sizes sizes = sizes_of(rule, frame.negative);
      const uint64_t size = static_cast<uint64_t>(frame.value) * unit_of(rule, frame);
      return sizes.high >= sizes.low && sizes.meet(size, size);
    }
    default:
      return false;
  }
}

}  // namespace clover
