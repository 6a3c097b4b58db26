// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/bpe_model.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/utf8.h"

namespace clover {
namespace {

constexpr int32_t kNoSymbol = -1;
// Longer entries are legal, but all their splits are not worth a table: such an entry is only found
// as an added token.
constexpr size_t kLongestScoredEntry = 256;

// The entry as the text it matches: bytes for byte-level vocabularies.
std::optional<std::string> entry_text(const TokenTable::Entry& entry, bool byte_level) {
  if (!byte_level) return entry.text;
  return letters_to_bytes(entry.text);
}

bool is_one_character(std::string_view text) {
  return !text.empty() && utf8_at(text, 0).length == text.size() &&
         utf8_at(text, 0).status == Utf8Char::Status::kValid;
}

}  // namespace

BpeModel::BpeModel(const Options& options) : options_(options) { bytes_.fill(kNoSymbol); }

BpeModel BpeModel::from_merges(const TokenTable& table, const Options& options,
                               const std::vector<TextPair>& merges) {
  BpeModel model(options);
  std::vector<bool> usable(table.size());
  for (size_t id = 0; id < table.size(); ++id) {
    usable[id] = !table.at(static_cast<TokenId>(id)).control;
  }
  model.index_symbols(table, usable);
  model.merges_ = MergeTable(merges.size());
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto& [left, right] = merges[rank];
    joined.assign(left).append(right);
    const auto left_id = table.find(left);
    const auto right_id = table.find(right);
    const auto result = table.find(joined);
    if (!left_id || !right_id || !result) {
      fail(ErrorCode::kCorrupt,
           "tokenizer: merge {} (\"{}\" + \"{}\") names a token that the "
           "vocabulary lacks.",
           rank, left, right);
    }
    if (table.at(*result).control) continue;
    model.add_merge(*left_id, *right_id, {static_cast<uint32_t>(rank), *result}, merges[rank]);
  }
  return model;
}

BpeModel BpeModel::from_scores(const TokenTable& table, const Options& options,
                               const std::vector<double>& scores,
                               const std::vector<bool>& mergeable) {
  BpeModel model(options);
  model.first_extra_ = static_cast<int32_t>(table.size());
  model.index_symbols(table, mergeable);
  std::vector<TokenId> order;
  for (size_t id = 0; id < table.size(); ++id) {
    if (mergeable[id]) order.push_back(static_cast<TokenId>(id));
  }
  const auto score = [&](TokenId id) { return scores[static_cast<size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return score(a) > score(b); });
  model.merges_ = MergeTable(order.size() * 4);
  // Entries of equal score have equal rank: then the leftmost pair joins first.
  uint32_t rank = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && score(order[i]) < score(order[i - 1])) ++rank;
    model.add_splits_of(order[i], rank, table, mergeable);
  }
  return model;
}

void BpeModel::index_bytes(const TokenTable& table) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto id = table.find(fmt::format("<0x{:02X}>", byte));
    if (id) bytes_[static_cast<size_t>(byte)] = *id;
  }
}

void BpeModel::index_symbols(const TokenTable& table, const std::vector<bool>& usable) {
  if (!options_.byte_level && options_.byte_fallback) index_bytes(table);
  for (size_t i = table.size(); i-- > 0;) {  // downwards: the lowest of equal texts wins
    if (!usable[i]) continue;
    const auto id = static_cast<TokenId>(i);
    const TokenTable::Entry& entry = table.at(id);
    if (entry.text.empty()) continue;
    if (options_.ignore_merges) {
      if (auto text = entry_text(entry, options_.byte_level)) whole_pieces_[*text] = id;
    }
    if (!is_one_character(entry.text)) continue;
    if (options_.byte_level) {
      const auto bytes = letters_to_bytes(entry.text);
      if (bytes) bytes_[static_cast<uint8_t>((*bytes)[0])] = id;
    } else {
      set_symbol(utf8_at(entry.text, 0).code, id);
    }
  }
}

void BpeModel::set_symbol(char32_t code, int32_t symbol) {
  if (code >= 0x10000) {
    high_characters_[code] = symbol;
    return;
  }
  if (code >= characters_.size()) characters_.resize(code + 1, kNoSymbol);
  characters_[code] = symbol;
}

int32_t BpeModel::symbol_of(char32_t code) const {
  if (code < 0x10000) return code < characters_.size() ? characters_[code] : kNoSymbol;
  const auto it = high_characters_.find(code);
  return it == high_characters_.end() ? kNoSymbol : it->second;
}

