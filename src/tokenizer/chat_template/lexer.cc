// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/chat_template/lexer.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "tokenizer/chat_template/string_literal.h"
#include "tokenizer/chat_template/unicode.h"

namespace clover {
namespace {

constexpr std::array<std::string_view, 25> kOperators = {
    "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ","};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string with_plain_newlines(std::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      result += '\n';
    } else {
      result += source[i];
    }
  }
  if (!result.empty() && result.back() == '\n') result.pop_back();
  return result;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_newlines(source)) {}

  std::vector<JinjaToken> run() {
    while (at_ < source_.size()) lex_data();
    emit(JinjaTokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  bool looking_at(std::string_view text, size_t at) const {
    return std::string_view(source_).substr(std::min(at, source_.size()), text.size()) == text;
  }
  bool looking_at(std::string_view text) const { return looking_at(text, at_); }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
  }

  [[noreturn]] void corrupt(const std::string& what) const {
    fail(ErrorCode::kCorrupt, "chat template line {}: {}", line_, what);
  }

  void emit(JinjaTokenType type, std::string value) {
    tokens_.push_back({type, std::move(value), line_});
  }

  // Moves on and keeps the line number.
  void advance_to(size_t at) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                         source_.begin() + static_cast<ptrdiff_t>(at), '\n'));
    line_starting_ = at > at_ && source_[at - 1] == '\n';
    at_ = at;
  }

  // Consumes a tag's end of `length` bytes; `sign` is the character before it.
  void end_tag(size_t length, char sign, bool trims_newline) {
    size_t end = at_ + length;
    if (sign == '-') {
      end = skip_space(source_, end);
    } else if (sign != '+' && trims_newline && looking_at("\n", end)) {
      ++end;
    }
    advance_to(end);
  }

  // Emits the text [at_, tag) as the tag's sign wants it.
  void emit_data(size_t tag, char sign, bool lstrip) {
    size_t end = tag;
    const std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    if (sign == '-') {
      end = at_ + trim_space_end(text, 0);
    } else if (sign != '+' && lstrip) {
      const size_t newline = text.rfind('\n');
      const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
      if ((start > 0 || line_starting_) && skip_space(text, start) == text.size()) {
        end = at_ + start;
      }
    }
    if (end > at_) emit(JinjaTokenType::kData, source_.substr(at_, end - at_));
    advance_to(tag);
  }

  char sign_at(size_t at) const {
    const char c = at < source_.size() ? source_[at] : '\0';
    return c == '-' || c == '+' ? c : '\0';
  }

  // `{% word %}` at `tag`: the byte where its end ("-%}", "%}") begins, or npos.
  size_t find_simple_tag(size_t tag, std::string_view word) const {
    if (!looking_at("{%", tag)) return std::string::npos;
    size_t at = skip_space(source_, tag + 2 + (sign_at(tag + 2) != '\0' ? 1 : 0));
    if (!looking_at(word, at)) return std::string::npos;
    at = skip_space(source_, at + word.size());
    const bool ends = looking_at("%}", at) || looking_at("-%}", at) || looking_at("+%}", at);
    return ends ? at : std::string::npos;
  }

  void lex_data() {
    size_t tag = at_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        emit(JinjaTokenType::kData, source_.substr(at_));
        return advance_to(source_.size());
      }
      const char kind = source_[tag + 1];
      if (kind == '{' || kind == '%' || kind == '#') break;
      ++tag;
    }
    const char kind = source_[tag + 1];
    const char sign = sign_at(tag + 2);
    emit_data(tag, sign, kind != '{');
    const size_t raw_end = find_simple_tag(tag, "raw");
    if (raw_end != std::string::npos && !looking_at("+", raw_end)) return lex_raw(raw_end);
    if (kind == '#') return lex_comment();
    emit(kind == '{' ? JinjaTokenType::kVariableBegin : JinjaTokenType::kBlockBegin, "");
    advance_to(tag + (sign != '\0' ? 3 : 2));
    lex_tag(kind);
  }

  void lex_comment() {
    const size_t inside = at_ + (sign_at(at_ + 2) != '\0' ? 3 : 2);
    const size_t end = source_.find("#}", inside);
    if (end == std::string::npos) corrupt("a comment is not closed");
    const char sign = end > inside ? sign_at(end - 1) : '\0';
    advance_to(end);
    end_tag(2, sign, true);
  }

  void lex_raw(size_t begin_end) {
    const int line = line_;
    advance_to(begin_end);
    const bool strip = looking_at("-");
    end_tag(strip ? 3 : 2, strip ? '-' : '\0', false);
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 1)) {
      const size_t end = find_simple_tag(tag, "endraw");
      if (end == std::string::npos) continue;
      emit_data(tag, sign_at(tag + 2), true);
      advance_to(end);
      const char sign = sign_at(at_);
      return end_tag(sign != '\0' ? 3 : 2, sign, true);
    }
    line_ = line;
    corrupt("a raw block is not closed");
  }

  // Whether the tag ends here; consumes the end.
  bool lex_tag_end(char kind) {
    if (!brackets_.empty()) return false;
    const std::string_view end = kind == '{' ? "}}" : "%}";
    const char sign = sign_at(at_);
    const bool signed_end =
        sign != '\0' && looking_at(end, at_ + 1) && !(kind == '{' && sign == '+');
    if (!signed_end && !looking_at(end)) return false;
    emit(kind == '{' ? JinjaTokenType::kVariableEnd : JinjaTokenType::kBlockEnd, "");
    end_tag(signed_end ? 3 : 2, signed_end ? sign : '\0', kind == '%');
    return true;
  }

  void lex_tag(char kind) {
    brackets_.clear();
    while (at_ < source_.size()) {
      if (lex_tag_end(kind)) return;
      const CodePoint c = code_point_at(source_, at_);
      if (is_python_space(c.value)) {
        advance_to(at_ + c.length);
      } else if (is_digit(source_[at_])) {
        lex_number();
      } else if (is_word(c.value)) {
        lex_name();
      } else if (peek() == '\'' || peek() == '"') {
        lex_string();
      } else {
        lex_operator();
      }
    }
  }

  // Digits with single underscores between them, from `at`.
  size_t skip_digits(size_t at) const {
    while (at < source_.size() &&
           (is_digit(source_[at]) ||
            (source_[at] == '_' && at + 1 < source_.size() && is_digit(source_[at + 1])))) {
      ++at;
    }
    return at;
  }

  void lex_number() {
    size_t end = skip_digits(at_);
    bool is_float = false;
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (!after_dot) {
      const size_t fraction = looking_at(".", end) ? skip_digits(end + 1) : end;
      if (fraction > end + 1 && is_digit(source_[end + 1])) {
        end = fraction;
        is_float = true;
      }
      if (looking_at("e", end) || looking_at("E", end)) {
        const size_t digits = end + 1 + (sign_at(end + 1) != '\0' ? 1 : 0);
        if (digits < source_.size() && is_digit(source_[digits])) {
          end = skip_digits(digits);
          is_float = true;
        }
      }
    }
    std::string text = source_.substr(at_, end - at_);
    std::erase(text, '_');
    if (!is_float && text.size() > 1 && text.find_first_not_of('0') != std::string::npos &&
        text[0] == '0') {
      corrupt("a number begins with 0");
    }
    if (!is_float && end < source_.size() && is_word(code_point_at(source_, end).value)) {
      corrupt("a name cannot begin with a digit");
    }
    emit(is_float ? JinjaTokenType::kFloat : JinjaTokenType::kInteger, std::move(text));
    advance_to(end);
  }

  void lex_name() {
    size_t end = at_;
    while (end < source_.size()) {
      const CodePoint c = code_point_at(source_, end);
      if (!is_word(c.value)) break;
      end += c.length;
    }
    emit(JinjaTokenType::kName, source_.substr(at_, end - at_));
    advance_to(end);
  }

  void lex_string() {
    const char quote = source_[at_];
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) corrupt("a string is not closed");
    const std::string_view inside = std::string_view(source_).substr(at_ + 1, end - at_ - 1);
    emit(JinjaTokenType::kString, decode_string_literal(inside, line_));
    advance_to(end + 1);
  }

  void lex_operator() {
    const auto* found = std::find_if(kOperators.begin(), kOperators.end(),
                                     [&](std::string_view op) { return looking_at(op); });
    if (found == kOperators.end()) {
      const CodePoint c = code_point_at(source_, at_);
      corrupt(fmt::format("unexpected character '{}'", source_.substr(at_, c.length)));
    }
    const char c = (*found)[0];
    if (c == '(' || c == '[' || c == '{') {
      brackets_ += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (brackets_.empty() || brackets_.back() != c) corrupt(fmt::format("unexpected '{}'", c));
      brackets_.pop_back();
    }
    emit(JinjaTokenType::kOperator, std::string(*found));
    advance_to(at_ + found->size());
  }

  std::string source_;
  std::vector<JinjaToken> tokens_;
  std::string brackets_;  // the closing brackets that are still due
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
};

}  // namespace

std::vector<JinjaToken> jinja_tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace clover
