// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/chat_template/format.h"

#include <charconv>
#include <cmath>

#include "tokenizer/chat_template/unicode.h"

namespace clover {
namespace {

// Appends one character of a Python string literal with the given quote.
void append_literal_char(std::string& out, std::string_view text, size_t at, CodePoint c,
                         char quote) {
  if (c.value == '\n') {
    out += "\\n";
  } else if (c.value == '\r') {
    out += "\\r";
  } else if (c.value == '\t') {
    out += "\\t";
  } else if (c.value == '\\' || c.value == quote) {
    out += '\\';
    out += static_cast<char>(c.value);
  } else if (c.value < 0) {
    out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
  } else if (is_python_printable(c.value)) {
    out += text.substr(at, c.length);
  } else if (c.value < 0x100) {
    out += fmt::format("\\x{:02x}", c.value);
  } else {
    out +=
        c.value < 0x10000 ? fmt::format("\\u{:04x}", c.value) : fmt::format("\\U{:08x}", c.value);
  }
}

// A Python string literal; the quotes are trusted only if all of the text is.
void append_literal(MarkedText& out, const MarkedText& text) {
  const std::string& bytes = text.bytes();
  const bool has_single = bytes.find('\'') != std::string::npos;
  const char quote = has_single && bytes.find('"') == std::string::npos ? '"' : '\'';
  out.append(std::string_view(&quote, 1), false);
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint c = code_point_at(bytes, at);
    std::string piece;
    append_literal_char(piece, bytes, at, c, quote);
    out.append(piece, piece.size() == c.length && text.trusted_at(at));
    at += c.length;
  }
  out.append(std::string_view(&quote, 1), false);
}

class ReprWriter {
 public:
  explicit ReprWriter(JinjaContext& context) : context_(context) {}

  MarkedText take() { return std::move(out_); }

  void write(const JinjaValue& value) {
    const JinjaContext::Deeper deeper(context_);
    context_.charge_text(out_.size() > limit() ? out_.size() : 1);
    switch (value.type) {
      case JinjaType::kString:
        context_.charge_text(value.text->size());
        return append_literal(out_, *value.text);
      case JinjaType::kList:
      case JinjaType::kTuple:
        return write_sequence(value);
      case JinjaType::kDict:
      case JinjaType::kNamespace:
        return write_dict(value);
      case JinjaType::kUndefined:
        return out_.append("Undefined", false);
      default:
        return out_.append(to_text(context_, value));
    }
  }

 private:
  size_t limit() const { return static_cast<size_t>(context_.limits().max_bytes); }

  void write_sequence(const JinjaValue& value) {
    const bool tuple = value.is(JinjaType::kTuple);
    out_.append(tuple ? "(" : "[", false);
    const char* separator = "";
    for (const JinjaValue& item : value.list->items) {
      out_.append(separator, false);
      write(item);
      separator = ", ";
    }
    if (tuple && value.list->items.size() == 1) out_.append(",", false);
    out_.append(tuple ? ")" : "]", false);
  }

  void write_dict(const JinjaValue& value) {
    out_.append(value.is_dict() ? "{" : "<Namespace {", false);
    const char* separator = "";
    for (const auto& [key, item] : value.dict->items) {
      out_.append(separator, false);
      write(key);
      out_.append(": ", false);
      write(item);
      separator = ", ";
    }
    out_.append(value.is_dict() ? "}" : "}>", false);
  }

  JinjaContext& context_;
  MarkedText out_;
};

}  // namespace

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  const std::string_view scientific(buffer, static_cast<size_t>(end - buffer));
  const size_t e = scientific.find('e');
  int exponent = 0;
  const size_t digits = scientific[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(scientific.data() + digits, scientific.data() + scientific.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    return fmt::format("{}e{}{:02d}", scientific.substr(0, e), exponent < 0 ? '-' : '+',
                       std::abs(exponent));
  }
  const auto fixed_end =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed).ptr;
  std::string fixed(buffer, fixed_end);
  if (fixed.find('.') == std::string::npos) fixed += ".0";
  return fixed;
}

MarkedText to_repr(JinjaContext& context, const JinjaValue& value) {
  ReprWriter writer(context);
  writer.write(value);
  return writer.take();
}

