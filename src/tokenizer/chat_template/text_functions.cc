// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/chat_template/text_functions.h"

#include <algorithm>
#include <string_view>

#include "tokenizer/chat_template/builtins.h"
#include "tokenizer/chat_template/format.h"
#include "tokenizer/chat_template/unicode.h"

namespace clover {
namespace {

constexpr int32_t kSigma = 0x3a3;
constexpr int32_t kFinalSigma = 0x3c2;

// Whether the character at `at` ends a word: after a letter, and not before one.
bool ends_word(const std::string& bytes, size_t at, size_t length) {
  const size_t after = at + length;
  if (after < bytes.size() && is_letter(code_point_at(bytes, after).value)) return false;
  size_t before = at;
  while (before > 0 && at - before < 4) {
    --before;
    if ((static_cast<unsigned char>(bytes[before]) & 0xc0) != 0x80) break;
  }
  return before < at && is_letter(code_point_at(bytes, before).value);
}

// Maps every character to text, which keeps the character's mark.
template <typename Map>
MarkedText map_characters(const MarkedText& text, Map map) {
  MarkedText result;
  const std::string& bytes = text.bytes();
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint c = code_point_at(bytes, at);
    const std::string_view original = std::string_view(bytes).substr(at, c.length);
    std::string mapped = c.value < 0 ? std::string(original) : map(c.value);
    if (c.value == kSigma && mapped != original && ends_word(bytes, at, c.length)) {
      mapped.clear();
      append_utf8(mapped, kFinalSigma);
    }
    result.append(mapped, text.trusted_at(at));
    at += c.length;
  }
  return result;
}

bool starts_word(int32_t c) {
  return is_python_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

std::vector<int32_t> code_points(const MarkedText& text) {
  std::vector<int32_t> result;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text.bytes(), at);
    result.push_back(c.value);
    at += c.length;
  }
  return result;
}

std::vector<MarkedText> split_at_space(const MarkedText& text, int64_t most) {
  std::vector<MarkedText> parts;
  const std::string& bytes = text.bytes();
  size_t at = skip_space(bytes, 0);
  while (at < bytes.size()) {
    if (most >= 0 && static_cast<int64_t>(parts.size()) >= most) {
      parts.push_back(text.slice(at, trim_space_end(bytes, at)));
      break;
    }
    size_t end = at;
    while (end < bytes.size()) {
      const CodePoint c = code_point_at(bytes, end);
      if (is_python_space(c.value)) break;
      end += c.length;
    }
    parts.push_back(text.slice(at, end));
    at = skip_space(bytes, end);
  }
  return parts;
}

// Cuts from the end; only needed with a limit.
std::vector<MarkedText> split_from_end(const MarkedText& text, const MarkedText& separator,
                                       int64_t most) {
  std::vector<MarkedText> parts;
  size_t end = text.size();
  while (static_cast<int64_t>(parts.size()) < most && end >= separator.size()) {
    const size_t found = text.bytes().rfind(separator.bytes(), end - separator.size());
    if (found == std::string::npos) break;
    parts.push_back(text.slice(found + separator.size(), end));
    end = found;
  }
  parts.push_back(text.slice(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

MarkedText replace_everywhere(JinjaContext& context, const MarkedText& text, const MarkedText& with,
                              int64_t most) {
  MarkedText result;
  for (size_t at = 0; most != 0; --most) {
    if (text.all_trusted(at, at)) {
      result.append(with);
    } else {
      result.append(with.bytes(), false);
    }
    context.charge_text(std::max(result.size(), with.size()));
    if (at >= text.size()) return result;
    const size_t length = code_point_at(text.bytes(), at).length;
    result.append(text, at, at + length);
    at += length;
    if (most == 1) result.append(text, at, text.size());
  }
  return result;
}

}  // namespace

MarkedText upper_text(const MarkedText& text) { return map_characters(text, upper_code_point); }

MarkedText lower_text(const MarkedText& text) { return map_characters(text, lower_code_point); }

MarkedText capitalize_text(const MarkedText& text) {
  bool first = true;
  return map_characters(text, [&](int32_t c) {
    return std::exchange(first, false) ? title_code_point(c) : lower_code_point(c);
  });
}

MarkedText title_text(const MarkedText& text) {
  bool inside = false;
  return map_characters(text, [&](int32_t c) {
    return std::exchange(inside, is_letter(c)) ? lower_code_point(c) : title_code_point(c);
  });
}

MarkedText title_words(const MarkedText& text) {
  bool inside = false;
  return map_characters(text, [&](int32_t c) {
    return std::exchange(inside, !starts_word(c)) ? lower_code_point(c) : upper_code_point(c);
  });
}

MarkedText strip_text(const MarkedText& text, const MarkedText* chars, Side side) {
  const std::vector<int32_t> set = chars != nullptr ? code_points(*chars) : std::vector<int32_t>();
  const auto strips = [&](int32_t c) {
    return chars == nullptr ? is_python_space(c)
                            : std::find(set.begin(), set.end(), c) != set.end();
  };
  size_t begin = 0;
  size_t end = 0;
  bool leading = side != Side::kRight;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text.bytes(), at);
    const bool stripped = strips(c.value);
    leading = leading && stripped;
    at += c.length;
    if (leading) begin = at;
    if (!stripped || side == Side::kLeft) end = at;
  }
  return text.slice(begin, end);
}

