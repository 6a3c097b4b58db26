// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "tokenizer/bpe_model.h"
#include "tokenizer/text_tokenizer.h"
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

class SentencePieceTokenizer final : public TextTokenizer {
 public:
  // How spaces are put before sections of text.
  struct Prefix {
    bool first_only = false;  // write it here, before the first section; else the model does
    bool wanted = false;
  };

  SentencePieceTokenizer(TokenTable table, Traits traits, std::unique_ptr<Processor> processor,
                         Prefix prefix)
      : TextTokenizer(std::move(table), std::move(traits)),
        processor_(std::move(processor)),
        prefix_(prefix) {}

 protected:
  void encode_section(std::string_view text, Place place,
                      std::vector<TokenId>& ids) const override {
    std::string prefixed;
    if (prefix_.first_only && prefix_.wanted && place.at_start) {
      prefixed = " " + std::string(text);
      text = prefixed;
    }
    std::vector<int> part;
    const auto status = processor_->Encode({text.data(), text.size()}, &part);
    if (!status.ok()) {
      fail(ErrorCode::kInvalidArgument, "SentencePiece can't encode the text: {}.",
           status.ToString());
    }
    ids.insert(ids.end(), part.begin(), part.end());
  }

 private:
  std::unique_ptr<Processor> processor_;
  Prefix prefix_;
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
  std::string model = read_file(path);
  std::unique_ptr<Processor> processor = load(model, path);
  SentencePieceTokenizer::Prefix prefix;
  prefix.wanted = adds_prefix(*processor);
  if (!settings.legacy) {
    prefix.first_only = true;
    model += kWithoutPrefix;
    processor = load(model, path);
  }

  TextTokenizer::Traits traits;
  traits.kind = "SentencePiece BPE";
  traits.added = complete_added(*processor, settings);
  traits.strip_first_space = prefix.wanted;
  TokenTable table = make_table(*processor, traits.added, path);
  if (processor->bos_id() >= 0) traits.bos = processor->bos_id();
  if (processor->eos_id() >= 0) traits.eos.push_back(processor->eos_id());
  apply_settings(settings, table, traits);
  // The Llama tokenizers add BOS and no EOS unless told otherwise.
  if (!settings.add_bos.has_value() && traits.bos) traits.prefix = {*traits.bos};
  return std::make_unique<SentencePieceTokenizer>(std::move(table), std::move(traits),
                                                  std::move(processor), prefix);
}

}  // namespace clover