MarkedText to_text(JinjaContext& context, const JinjaValue& value) {
  switch (value.type) {
    case JinjaType::kUndefined:
      return {};
    case JinjaType::kString:
      return *value.text;
    case JinjaType::kNone:
      return {"None", value.trusted};
    case JinjaType::kBool:
      return {value.boolean ? "True" : "False", value.trusted};
    case JinjaType::kInt:
      return {fmt::format("{}", value.integer), value.trusted};
    case JinjaType::kFloat:
      return {float_repr(value.number), value.trusted};
    case JinjaType::kIterator:
    case JinjaType::kMacro:
    case JinjaType::kFunction:
    case JinjaType::kMethod:
    case JinjaType::kLoop:
      context.fail_here("a {} cannot be printed", value.type_name());
    default:
      return to_repr(context, value);
  }
}

namespace {

// One conversion of a printf-like format, like "%-8.3f".
struct Conversion {
  bool left = false;
  bool zero = false;
  bool plus = false;
  int width = 0;
  int precision = -1;
  char kind = 's';
};

constexpr int kMaxWidth = 1000;

int read_number(std::string_view text, size_t& at) {
  int value = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    value = std::min(value * 10 + (text[at++] - '0'), kMaxWidth);
  }
  return value;
}

Conversion read_conversion(JinjaContext& context, std::string_view text, size_t& at) {
  Conversion result;
  for (; at < text.size(); ++at) {
    if (text[at] == '-') {
      result.left = true;
    } else if (text[at] == '0') {
      result.zero = true;
    } else if (text[at] == '+') {
      result.plus = true;
    } else {
      break;
    }
  }
  result.width = read_number(text, at);
  if (at < text.size() && text[at] == '.') result.precision = read_number(text, ++at);
  if (at >= text.size()) context.fail_here("incomplete format");
  result.kind = text[at++];
  return result;
}

MarkedText convert_number(JinjaContext& context, const Conversion& c, const JinjaValue& value) {
  if (!value.is_number()) context.fail_here("%{} needs a number", c.kind);
  std::string digits;
  if (c.kind == 'f') {
    digits = fmt::format("{:.{}f}", value.as_double(), c.precision < 0 ? 6 : c.precision);
  } else {
    if (!value.is_integral() && (c.kind == 'x' || std::abs(value.number) >= 9e18)) {
      context.fail_here("%{} needs an integer", c.kind);
    }
    const int64_t integer =
        value.is_integral() ? value.as_int() : static_cast<int64_t>(value.number);
    digits = c.kind == 'x' ? fmt::format("{:x}", integer) : fmt::format("{}", integer);
  }
  if (c.plus && digits[0] != '-') digits.insert(0, "+");
  const auto width = static_cast<size_t>(c.width);
  if (c.zero && !c.left && digits.size() < width) {
    digits.insert(digits[0] == '-' || digits[0] == '+' ? 1 : 0, width - digits.size(), '0');
  }
  return {digits, value.trusted};
}

MarkedText convert_one(JinjaContext& context, const Conversion& c, const JinjaValue& value) {
  switch (c.kind) {
    case 's':
    case 'r': {
      MarkedText text = c.kind == 's' ? to_text(context, value) : to_repr(context, value);
      if (c.precision < 0) return text;
      const auto limit = static_cast<size_t>(c.precision);
      return text.slice(0, byte_of_code_point(text.bytes(), limit));
    }
    case 'd':
    case 'i':
    case 'f':
    case 'x':
      return convert_number(context, c, value);
    default:
      context.fail_here("the format %{} is not supported", c.kind);
  }
}

// Appends `text`; data never chooses where trusted text goes.
void append_as(MarkedText& out, const MarkedText& text, bool may_trust) {
  if (may_trust) {
    out.append(text);
  } else {
    out.append(text.bytes(), false);
  }
}

}  // namespace

MarkedText printf_format(JinjaContext& context, const MarkedText& format,
                         const std::vector<JinjaValue>& args) {
  const std::string& text = format.bytes();
  MarkedText out;
  size_t next = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t percent = std::min(text.find('%', at), text.size());
    out.append(format, at, percent);
    if (percent == text.size()) break;
    at = percent + 1;
    const Conversion c = read_conversion(context, text, at);
    const bool trusted = format.all_trusted(percent, at);
    if (c.kind == '%') {
      out.append("%", trusted);
      continue;
    }
    if (next >= args.size()) context.fail_here("not enough arguments for the format");
    const MarkedText piece = convert_one(context, c, args[next++]);
    const size_t length = count_code_points(piece.bytes());
    const size_t width = static_cast<size_t>(c.width);
    const std::string fill(width > length ? width - length : 0, ' ');
    if (!c.left) out.append(fill, trusted);
    append_as(out, piece, trusted);
    if (c.left) out.append(fill, trusted);
    context.charge_text(out.size());
  }
  if (next < args.size()) context.fail_here("not all arguments were used by the format");
  return out;
}

}  // namespace clover
