// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/clover_config.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace clover {
namespace {

constexpr int64_t kMaxHeads = 64;
constexpr int64_t kMaxBlockLayers = 64;

CloverConfig clover2(int64_t heads) {
  return {.block = BlockKind::kFull,
          .block_layers = 2,
          .decoder_first = true,
          .decoder = DecoderKind::kCosine,
          .decoder_heads = heads,
          .regressive = true,
          .projector = ProjectorKind::kFc,
          .shared_heads = true,
          .embedding = EmbeddingKind::kHeadRow,
          .heads = 5};
}

CloverConfig combination(bool regressive, bool attention, bool block, int64_t heads) {
  CloverConfig config = {.block = block ? BlockKind::kFull : BlockKind::kNone,
                         .block_layers = block ? 1 : 0,
                         .regressive = regressive,
                         .projector = ProjectorKind::kResblock,
                         .embedding = EmbeddingKind::kNormalisedHeadRow,
                         .heads = 3};
  if (attention) {
    config.decoder = DecoderKind::kCosine;
    config.decoder_heads = heads;
  } else if (regressive) {
    config.decoder = DecoderKind::kMlp;
  }
  return config;
}

// Medusa's heads read the state behind the final norm, which input_norm starts as.
CloverConfig medusa() {
  return {
      .projector = ProjectorKind::kResblock, .input_norm = true, .head_norm = false, .heads = 3};
}

}  // namespace

void validate(const CloverConfig& c, int64_t hidden) {
  const auto refuse = [](std::string_view why) {
    fail(ErrorCode::kInvalidArgument, "speculator configuration: {}", why);
  };
  if (c.heads < 1 || c.heads > kMaxHeads) refuse(fmt::format("heads must be 1 to {}", kMaxHeads));
  if (c.block_layers < 0 || c.block_layers > kMaxBlockLayers)
    refuse(fmt::format("the augmenting block must have 0 to {} layers", kMaxBlockLayers));
  if ((c.block == BlockKind::kNone) != (c.block_layers == 0))
    refuse("an augmenting block has layers, and none has no layers");
  if (c.decoder == DecoderKind::kCosine && (c.decoder_heads < 1 || hidden % c.decoder_heads != 0))
    refuse(fmt::format("{} heads of the attention decoder do not divide the hidden size {}",
                       c.decoder_heads, hidden));
  if (c.decoder_first && (c.decoder == DecoderKind::kNone || c.block == BlockKind::kNone))
    refuse("a decoder before the block needs both");
  if (!c.regressive && c.shared_heads && c.heads > 1)
    refuse("shared heads without a regressive connection would all say the same");
  if (c.regressive && c.decoder == DecoderKind::kNone && c.projector != ProjectorKind::kFc &&
      c.heads > 1)
    refuse("a regressive connection needs an attention decoder or the projector fc");
}

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> names = {"clover2",  "clover1",  "medusa",   "combo-0",
                                                 "combo-r",  "combo-a",  "combo-b",  "combo-ra",
                                                 "combo-rb", "combo-ab", "combo-rab"};
  return names;
}

CloverConfig preset_config(std::string_view name, int64_t heads) {
  if (name == "clover2") return clover2(heads);
  if (name == "clover1") return combination(true, true, true, heads);
  if (name == "medusa") return medusa();
  const std::vector<std::string>& names = preset_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    fail(ErrorCode::kInvalidArgument, "there is no speculator type '{}'; known are {} and eagle",
         name, fmt::join(names, ", "));
  const std::string_view parts = name.substr(name.find('-') + 1);
  const auto has = [&](char part) { return parts.find(part) != std::string_view::npos; };
  return combination(has('r'), has('a'), has('b'), heads);
}

}  // namespace clover
