// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "tokenizer/chat_template/format.h"
#include "tokenizer/chat_template/operations.h"
#include "tokenizer/chat_template/unicode.h"

namespace clover {
namespace {

// The escape of a character in a JSON string, empty when it stands for itself.
std::string json_escape(int32_t c, bool ensure_ascii) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\f':
      return "\\f";
    case '\b':
      return "\\b";
    default:
      break;
  }
  if (c >= 0 && c < 0x20) return fmt::format("\\u{:04x}", c);
  if (!ensure_ascii || (c >= 0 && c < 0x7f)) return {};
  if (c < 0) return "\\ufffd";
  if (c < 0x10000) return fmt::format("\\u{:04x}", c);
  const int32_t rest = c - 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ff));
}

class JsonWriter {
 public:
  JsonWriter(JinjaContext& context, const JinjaJsonStyle& style)
      : context_(context), style_(style) {}

  MarkedText take() { return std::move(out_); }

  void write(const JinjaValue& value, int level) {
    const JinjaContext::Deeper deeper(context_);
    context_.charge(1);
    if (out_.size() > static_cast<size_t>(context_.limits().max_bytes)) {
      context_.charge_text(out_.size());
    }
    switch (value.type) {
      case JinjaType::kNone:
        return out_.append("null", value.trusted);
      case JinjaType::kBool:
        return out_.append(value.boolean ? "true" : "false", value.trusted);
      case JinjaType::kInt:
        return out_.append(fmt::format("{}", value.integer), value.trusted);
      case JinjaType::kFloat:
        return out_.append(float_text(value.number), value.trusted);
      case JinjaType::kString:
        return write_string(*value.text);
      case JinjaType::kList:
      case JinjaType::kTuple:
        return write_list(*value.list, level);
      case JinjaType::kDict:
        return write_dict(*value.dict, level);
      default:
        context_.fail_here("a value of type {} cannot be written as JSON", value.type_name());
    }
  }

 private:
  static std::string float_text(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
    return float_repr(value);
  }

  void write_string(const MarkedText& text) {
    context_.charge_text(text.size());
    const std::string& bytes = text.bytes();
    out_.append("\"", false);
    size_t plain = 0;  // first byte not yet written
    for (size_t at = 0; at < bytes.size();) {
      const CodePoint c = code_point_at(bytes, at);
      const std::string escape = json_escape(c.value, style_.ensure_ascii);
      if (!escape.empty()) {
        out_.append(text, plain, at);
        out_.append(escape, false);
        plain = at + c.length;
      }
      at += c.length;
    }
    out_.append(text, plain, bytes.size());
    out_.append("\"", false);
  }

  void write_break(int level) {
    if (!style_.pretty) return;
    std::string line = "\n";
    for (int i = 0; i < level; ++i) line += style_.indent;
    context_.charge_text(line.size());
    out_.append(line, false);
  }

  void write_list(const JinjaList& list, int level) {
    out_.append("[", false);
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator, false);
      write_break(level + 1);
      write(list.items[i], level + 1);
    }
    if (!list.items.empty()) write_break(level);
    out_.append("]", false);
  }

  MarkedText key_text(const JinjaValue& key) {
    if (key.is_string()) return *key.text;
    if (key.is(JinjaType::kBool)) return {key.boolean ? "true" : "false", key.trusted};
    if (key.is_none()) return {"null", key.trusted};
    if (key.is_number()) return to_text(context_, key);
    context_.fail_here("a {} cannot be a key in JSON", key.type_name());
  }

  void write_dict(const JinjaDict& dict, int level) {
    std::vector<const std::pair<JinjaValue, JinjaValue>*> order;
    for (const auto& item : dict.items) order.push_back(&item);
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
        return compare(context_, a->first, b->first) < 0;
      });
    }
    out_.append("{", false);
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out_.append(style_.item_separator, false);
      write_break(level + 1);
      write_string(key_text(order[i]->first));
      out_.append(style_.key_separator, false);
      write(order[i]->second, level + 1);
    }
    if (!order.empty()) write_break(level);
    out_.append("}", false);
  }

  JinjaContext& context_;
  const JinjaJsonStyle& style_;
  MarkedText out_;
};

}  // namespace

MarkedText to_json_text(JinjaContext& context, const JinjaValue& value,
                        const JinjaJsonStyle& style) {
  JsonWriter writer(context, style);
  writer.write(value, 0);
  return writer.take();
}

}  // namespace clover
