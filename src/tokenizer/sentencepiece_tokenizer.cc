// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "tokenizer/bpe_model.h"
#include "tokenizer/text_tokenizer.h"
#include "tokenizer/utf8.h"
#include "tokenizer/vocabulary_text.h"

namespace clover {
namespace {

using Processor = sentencepiece::SentencePieceProcessor;

// A message of the wire format that, put behind a model, overrides one field:
// normalizer_spec { add_dummy_prefix: false }.
constexpr std::string_view kWithoutPrefix("\x1A\x02\x18\x00", 4);

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ErrorCode::kIo, "cannot read {}.", path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::unique_ptr<Processor> load(const std::string& model, const std::string& path) {
  auto processor = std::make_unique<Processor>();
  const auto status = processor->LoadFromSerializedProto(model);
  if (!status.ok() || processor->GetPieceSize() <= 0) {
    fail(ErrorCode::kCorrupt, "{} is not a SentencePiece model: {}.", path, status.ToString());
  }
  return processor;
}

// Whether the model puts a space before a text: the public interface only tells by doing.
bool adds_prefix(const Processor& processor) {
  std::vector<std::string> pieces;
  if (!processor.Encode("a", &pieces).ok() || pieces.empty()) return false;
  return pieces[0].starts_with(kSpaceMarker);
}

// One model, with the space before a text and without.
struct Processors {
  std::unique_ptr<Processor> with_prefix;
  std::unique_ptr<Processor> bare;
};

class SentencePieceTokenizer final : public TextTokenizer {
 public:
  // `prefix_always`: every section of text begins with a space, not only the first one.
  SentencePieceTokenizer(TokenTable vocabulary, Traits traits, Processors processors,
                         bool prefix_always)
      : TextTokenizer(std::move(vocabulary), std::move(traits)),
        processors_(std::move(processors)),
        prefix_always_(prefix_always) {
    for (int byte = 0; byte < 256; ++byte) {
      const auto id = table().find(fmt::format("<0x{:02X}>", byte));
      const bool known = id && *id < processors_.bare->GetPieceSize();
      bytes_[static_cast<size_t>(byte)] = known && processors_.bare->IsByte(*id) ? *id : -1;
    }
  }

 protected:
  void encode_section(std::string_view text, Place place,
                      std::vector<TokenId>& ids) const override {
    bool prefix = place.at_start || (prefix_always_ && place.after_token);
    while (!text.empty()) {
      const size_t valid = utf8_valid_prefix(text);
      if (valid > 0) encode_valid(text.substr(0, valid), prefix, ids);
      text.remove_prefix(valid);
      const size_t invalid = utf8_invalid_prefix(text);
      encode_invalid(text.substr(0, invalid), ids);
      text.remove_prefix(invalid);
      prefix = false;
    }
  }

 private:
  void encode_valid(std::string_view text, bool prefix, std::vector<TokenId>& ids) const {
    std::vector<int> part;
    const Processor& processor = prefix ? *processors_.with_prefix : *processors_.bare;
    const auto status = processor.Encode({text.data(), text.size()}, &part);
    if (!status.ok()) {
      fail(ErrorCode::kInvalidArgument, "SentencePiece can't encode the text: {}.",
           status.ToString());
    }
    ids.insert(ids.end(), part.begin(), part.end());
  }

  void encode_invalid(std::string_view bytes, std::vector<TokenId>& ids) const {
    for (const char byte : bytes) {
      const TokenId id = bytes_[static_cast<uint8_t>(byte)];
      ids.push_back(id >= 0 ? id : processors_.bare->unk_id());
    }
  }

  Processors processors_;
  bool prefix_always_;
  std::array<TokenId, 256> bytes_{};
};

std::string bytes_of_piece(const Processor& processor, int id) {
  const std::string& piece = processor.IdToPiece(id);
  if (processor.IsByte(id)) {
    if (const auto byte = parse_byte_token(piece)) return std::string(1, static_cast<char>(*byte));
  }
  if (processor.IsControl(id) || processor.IsUnknown(id)) return piece;
  return replace_space_markers(piece);
}

// The model's pieces, then the folder's added tokens behind or over them.
TokenTable make_table(const Processor& processor, const std::vector<AddedToken>& added,
                      const std::string& path) {
  const auto pieces = static_cast<size_t>(processor.GetPieceSize());
  size_t size = pieces;
  for (const AddedToken& token : added) {
    const auto id = static_cast<size_t>(token.id);
    if (id > pieces + added.size() + 65'536) {
      fail(ErrorCode::kCorrupt, "{}: the added token \"{}\" has the id {} far beyond {} pieces.",
           path, token.content, id, pieces);
    }
    size = std::max(size, id + 1);
  }
  TokenTable table(size);
  for (size_t i = 0; i < pieces; ++i) {
    const int id = static_cast<int>(i);
    const bool control = processor.IsControl(id) || processor.IsUnknown(id);
    table.set(id, processor.IdToPiece(id), bytes_of_piece(processor, id), control);
  }
  for (const AddedToken& token : added) {
    table.set(token.id, token.content, token.content, token.control);
  }
  return table;
}

// Control pieces that the folder does not list are found in trusted text too.
std::vector<AddedToken> complete_added(const Processor& processor, const HfSettings& settings) {
  std::vector<AddedToken> added = settings.added;
  for (AddedToken& token : added) token.normalized = false;
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    if (!processor.IsControl(id) && !processor.IsUnknown(id)) continue;
    const bool listed = std::any_of(added.begin(), added.end(),
                                    [&](const AddedToken& token) { return token.id == id; });
    if (listed) continue;
    AddedToken token;
    token.content = processor.IdToPiece(id);
    token.id = id;
    token.control = true;
    added.push_back(std::move(token));
  }
  return added;
}

}  // namespace

std::unique_ptr<Tokenizer> sentencepiece_tokenizer(const std::string& path,
                                                   const HfSettings& settings) {
  const std::string model = read_file(path);
  Processors processors;
  processors.with_prefix = load(model, path);
  processors.bare = load(model + std::string(kWithoutPrefix), path);
  const Processor& processor = *processors.bare;
  TextTokenizer::Traits traits;
  traits.kind = "SentencePiece BPE";
  traits.added = complete_added(processor, settings);
  traits.strip_first_space = adds_prefix(*processors.with_prefix);
  TokenTable table = make_table(processor, traits.added, path);
  if (processor.bos_id() >= 0) traits.bos = processor.bos_id();
  if (processor.eos_id() >= 0) traits.eos.push_back(processor.eos_id());
  apply_settings(settings, table, traits);
  // The Llama tokenizers add BOS and no EOS unless told otherwise.
  if (!settings.add_bos.has_value() && traits.bos) traits.prefix = {*traits.bos};
  return std::make_unique<SentencePieceTokenizer>(std::move(table), std::move(traits),
                                                  std::move(processors), settings.legacy);
}

}  // namespace clover
