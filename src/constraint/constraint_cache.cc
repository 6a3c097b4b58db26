// SPDX-License-Identifier: Apache-2.0
#include "constraint/constraint_cache.h"

#include <algorithm>

#include "constraint/json_schema.h"

namespace clover {
namespace {

constexpr size_t kMostKept = 16;
// Larger schemas are compiled every time.
constexpr size_t kLongestKept = size_t{1} << 18;

}  // namespace

std::shared_ptr<const Constraint> ConstraintCache::find(const Json& schema) {
  const std::string text = json_line(schema);
  {
    const std::lock_guard lock(mutex_);
    const auto known =
        std::ranges::find_if(recent_, [&](const auto& entry) { return entry.first == text; });
    if (known != recent_.end()) {
      recent_.splice(recent_.begin(), recent_, known);
      return recent_.front().second;
    }
  }
  // Others need not wait for a large schema.
  std::shared_ptr<const JsonGrammar> grammar = compile_json_schema(schema);
  const std::lock_guard lock(mutex_);
  if (!words_) words_ = std::make_shared<TokenWords>(tokenizer_, vocab_);
  auto made = std::make_shared<const Constraint>(std::move(grammar), words_);
  if (text.size() > kLongestKept) return made;
  recent_.emplace_front(text, made);
  if (recent_.size() > kMostKept) recent_.pop_back();
  return made;
}

}  // namespace clover
