// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/split_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace clover {
namespace {

// Work allowed for one match: a run of 16 MB that a pattern must walk three times still passes, a
// pattern that backtracks exponentially does not.
constexpr uint32_t kMatchLimit = 50'000'000;
constexpr uint32_t kHeapLimitKib = 65'536;

constexpr std::string_view kWordClass = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";

// Rewrites a pattern; see translate_pattern.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (pos_ < pattern_.size()) {
      const char c = pattern_[pos_];
      if (c == '\\') {
        escape();
      } else if (depth_ > 0) {
        in_class(c);
      } else if (c == '[') {
        open_class();
      } else {
        outside(c);
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void unsupported(std::string_view construct) const {
    fail(ErrorCode::kUnsupported, "the split pattern \"{}\" uses {}, which is not supported.",
         pattern_, construct);
  }

  void escape() {
    if (pos_ + 1 >= pattern_.size()) unsupported("a trailing backslash");
    const char c = pattern_[pos_ + 1];
    pos_ += 2;
    switch (c) {
      case 's':
        out_ += "\\p{White_Space}";
        break;
      case 'S':
        out_ += "\\P{White_Space}";
        break;
      case 'd':
        out_ += "\\p{Nd}";
        break;
      case 'D':
        out_ += "\\P{Nd}";
        break;
      case 'h':
        out_ += depth_ > 0 ? "0-9a-fA-F" : "[0-9a-fA-F]";
        break;
      case 'w':
        out_ += depth_ > 0 ? std::string(kWordClass) : "[" + std::string(kWordClass) + "]";
        break;
      case 'W':
        if (depth_ > 0) unsupported("\\W inside a character class");
        out_ += "[^" + std::string(kWordClass) + "]";
        break;
      case 'K':
      case 'H':
      case 'C':
      case 'Q':
      case 'G':
        unsupported(std::string("\\") + c);
      default:
        out_ += '\\';
        out_ += c;
        copy_braces();
    }
  }

  // The name or number of \p{...} and \x{...} is no quantifier.
  void copy_braces() {
    if (pos_ >= pattern_.size() || pattern_[pos_] != '{') return;
    if (std::string_view("pPxo").find(pattern_[pos_ - 1]) == std::string_view::npos) return;
    const size_t end = pattern_.find('}', pos_);
    if (end == std::string_view::npos) unsupported("an unclosed brace");
    out_ += pattern_.substr(pos_, end + 1 - pos_);
    pos_ = end + 1;
  }

  void open_class() {
    ++depth_;
    out_ += '[';
    ++pos_;
    if (pos_ < pattern_.size() && pattern_[pos_] == '^') {
      out_ += '^';
      ++pos_;
    }
    if (pos_ < pattern_.size() && pattern_[pos_] == ']') unsupported("an empty character class");
  }

  // A class inside a class is a union in Oniguruma: its members simply join the outer class.
  void in_class(char c) {
    if (c == '[' && pattern_.substr(pos_, 2) == "[:") {
      const size_t end = pattern_.find(":]", pos_);
      if (end == std::string_view::npos) unsupported("an unclosed [: :] class");
      out_ += pattern_.substr(pos_, end + 2 - pos_);
      pos_ = end + 2;
      return;
    }
    if (pattern_.substr(pos_, 2) == "&&") unsupported("an intersection of character classes");
    if (c == '[') {
      if (pattern_.substr(pos_, 2) == "[^") unsupported("a negated class inside a class");
      ++depth_;
    } else if (c == ']') {
      if (--depth_ == 0) out_ += ']';
    } else {
      out_ += c;
    }
    ++pos_;
  }

  void outside(char c) {
    if (c == '(' && pattern_.substr(pos_, 2) == "(*") unsupported("a (*VERB)");
    if (c == '(' && pattern_.substr(pos_, 3) == "(?C") unsupported("a callout");
    if (c == '{') {
      // {n,m}+ repeats the group in Ruby but is possessive in PCRE2.
      const size_t end = pattern_.find('}', pos_);
      if (end != std::string_view::npos && end + 1 < pattern_.size() && pattern_[end + 1] == '+') {
        unsupported("a quantifier {n,m}+");
      }
    }
    out_ += c;
    ++pos_;
  }

  std::string_view pattern_;
  size_t pos_ = 0;
  int depth_ = 0;  // of nested character classes
  std::string out_;
};

}  // namespace

std::string translate_pattern(std::string_view pattern) { return Translator(pattern).run(); }

struct SplitRegex::Code {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;
  std::string pattern;
  bool jit = false;

  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }
};

namespace {

// One match at or behind `start`; the machine-code matcher uses 32 KiB of stack, and where that is
// not enough the interpreter continues on a limited heap.
int match_once(pcre2_code* code, bool jit, pcre2_match_context* context, pcre2_match_data* data,
               std::string_view text, size_t start) {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  if (jit) {
    const int rc = pcre2_jit_match(code, subject, text.size(), start, 0, data, context);
    if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
  }
  return pcre2_match(code, subject, text.size(), start, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data,
                     context);
}

using MatchData = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;

// Match blocks are reused: creating one costs as much as matching a word.
pcre2_match_data* thread_match_data() {
  thread_local const MatchData data(pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  if (data == nullptr) fail(ErrorCode::kExhausted, "out of memory for a regular expression.");
  return data.get();
}

}  // namespace

SplitRegex::SplitRegex(std::string_view pattern) {
  if (utf8_valid_prefix(pattern) != pattern.size()) {
    fail(ErrorCode::kCorrupt, "a split pattern of the tokenizer is not valid UTF-8.");
  }
  const std::string translated = translate_pattern(pattern);
  auto code = std::make_shared<Code>();
  code->pattern = pattern;
  int error = 0;
  size_t offset = 0;
  pcre2_compile_context* options = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(options, PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(options, 100);
  pcre2_set_max_pattern_length(options, 65'536);
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                             &error, &offset, options);
  pcre2_compile_context_free(options);
  if (code->code == nullptr) {
    std::array<PCRE2_UCHAR, 200> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    fail(ErrorCode::kUnsupported, "the split pattern \"{}\" does not compile: {}.",
         std::string(pattern.substr(0, 500)), reinterpret_cast<const char*>(message.data()));
  }
  code->jit = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;
  code->context = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(code->context, kMatchLimit);
  pcre2_set_heap_limit(code->context, kHeapLimitKib);
  code_ = std::move(code);
}

SplitRegex SplitRegex::literal(std::string_view text) {
  std::string pattern;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = utf8_at(text, pos);
    pattern += fmt::format("\\x{{{:x}}}", static_cast<uint32_t>(c.code));
    pos += c.length;
  }
  return SplitRegex(pattern);
}

void SplitRegex::find_all(std::string_view text, std::vector<TextRange>& matches) const {
  pcre2_match_data* data = thread_match_data();
  const size_t* bounds = pcre2_get_ovector_pointer(data);
  size_t last_end = std::string_view::npos;
  for (size_t start = 0; start <= text.size();) {
    const int rc = match_once(code_->code, code_->jit, code_->context, data, text, start);
    if (rc == PCRE2_ERROR_NOMATCH) return;
    if (rc < 0) {
      fail(ErrorCode::kInvalidArgument,
           "the text is too hard to split for the tokenizer's pattern \"{}\" (PCRE2 error {}).",
           code_->pattern, rc);
    }
    const size_t begin = bounds[0];
    const size_t end = bounds[1];
    if (begin != end || end != last_end) matches.push_back({begin, end});
    last_end = end;
    start = end;
    if (begin == end) start += end < text.size() ? utf8_at(text, end).length : 1;
  }
}

}  // namespace clover