MarkedText replace_text(JinjaContext& context, const MarkedText& text, const MarkedText& old,
                        const MarkedText& with, int64_t most) {
  if (most == 0) return text;
  if (old.empty()) return replace_everywhere(context, text, with, most);
  MarkedText result;
  size_t at = 0;
  for (; most != 0; --most) {
    const size_t found = text.bytes().find(old.bytes(), at);
    if (found == std::string::npos) break;
    result.append(text, at, found);
    at = found + old.size();
    if (text.all_trusted(found, at)) {
      result.append(with);
    } else {
      result.append(with.bytes(), false);
    }
    context.charge(1);
    if (result.size() > static_cast<size_t>(context.limits().max_bytes)) {
      context.charge_text(result.size());
    }
  }
  result.append(text, at, text.size());
  return result;
}

std::vector<MarkedText> split_text(const MarkedText& text, const MarkedText* separator,
                                   int64_t most, bool from_end) {
  if (separator == nullptr) return split_at_space(text, most);
  if (from_end && most >= 0) return split_from_end(text, *separator, most);
  std::vector<MarkedText> parts;
  size_t at = 0;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t found = text.bytes().find(separator->bytes(), at);
    if (found == std::string::npos) break;
    parts.push_back(text.slice(at, found));
    at = found + separator->size();
  }
  parts.push_back(text.slice(at, text.size()));
  return parts;
}

std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends) {
  std::vector<MarkedText> lines;
  const std::string& bytes = text.bytes();
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const CodePoint c = code_point_at(bytes, at);
    const size_t line_end = at;
    at += c.length;
    const bool ends = (c.value >= 0x0a && c.value <= 0x0d) ||
                      (c.value >= 0x1c && c.value <= 0x1e) || c.value == 0x85 ||
                      c.value == 0x2028 || c.value == 0x2029;
    if (!ends) continue;
    if (c.value == '\r' && at < bytes.size() && bytes[at] == '\n') ++at;
    lines.push_back(text.slice(begin, keep_ends ? at : line_end));
    begin = at;
  }
  if (begin < bytes.size()) lines.push_back(text.slice(begin, bytes.size()));
  return lines;
}

MarkedText indent_text(const MarkedText& text, const MarkedText& prefix, bool first, bool blank) {
  MarkedText result;
  std::vector<MarkedText> lines = split_lines(text, false);
  // A line end at the very end begins one more, empty line.
  if (text.empty() || text.bytes().back() == '\n') lines.emplace_back();
  if (first) result.append(prefix);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) result.append("\n", false);
    if (i > 0 && (blank || !lines[i].empty())) result.append(prefix);
    result.append(lines[i]);
  }
  return result;
}

MarkedText escape_html(const MarkedText& text) {
  return map_characters(text, [](int32_t c) -> std::string {
    switch (c) {
      case '&':
        return "&amp;";
      case '<':
        return "&lt;";
      case '>':
        return "&gt;";
      case '\'':
        return "&#39;";
      case '"':
        return "&#34;";
      default: {
        std::string same;
        append_utf8(same, c);
        return same;
      }
    }
  });
}

namespace {

// The argument that a field like "", "0" or "name" stands for.
const JinjaValue& format_argument(JinjaContext& context, const std::string& field, size_t& next,
                                  const JinjaArgs& args) {
  const bool number = field.find_first_not_of("0123456789") == std::string::npos;
  if (!number) {
    if (const JinjaValue* found = args.find(SIZE_MAX, field)) return *found;
    context.fail_here("format has no argument for the field '{{{}}}'", field);
  }
  const size_t index = field.empty() ? next++ : field.size() < 6 ? std::stoul(field) : SIZE_MAX;
  if (index >= args.positional.size()) context.fail_here("not enough arguments for the format");
  return args.positional[index];
}

}  // namespace

MarkedText brace_format(JinjaContext& context, const MarkedText& format, const JinjaArgs& args) {
  const std::string& text = format.bytes();
  MarkedText out;
  size_t next = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t brace = std::min(text.find_first_of("{}", at), text.size());
    out.append(format, at, brace);
    if (brace == text.size()) break;
    if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
      out.append(format, brace, brace + 1);
      at = brace + 2;
      continue;
    }
    const size_t end = text[brace] == '{' ? text.find('}', brace) : std::string::npos;
    if (end == std::string::npos) context.fail_here("unbalanced braces in a format");
    const std::string field = text.substr(brace + 1, end - brace - 1);
    if (field.find_first_of("{.[:!") != std::string::npos) {
      context.fail_here("the format field '{{{}}}' is not supported", field);
    }
    const MarkedText piece = to_text(context, format_argument(context, field, next, args));
    if (format.all_trusted(brace, end + 1)) {
      out.append(piece);
    } else {
      out.append(piece.bytes(), false);
    }
    context.charge_text(out.size());
    at = end + 1;
  }
  return out;
}

}  // namespace clover
