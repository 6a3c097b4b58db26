// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/chat_template/context.h"

#include <limits>

namespace clover {
namespace {

constexpr int kMaxDataDepth = 200;
// An item of a list or dict is charged like this many steps, for the memory it holds.
constexpr int64_t kItemSteps = 4;
constexpr int64_t kBytesPerStep = 16;

JinjaValue convert(JinjaContext& context, const Json& json, bool trusted, int depth) {
  if (depth > kMaxDataDepth) {
    fail(ErrorCode::kInvalidArgument, "the messages nest deeper than {} levels", kMaxDataDepth);
  }
  switch (json.type()) {
    case Json::value_t::boolean:
      return JinjaValue::of_bool(json.get<bool>(), trusted);
    case Json::value_t::number_integer:
      return JinjaValue::of_int(json.get<int64_t>(), trusted);
    case Json::value_t::number_unsigned:
      if (json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        fail(ErrorCode::kInvalidArgument, "the integer {} in the messages is beyond 64 bits",
             json.get<uint64_t>());
      }
      return JinjaValue::of_int(json.get<int64_t>(), trusted);
    case Json::value_t::number_float:
      return JinjaValue::of_float(json.get<double>(), trusted);
    case Json::value_t::string:
      return JinjaValue::of_text(json.get_ref<const std::string&>(), trusted);
    case Json::value_t::array: {
      std::vector<JinjaValue> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(convert(context, item, trusted, depth + 1));
      return context.list(std::move(items));
    }
    case Json::value_t::object: {
      JinjaValue result = context.dict();
      for (const auto& [key, item] : json.items()) {
        result.dict->set(JinjaValue::of_text(key, trusted),
                         convert(context, item, trusted, depth + 1));
      }
      return result;
    }
    default:
      return JinjaValue::none(trusted);
  }
}

}  // namespace

JinjaValue to_jinja_value(JinjaContext& context, const Json& json, bool trusted) {
  return convert(context, json, trusted, 0);
}

void JinjaContext::charge_text(size_t bytes) {
  if (bytes > static_cast<size_t>(limits_.max_bytes)) {
    fail(ErrorCode::kExhausted, "chat template line {}: a text of {} bytes is over the limit of {}",
         line_, bytes, limits_.max_bytes);
  }
  charge(1 + static_cast<int64_t>(bytes) / kBytesPerStep);
}

JinjaValue JinjaContext::text(MarkedText value) {
  charge_text(value.size());
  return JinjaValue::of_text(std::move(value));
}

JinjaValue JinjaContext::list(std::vector<JinjaValue> items, JinjaType type) {
  charge(kItemSteps * (1 + static_cast<int64_t>(items.size())));
  JinjaValue value;
  value.type = type;
  value.list = &lists_.emplace_back(JinjaList{std::move(items)});
  return value;
}

JinjaValue JinjaContext::dict(JinjaType type) {
  charge(kItemSteps);
  JinjaValue value;
  value.type = type;
  value.dict = &dicts_.emplace_back();
  return value;
}

JinjaValue JinjaContext::method(JinjaValue self, std::string name) {
  charge(kItemSteps);
  JinjaValue value;
  value.type = JinjaType::kMethod;
  value.method = &methods_.emplace_back(JinjaMethod{std::move(self), std::move(name)});
  return value;
}

void JinjaContext::set_item(JinjaDict& dict, const JinjaValue& key, JinjaValue value) {
  if (!is_hashable(key)) fail_here("a {} cannot be a key of a dict", key.type_name());
  charge(kItemSteps);
  if (key.is_string()) charge_text(key.text->size());
  dict.set(key, std::move(value));
}

void JinjaContext::fail_with(const std::string& message) const {
  fail(ErrorCode::kInvalidArgument, "chat template line {}: {}", line_, message);
}

void JinjaContext::too_many_steps() const {
  fail(ErrorCode::kExhausted, "chat template line {}: stopped after {} steps", line_,
       limits_.max_steps);
}

void JinjaContext::too_deep() {
  --depth_;
  fail(ErrorCode::kExhausted, "chat template line {}: nested deeper than {} levels", line_,
       limits_.max_depth);
}

}  // namespace clover
