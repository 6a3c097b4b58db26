// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "tokenizer/json_fields.h"
#include "tokenizer/utf8.h"

namespace clover {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

int combining_class(utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; }

// Decomposes every character; marks stay in the order of the text.
std::vector<utf8proc_int32_t> decompose(std::string_view text, bool compatible) {
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE |
                                                      (compatible ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(text.size());
  std::array<utf8proc_int32_t, 32> parts{};  // the longest decomposition has 18 characters
  int boundary = 0;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = utf8_at(text, pos);
    pos += c.length;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code), parts.data(),
                                static_cast<utf8proc_ssize_t>(parts.size()), options, &boundary);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(parts.size())) {
      codes.push_back(static_cast<utf8proc_int32_t>(c.code));
    } else {
      codes.insert(codes.end(), parts.begin(), parts.begin() + count);
    }
  }
  return codes;
}

// Canonical order: runs of marks sorted by combining class. A stable sort, because the library's
// own exchange sort takes quadratic time on a long run of marks.
void order_marks(std::vector<utf8proc_int32_t>& codes) {
  for (size_t i = 0; i < codes.size();) {
    if (combining_class(codes[i]) == 0) {
      ++i;
      continue;
    }
    size_t end = i + 1;
    while (end < codes.size() && combining_class(codes[end]) != 0) ++end;
    std::stable_sort(codes.begin() + static_cast<ptrdiff_t>(i),
                     codes.begin() + static_cast<ptrdiff_t>(end),
                     [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    i = end;
  }
}

// One character has a lower-case form of two: İ.
std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = utf8_at(text, pos);
    pos += c.length;
    if (c.code == 0x130) {
      append_utf8(out, 'i');
      append_utf8(out, 0x307);
    } else {
      append_utf8(out,
                  static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c.code))));
    }
  }
  return out;
}

// Applies one step to a text.
struct StepRunner {
  Normalizer::Result& result;
  bool prepend;

  void operator()(UnicodeForm form) const { result.text = unicode_normalize(result.text, form); }
  void operator()(Normalizer::Lowercase) const { result.text = lowercase(result.text); }
  void operator()(const Normalizer::Prepend& step) const {
    if (prepend && !result.text.empty()) result.text.insert(0, step.text);
  }
  void operator()(const Normalizer::Replace& step) const {
    std::vector<TextRange> matches;
    step.pattern.find_all(result.text, matches);
    if (matches.empty()) return;
    std::string out;
    out.reserve(result.text.size());
    size_t done = 0;
    for (const TextRange& match : matches) {
      out.append(result.text, done, match.begin - done).append(step.text);
      done = match.end;
    }
    out.append(result.text, done);
    if (step.text.empty() && matches[0].begin == 0 && matches[0].end > 0) {
      result.front_kept = false;
    }
    result.text = std::move(out);
  }
  void operator()(const Normalizer::Strip& sides) const {
    const std::string_view text = result.text;
    size_t begin = 0;
    size_t end = text.size();
    while (sides.left && begin < end) {
      const Utf8Char c = utf8_at(text, begin);
      if (!is_white_space(c.code)) break;
      begin += c.length;
    }
    while (sides.right && end > begin) {
      const size_t previous = utf8_previous(text, end);
      if (!is_white_space(utf8_at(text, previous).code)) break;
      end = previous;
    }
    if (begin > 0) result.front_kept = false;
    result.text = std::string(text.substr(begin, end - begin));
  }
};

void read_steps(const Json& node, std::vector<Normalizer::Step>& steps) {
  const std::string type = json_string(node, "type");
  if (type == "Sequence") {
    for (const Json& child : json_array(node, "normalizers")) read_steps(child, steps);
  } else if (type == "NFC") {
    steps.emplace_back(UnicodeForm::kNfc);
  } else if (type == "NFD") {
    steps.emplace_back(UnicodeForm::kNfd);
  } else if (type == "NFKC") {
    steps.emplace_back(UnicodeForm::kNfkc);
  } else if (type == "NFKD") {
    steps.emplace_back(UnicodeForm::kNfkd);
  } else if (type == "Lowercase") {
    steps.emplace_back(Normalizer::Lowercase{});
  } else if (type == "Prepend") {
    steps.emplace_back(Normalizer::Prepend{json_string(node, "prepend")});
  } else if (type == "Replace") {
    steps.emplace_back(Normalizer::Replace{pattern_from_json(node), json_string(node, "content")});
  } else if (type == "Strip") {
    steps.emplace_back(Normalizer::Strip{json_bool(node, "strip_left", true),
                                         json_bool(node, "strip_right", true)});
  } else {
    fail(ErrorCode::kUnsupported, "tokenizer.json: the normalizer \"{}\" is not supported.", type);
  }
}

}  // namespace

std::string unicode_normalize(std::string_view text, UnicodeForm form) {
  if (is_ascii(text)) return std::string(text);
  const bool compatible = form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
  const bool compose = form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
  std::vector<utf8proc_int32_t> codes = decompose(text, compatible);
  order_marks(codes);
  if (compose) {
    const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    const utf8proc_ssize_t count = utf8proc_normalize_utf32(
        codes.data(), static_cast<utf8proc_ssize_t>(codes.size()), options);
    if (count < 0) fail(ErrorCode::kInvalidArgument, "the text can't be normalised.");
    codes.resize(static_cast<size_t>(count));
  }
  std::string out;
  out.reserve(text.size());
  for (const utf8proc_int32_t code : codes) append_utf8(out, static_cast<char32_t>(code));
  return out;
}

void check_growth(size_t before, size_t after) {
  // One character decomposes into eleven times its bytes at most.
  if (after > 32 * before + 65'536) {
    fail(ErrorCode::kInvalidArgument,
         "the tokenizer's own steps make a text of {} bytes grow to {}.", before, after);
  }
}

SplitRegex pattern_from_json(const Json& owner) {
  const Json* pattern = json_member(owner, "pattern");
  if (pattern == nullptr) fail(ErrorCode::kCorrupt, "tokenizer: \"pattern\" is missing.");
  if (pattern->is_string()) return SplitRegex::literal(pattern->get<std::string>());
  if (json_member(*pattern, "String") != nullptr) {
    return SplitRegex::literal(json_string(*pattern, "String"));
  }
  return SplitRegex(json_string(*pattern, "Regex"));
}

Normalizer Normalizer::from_json(const Json* node) {
  std::vector<Step> steps;
  if (node != nullptr) read_steps(*node, steps);
  return Normalizer(std::move(steps));
}

Normalizer::Result Normalizer::apply(std::string_view text, bool prepend) const {
  Result result{std::string(text)};
  for (const Step& step : steps_) {
    std::visit(StepRunner{result, prepend}, step);
    check_growth(text.size(), result.text.size());
  }
  return result;
}

}  // namespace clover
