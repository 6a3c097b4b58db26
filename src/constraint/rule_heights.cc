// SPDX-License-Identifier: Apache-2.0
#include "constraint/rule_heights.h"

#include <algorithm>

namespace clover {
namespace {

using Kind = ValueRule::Kind;

int32_t height_of(const std::vector<ValueRule>& rules, int32_t number) {
  return number < 0 ? ValueRule::kNoHeight : rules[static_cast<size_t>(number)].height;
}

// The greatest height that a container needs inside.
int32_t height_inside(const std::vector<ValueRule>& rules, const ValueRule& rule) {
  int32_t inside = 0;
  for (const ValueRule::Property& property : rule.properties)
    if (property.required) inside = std::max(inside, height_of(rules, property.rule));
  const auto first = std::ssize(rule.items);
  for (int64_t i = 0; i < std::min<int64_t>(rule.min, first); ++i)
    inside = std::max(inside, height_of(rules, rule.items[static_cast<size_t>(i)]));
  if (rule.min > first) inside = std::max(inside, height_of(rules, rule.rest));
  return inside;
}

int32_t height(const std::vector<ValueRule>& rules, const ValueRule& rule) {
  switch (rule.kind) {
    case Kind::kNever:
      return ValueRule::kNoHeight;
    case Kind::kChoice: {
      int32_t least = ValueRule::kNoHeight;
      for (const int32_t item : rule.items) least = std::min(least, height_of(rules, item));
      return least;
    }
    case Kind::kArray:
    case Kind::kObject:
      return std::min(height_inside(rules, rule) + 1, ValueRule::kNoHeight);
    default:
      return 0;
  }
}

}  // namespace

// From what needs nothing inside outwards, until nothing changes: one round for each level.
void find_heights(std::vector<ValueRule>& rules) {
  for (bool changed = true; changed;) {
    changed = false;
    for (ValueRule& rule : rules) {
      const int32_t now = height(rules, rule);
      changed |= now < rule.height;
      rule.height = std::min(rule.height, now);
    }
  }
}

}  // namespace clover
