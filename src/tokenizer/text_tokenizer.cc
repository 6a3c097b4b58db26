// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/text_tokenizer.h"

#include <algorithm>

#include "base/error.h"

namespace clover {
namespace {

// The joined text of spans and which parts of it are trusted.
struct JoinedText {
  std::string text;
  std::vector<TextRange> trusted;  // in order, neither empty nor touching

  bool is_trusted(TextRange range) const {
    const auto after = std::upper_bound(
        trusted.begin(), trusted.end(), range.begin,
        [](size_t begin, const TextRange& candidate) { return begin < candidate.begin; });
    return after != trusted.begin() && range.end <= std::prev(after)->end;
  }
};

JoinedText join(std::span<const TextSpan> spans) {
  JoinedText joined;
  for (const TextSpan& span : spans) {
    const size_t begin = joined.text.size();
    joined.text += span.text;
    if (!span.trusted || span.text.empty()) continue;
    if (!joined.trusted.empty() && joined.trusted.back().end == begin) {
      joined.trusted.back().end = joined.text.size();
    } else {
      joined.trusted.push_back({begin, joined.text.size()});
    }
  }
  return joined;
}

}  // namespace

TextTokenizer::TextTokenizer(TokenTable table, Traits traits)
    : table_(std::move(table)), traits_(std::move(traits)) {
  for (const AddedToken& token : traits_.added) {
    if (token.control) table_.mark_control(token.id);
    if (token.control || !token.normalized) raw_tokens_.add(token);
  }
  std::sort(traits_.eos.begin(), traits_.eos.end());
  traits_.eos.erase(std::unique(traits_.eos.begin(), traits_.eos.end()), traits_.eos.end());
  if (traits_.bos) traits_.template_tokens.try_emplace("bos_token", table_.at(*traits_.bos).bytes);
}

std::vector<TokenId> TextTokenizer::encode(std::span<const TextSpan> spans,
                                           const EncodeOptions& options) const {
  const JoinedText joined = join(spans);
  std::vector<TextSection> sections;
  raw_tokens_.split(
      joined.text, [&](TextRange range) { return joined.is_trusted(range); }, sections);
  std::vector<TokenId> ids;
  ids.reserve(joined.text.size() / 3 + 8);
  Place place{true, false};
  for (const TextSection& section : sections) {
    if (section.id >= 0) {
      ids.push_back(section.id);
    } else {
      const auto [begin, end] = section.range;
      encode_section(std::string_view(joined.text).substr(begin, end - begin), place, ids);
    }
    place = {false, section.id >= 0};
  }
  if (options.add_special) add_special(ids);
  return ids;
}

void TextTokenizer::add_special(std::vector<TokenId>& ids) const {
  // A chat template may have written the BOS already.
  const auto& prefix = traits_.prefix;
  const bool present =
      ids.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), ids.begin());
  if (!present) ids.insert(ids.begin(), prefix.begin(), prefix.end());
  ids.insert(ids.end(), traits_.suffix.begin(), traits_.suffix.end());
}

std::string TextTokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string out;
  bool at_start = traits_.strip_first_space;
  for (const TokenId id : ids) {
    const TokenTable::Entry& entry = table_.at(id);
    if (skip_special && entry.control) continue;
    std::string_view bytes = entry.bytes;
    if (bytes.empty()) continue;
    if (at_start && bytes.front() == ' ' && !entry.control) bytes.remove_prefix(1);
    at_start = false;
    out += bytes;
  }
  return out;
}

}  // namespace clover