void BpeModel::add_merge(int32_t left, int32_t right, MergeTable::Merge merge, TextPair texts) {
  merges_.add(left, right, merge);
  if (texts.second.starts_with(kSpaceMarker) && !texts.first.ends_with(kSpaceMarker)) {
    words_apart_ = false;
  }
}

int32_t BpeModel::part_symbol(std::string_view part, const TokenTable& table,
                              const std::vector<bool>& mergeable) {
  if (is_one_character(part)) {
    const char32_t code = utf8_at(part, 0).code;
    const int32_t known = symbol_of(code);
    if (known != kNoSymbol) return known;
    const auto extra = first_extra_ + static_cast<int32_t>(extras_.size());
    extras_.emplace_back(part);
    set_symbol(code, extra);
    return extra;
  }
  const auto id = table.find(part);
  return id && mergeable[static_cast<size_t>(*id)] ? *id : kNoSymbol;
}

void BpeModel::add_splits_of(TokenId id, uint32_t rank, const TokenTable& table,
                             const std::vector<bool>& mergeable) {
  const std::string_view text = table.at(id).text;
  if (text.size() > kLongestScoredEntry || utf8_valid_prefix(text) != text.size()) return;
  if (table.find(text) != id) return;  // a repeated text
  for (size_t cut = 0; cut < text.size();) {
    cut += utf8_at(text, cut).length;
    if (cut >= text.size()) break;
    const TextPair texts(text.substr(0, cut), text.substr(cut));
    const int32_t left = part_symbol(texts.first, table, mergeable);
    const int32_t right = part_symbol(texts.second, table, mergeable);
    if (left != kNoSymbol && right != kNoSymbol) add_merge(left, right, {rank, id}, texts);
  }
}

void BpeModel::append_unknown(std::string_view character, std::vector<int32_t>& symbols) const {
  const bool has_bytes =
      !options_.byte_level && std::all_of(character.begin(), character.end(), [&](char c) {
        return bytes_[static_cast<uint8_t>(c)] != kNoSymbol;
      });
  if (has_bytes) {
    for (const char c : character) symbols.push_back(bytes_[static_cast<uint8_t>(c)]);
  } else if (options_.unknown) {
    const bool repeated = !symbols.empty() && symbols.back() == *options_.unknown;
    if (!options_.fuse_unknown || !repeated) symbols.push_back(*options_.unknown);
  }
}

void BpeModel::emit(const std::vector<int32_t>& symbols, std::vector<TokenId>& out) const {
  if (extras_.empty()) {
    out.insert(out.end(), symbols.begin(), symbols.end());
    return;
  }
  std::vector<int32_t> resolved;
  for (const int32_t symbol : symbols) {
    if (symbol < first_extra_) {
      resolved.push_back(symbol);
    } else {
      append_unknown(extras_[static_cast<size_t>(symbol - first_extra_)], resolved);
    }
  }
  out.insert(out.end(), resolved.begin(), resolved.end());
}

void BpeModel::encode(std::string_view piece, std::vector<TokenId>& out) const {
  if (options_.ignore_merges) {
    const auto whole = whole_pieces_.find(std::string(piece));
    if (whole != whole_pieces_.end()) {
      out.push_back(whole->second);
      return;
    }
  }
  std::vector<int32_t> symbols;
  symbols.reserve(piece.size());
  if (options_.byte_level) {
    for (const char c : piece) {
      const int32_t symbol = bytes_[static_cast<uint8_t>(c)];
      if (symbol != kNoSymbol) {
        symbols.push_back(symbol);
      } else {
        append_unknown({&c, 1}, symbols);
      }
    }
  } else {
    for (size_t pos = 0; pos < piece.size();) {
      const Utf8Char c = utf8_at(piece, pos);
      const int32_t symbol = symbol_of(c.code);
      if (symbol != kNoSymbol) {
        symbols.push_back(symbol);
      } else {
        append_unknown(piece.substr(pos, c.length), symbols);
      }
      pos += c.length;
    }
  }
  merges_.apply(symbols);
  emit(symbols, out);
}

bool BpeModel::words_apart() const {
  // A marker that is unknown itself could fuse with unknown characters on both sides.
  return words_apart_ && !options_.ignore_merges && symbol_of(0x2581) != kNoSymbol;
}

void BpeModel::encode_invalid(std::string_view bytes, std::vector<TokenId>& out) const {
  if (options_.byte_level) {
    encode(bytes, out);
    return;
  }
  std::vector<int32_t> symbols;
  append_unknown(bytes, symbols);
  out.insert(out.end(), symbols.begin(), symbols.end());
}

}  // namespace clover
