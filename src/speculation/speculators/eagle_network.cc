// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/eagle_network.h"

#include "model/weights.h"

namespace clover {

Tensor EagleNetwork::next_feature(const Tensor& features, std::span<const int32_t> next,
                                  KvStore& kv, const AttentionPlan& plan) const {
  Backend& b = target_.backend();
  const Tensor from_e = b.linear(b.embed(*w_.embedding, next), *w_.e_side);
  const Tensor x = b.linear(features, *w_.h_side, w_.bias.get(), &from_e);
  const DecoderPass pass = make_decoder_pass(target_, kv, plan);
  return ffn_block(pass, w_.layer, attention_block(pass, w_.layer, 0, x));
}

HeadInput EagleNetwork::head_input(const Tensor& feature) const {
  return {feature, target_.weights().final_norm.get(), target_.config().norm_eps};
}

}  // namespace clover
