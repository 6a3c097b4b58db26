// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace clover {

using TokenId = int32_t;

// A piece of text and whether it may spell control tokens. Template literals are trusted, anything
// that came from a user (message contents, tool results) is not: "<|im_end|>" inside untrusted text
// is encoded as plain characters and can never become the control token.
struct TextSpan {
  std::string text;
  bool trusted = false;
};

struct EncodeOptions {
  // Add BOS / EOS where the model's tokenizer says so. A BOS that the text already starts with
  // (from a template) is not doubled.
  bool add_special = true;
};

// Text to ids and back for one model. Immutable after loading; all methods are thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Encodes the concatenation of the spans. Adjacent text is joined before splitting, so where the
  // spans are cut does not change the ids except that control tokens are found in trusted spans
  // only. Invalid UTF-8 is encoded by bytes where the vocabulary allows, otherwise as the unknown
  // token.
  virtual std::vector<TokenId> encode(std::span<const TextSpan> spans,
                                      const EncodeOptions& options) const = 0;
  // Encodes one text; `trusted` as in TextSpan.
  std::vector<TokenId> encode(std::string_view text, bool trusted,
                              const EncodeOptions& options = {}) const;

  // The bytes that a token stands for (may be part of a UTF-8 character); control tokens give their
  // literal text, ids outside the vocabulary are an Error(kInvalidArgument).
  virtual std::string_view token_bytes(TokenId id) const = 0;
  // All ids' bytes joined; control tokens are left out when skip_special. SentencePiece's leading
  // space is stripped as its reference does. The result may hold invalid UTF-8 (see StreamDecoder).
  virtual std::string decode(std::span<const TokenId> ids, bool skip_special) const = 0;

  virtual int32_t vocab_size() const = 0;
  virtual bool is_control(TokenId id) const = 0;
  virtual std::optional<TokenId> bos() const = 0;
  // All ids that end a generation (eos, eot, eom …, generation_config.json's list), sorted.
  virtual const std::vector<TokenId>& eos_ids() const = 0;
  // The id of a vocabulary entry by its exact text, for control and user-defined tokens too.
  virtual std::optional<TokenId> find(std::string_view text) const = 0;
  // "byte-level BPE", "SentencePiece BPE", "SentencePiece unigram".
  virtual std::string_view kind() const = 0;
  // The model's chat template source, if it has one.
  virtual std::optional<std::string> chat_template() const = 0;
  // The special tokens that a chat template may name, with their texts: "bos_token", "eos_token",
  // "unk_token", "pad_token", as far as the model has them.
  virtual std::map<std::string, std::string> template_tokens() const { return {}; }
};

// From GGUF keys, or from tokenizer.json (preferred) or tokenizer.model of a Hugging Face folder.
// Errors: kNotFound (no tokenizer), kCorrupt, kUnsupported (model or pre-tokenizer kind, by name).
std::unique_ptr<Tokenizer> load_tokenizer(const Checkpoint& checkpoint);

// Turns ids into text as they arrive: only whole UTF-8 characters are given out; bytes that can
// never become valid turn into U+FFFD, exactly where decoding the whole text at once would.
class StreamDecoder {
 public:
  StreamDecoder(const Tokenizer& tokenizer, bool skip_special);
  // The text that became certain with this token (possibly empty).
  std::string push(TokenId id);
  // What is left at the end of generation: an unfinished character gives one U+FFFD.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool skip_special_;
  bool at_start_ = true;
  std::string pending_;
};

}  // namespace clover
