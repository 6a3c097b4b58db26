// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tokenizer/chat_template/context.h"

namespace clover {

// Python's str methods on marked text. Positions are characters.

MarkedText upper_text(const MarkedText& text);
MarkedText lower_text(const MarkedText& text);
// First character upper, the rest lower.
MarkedText capitalize_text(const MarkedText& text);
// str.title(): each run of letters begins upper.
MarkedText title_text(const MarkedText& text);
// The title filter of Jinja: each word after a space or opening bracket begins upper.
MarkedText title_words(const MarkedText& text);

enum class Side { kLeft, kRight, kBoth };
// Without `chars`: whitespace.
MarkedText strip_text(const MarkedText& text, const MarkedText* chars, Side side);
// All (or the first `most`, when not negative) occurrences. What is put into untrusted text is
// untrusted.
MarkedText replace_text(JinjaContext& context, const MarkedText& text, const MarkedText& old,
                        const MarkedText& with, int64_t most);
// Without `separator`: at runs of whitespace. At most `most` cuts when not negative, from the end
// when `from_end`.
std::vector<MarkedText> split_text(const MarkedText& text, const MarkedText* separator,
                                   int64_t most, bool from_end);
std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends);
// The filter: every line but the first (and that too, if `first`) gets `prefix`.
MarkedText indent_text(const MarkedText& text, const MarkedText& prefix, bool first, bool blank);
// & < > ' " as HTML entities.
MarkedText escape_html(const MarkedText& text);
// str.format() with {}, {0} and {name} fields.
struct JinjaArgs;
MarkedText brace_format(JinjaContext& context, const MarkedText& format, const JinjaArgs& args);

}  // namespace clover
