// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/pipeline_tokenizer.h"

#include "tokenizer/utf8.h"

namespace clover {
namespace {

// Cuts before every run of space markers (see BpeModel::words_apart).
void cut_before_markers(std::string_view text, std::vector<TextRange>& pieces) {
  pieces.clear();
  size_t begin = 0;
  size_t pos = 0;
  while ((pos = text.find(kSpaceMarker, pos)) != std::string_view::npos) {
    if (pos > begin) pieces.push_back({begin, pos});
    begin = pos;
    while (text.substr(pos).starts_with(kSpaceMarker)) pos += kSpaceMarker.size();
  }
  if (begin < text.size()) pieces.push_back({begin, text.size()});
}

}  // namespace

PipelineTokenizer::PipelineTokenizer(TokenTable table, Traits traits, Stages stages)
    : TextTokenizer(std::move(table), std::move(traits)), stages_(std::move(stages)) {
  for (AddedToken token : added()) {
    if (token.control || !token.normalized) continue;
    if (utf8_valid_prefix(token.content) != token.content.size()) continue;
    token.content = stages_.normalizer.apply(token.content).text;
    normalized_tokens_.add(token);
  }
  cut_words_ = stages_.pre_tokenizer.empty() && !stages_.byte_level && stages_.model.words_apart();
}

void PipelineTokenizer::encode_section(std::string_view text, Place place,
                                       std::vector<TokenId>& ids) const {
  // Bytes that are no UTF-8 stand apart from the text around them.
  while (!text.empty()) {
    const size_t valid = utf8_valid_prefix(text);
    if (valid > 0) {
      encode_valid(text.substr(0, valid), place, ids);
      text.remove_prefix(valid);
    }
    const size_t invalid = utf8_invalid_prefix(text);
    if (invalid > 0) stages_.model.encode_invalid(text.substr(0, invalid), ids);
    text.remove_prefix(invalid);
    place = {};
  }
}

void PipelineTokenizer::encode_valid(std::string_view text, Place place,
                                     std::vector<TokenId>& ids) const {
  auto [normalized, front_kept] =
      stages_.normalizer.apply(text, place.at_start || place.after_token);
  const bool at_start = place.at_start && front_kept;
  if (normalized_tokens_.empty()) {
    encode_plain(std::move(normalized), at_start, ids);
    return;
  }
  std::vector<TextSection> sections;
  normalized_tokens_.split(
      normalized, [](TextRange) { return false; }, sections);
  for (const TextSection& section : sections) {
    const auto [begin, end] = section.range;
    if (section.id >= 0) {
      ids.push_back(section.id);
    } else {
      encode_plain(normalized.substr(begin, end - begin), at_start && begin == 0, ids);
    }
  }
}

void PipelineTokenizer::encode_plain(std::string text, bool at_start,
                                     std::vector<TokenId>& ids) const {
  std::vector<TextRange> pieces;
  if (cut_words_) {
    cut_before_markers(text, pieces);
  } else {
    stages_.pre_tokenizer.apply(text, at_start, pieces);
  }
  for (const TextRange& piece : pieces) {
    stages_.model.encode(std::string_view(text).substr(piece.begin, piece.end - piece.begin), ids);
  }
}

}  // namespace clover
