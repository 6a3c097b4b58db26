// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tokenizer/merges.h"
#include "tokenizer/token_table.h"

namespace clover {

// How SentencePiece spells a space: U+2581.
inline constexpr std::string_view kSpaceMarker = "\xE2\x96\x81";

// Byte-pair encoding of one piece of text at a time.
class BpeModel {
 public:
  struct Options {
    bool byte_level = false;         // symbols are bytes, entries are spelled in the byte alphabet
    bool byte_fallback = false;      // unknown characters become the tokens <0x00> … <0xFF>
    bool fuse_unknown = false;       // neighbouring unknown characters become one unknown token
    bool ignore_merges = false;      // a piece that is a vocabulary entry is that token
    std::optional<TokenId> unknown;  // without it unknown characters are left out
  };

  // Left and right texts of a merge.
  using TextPair = std::pair<std::string_view, std::string_view>;

  // Control tokens of `table` are never produced, so that no text can spell one. The most important
  // merge comes first; Error(kCorrupt) when one names an entry that the vocabulary lacks.
  static BpeModel from_merges(const TokenTable& table, const Options& options,
                              const std::vector<TextPair>& merges);

  // SentencePiece's BPE: any two neighbours join whose concatenation is an entry, highest score
  // first. `mergeable[id]` says which entries may come out of it; `scores` has one per entry.
  static BpeModel from_scores(const TokenTable& table, const Options& options,
                              const std::vector<double>& scores,
                              const std::vector<bool>& mergeable);

  // Appends the tokens of a piece: valid UTF-8, or any bytes when byte_level.
  void encode(std::string_view piece, std::vector<TokenId>& out) const;
  // Appends tokens for a run of bytes that is not UTF-8.
  void encode_invalid(std::string_view bytes, std::vector<TokenId>& out) const;

  // No merge joins a space marker to anything but a marker on its left, so text may be cut before
  // each run of markers without changing its tokens.
  bool words_apart() const;

 private:
  explicit BpeModel(const Options& options);

  void index_symbols(const TokenTable& table, const std::vector<bool>& usable);
  void index_bytes(const TokenTable& table);
  void set_symbol(char32_t code, int32_t symbol);
  int32_t symbol_of(char32_t code) const;
  void add_merge(int32_t left, int32_t right, MergeTable::Merge merge, TextPair texts);
  void add_splits_of(TokenId id, uint32_t rank, const TokenTable& table,
                     const std::vector<bool>& mergeable);
  int32_t part_symbol(std::string_view part, const TokenTable& table,
                      const std::vector<bool>& mergeable);
  void append_unknown(std::string_view character, std::vector<int32_t>& symbols) const;
  void emit(const std::vector<int32_t>& symbols, std::vector<TokenId>& out) const;

  Options options_;
  MergeTable merges_;
  // byte_level: the symbol of each byte; otherwise the token <0x..> of each byte; -1 for none.
  std::array<int32_t, 256> bytes_{};
  std::vector<int32_t> characters_;  // symbols of characters below U+10000, -1 for none
  std::unordered_map<char32_t, int32_t> high_characters_;
  std::unordered_map<std::string, TokenId> whole_pieces_;  // filled for ignore_merges
  // Characters that occur in entries but are none themselves: symbols from first_extra_ upwards.
  int32_t first_extra_ = 0;
  std::vector<std::string> extras_;
  bool words_apart_ = true;
};

}  // namespace clover
