// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace clover {

// The augmenting block: decoder layers shaped as the target's, over the whole sequence.
enum class BlockKind { kNone, kAttention, kMlp, kFull };
// How the embedding e of a token is merged into a hidden state h:
//   cosine  h + cos(q, k) v per head, q from RMSNorm(h), k and v from e
//   mlp     h + silu(W [h; e] + b)
//   concat  W [h; e] + b
enum class DecoderKind { kNone, kCosine, kMlp, kConcat };
// From a state to the LM head: s + silu(W s + b), or W s + b (W [s; e] + b behind the first step).
enum class ProjectorKind { kResblock, kFc };
// e of a token: its row of the target's LM head, or that row scaled to unit length.
enum class EmbeddingKind { kHeadRow, kNormalisedHeadRow };

// A member of the Clover family. One implementation serves them all; Clover-1, Clover-2, Medusa and
// the combinations of Clover's components are settings (preset_config).
//   base  = RMSNorm(block(h)) of the last committed token, or h without a block
//   s_0   = decoder 0 of (base, e of the root); with decoder_first it stands before the block
//   s_j   = regressive: decoder j of (s_{j-1}, e of the draft at depth j); else s_0
//   head j: LM head of RMSNorm(projector j of s_j)
struct CloverConfig {
  BlockKind block = BlockKind::kNone;
  int64_t block_layers = 0;
  bool decoder_first = false;
  DecoderKind decoder = DecoderKind::kNone;
  int64_t decoder_heads = 0;  // cosine: divides the hidden size
  bool regressive = false;
  ProjectorKind projector = ProjectorKind::kFc;
  bool shared_heads = false;  // all heads behind the first are one: any depth can be drafted
  EmbeddingKind embedding = EmbeddingKind::kHeadRow;
  bool input_norm = false;  // RMSNorm with weights of its own on h and on e
  bool head_norm = true;    // RMSNorm before the LM head
  int64_t heads = 0;        // trained depth

  bool has_attention() const { return block == BlockKind::kAttention || block == BlockKind::kFull; }
  // Steps with weights of their own; step j > 0 of shared heads uses the last.
  int64_t steps() const { return shared_heads && heads > 2 ? 2 : heads; }
  bool has_decoder(int64_t step) const {
    return decoder != DecoderKind::kNone && (step == 0 || regressive);
  }
  // Whether the projector of a step sees the drafted token beside the state.
  bool projects_embedding(int64_t step) const {
    return projector == ProjectorKind::kFc && regressive && step > 0;
  }
};

// Error(kInvalidArgument) naming the switches that do not fit together.
void validate(const CloverConfig& config, int64_t hidden);

// The setting of a name for a target of `heads` attention heads: "clover2", "clover1", "medusa",
// and "combo-0", "combo-r", "combo-a", "combo-b", … "combo-rab": Clover-1 with only the regressive
// connection (r), the attention decoder (a; otherwise an MLP where there is a regressive
// connection) and the augmenting block (b) that are named. Error(kInvalidArgument) for others.
CloverConfig preset_config(std::string_view name, int64_t heads);
const std::vector<std::string>& preset_names();

}  // namespace clover
