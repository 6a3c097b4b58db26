// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include <cmath>
#include <span>
#include <utility>

#include "base/error.h"
#include "model/weights.h"

namespace clover {
namespace {

// What all layers of one pass share.
struct Pass {
  const ModelConfig& config;
  Backend& backend;
  KvStore& kv;
  AttentionPlan plan;
  AttentionParams attention;
  RopeAngles angles;
};

void check_tokens(const Batch& batch, const ModelConfig& config) {
  if (batch.tokens.empty()) fail(ErrorCode::kInvalidArgument, "batch has no rows");
  for (size_t r = 0; r < batch.tokens.size(); ++r) {
    if (batch.tokens[r] < 0 || batch.tokens[r] >= config.vocab) {
      fail(ErrorCode::kInvalidArgument, "batch: token {} of row {} is not in [0, {})",
           batch.tokens[r], r, config.vocab);
    }
  }
}

void check_store(const Batch& batch, const ModelConfig& config, const KvShape& shape) {
  if (shape.layers != config.layers || shape.kv_heads != config.kv_heads ||
      shape.head_dim != config.head_dim) {
    fail(ErrorCode::kInvalidArgument,
         "KV store holds {} layers of {} heads of size {}, the model has {} of {} of {}",
         shape.layers, shape.kv_heads, shape.head_dim, config.layers, config.kv_heads,
         config.head_dim);
  }
  for (const Batch::Sequence& sequence : batch.sequences) {
    for (const int32_t block : sequence.blocks) {
      if (block < 0 || block >= shape.blocks) {
        fail(ErrorCode::kInvalidArgument, "batch: KV block {} is not in [0, {})", block,
             shape.blocks);
      }
    }
  }
}

AttentionParams attention_params(const ModelConfig& c, const std::vector<float>& alibi) {
  return {.heads = c.heads,
          .kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim))),
          .window = c.window,
          .alibi_slopes = alibi};
}

Tensor rotate(const Pass& p, Tensor x, int64_t heads) {
  if (!p.config.rope) return x;
  const RopeLayout layout = p.config.rope_adjacent ? RopeLayout::kAdjacent : RopeLayout::kHalves;
  return p.backend.rope(std::move(x), heads, p.config.head_dim, p.angles, layout);
}

// x + Wo attention(q, k, v) with q, k and v from the normalised x: [R, D].
Tensor attention_block(const Pass& p, const LayerWeights& w, int64_t layer, const Tensor& x) {
  const ModelConfig& c = p.config;
  Backend& b = p.backend;
  const int64_t q_cols = c.heads * c.head_dim;
  const int64_t kv_cols = c.kv_heads * c.head_dim;
  Tensor qkv = b.linear(b.rms_norm(x, *w.attention_norm, c.norm_eps), *w.qkv, w.qkv_bias.get());
  Tensor q, k;
  if (w.q_norm) {
    q = rotate(p, b.rms_norm(b.columns(qkv, 0, q_cols), *w.q_norm, c.norm_eps), c.heads);
    k = rotate(p, b.rms_norm(b.columns(qkv, q_cols, kv_cols), *w.k_norm, c.norm_eps), c.kv_heads);
  } else {
    qkv = rotate(p, std::move(qkv), c.heads + c.kv_heads);  // q and k are neighbours
    q = b.columns(qkv, 0, q_cols);
    k = b.columns(qkv, q_cols, kv_cols);
  }
  const Tensor v = b.columns(qkv, q_cols + kv_cols, kv_cols);
  const Tensor attended = b.attention(q, k, v, p.kv, layer, p.plan, p.attention);
  return b.linear(attended, *w.output, nullptr, &x);
}

// x + Wdown (silu(Wgate h) * Wup h) with h the normalised x: [R, D].
Tensor ffn_block(const Pass& p, const LayerWeights& w, const Tensor& x) {
  Backend& b = p.backend;
  const Tensor gate_up = b.linear(b.rms_norm(x, *w.ffn_norm, p.config.norm_eps), *w.gate_up);
  return b.linear(b.swiglu(gate_up), *w.down, nullptr, &x);
}

// Logits of the rows that want them, in row order.
void add_logits(const Batch& batch, const ModelWeights& w, const Pass& p, ForwardResult& result) {
  std::vector<int32_t> rows;
  result.logits_row.assign(batch.tokens.size(), -1);
  for (size_t r = 0; r < batch.tokens.size(); ++r) {
    if (!batch.wants_logits[r]) continue;
    result.logits_row[r] = static_cast<int32_t>(rows.size());
    rows.push_back(static_cast<int32_t>(r));
  }
  if (rows.empty()) return;
  const bool all = rows.size() == batch.tokens.size();
  const Tensor wanted = all ? result.hidden : p.backend.gather_rows(result.hidden, rows);
  result.logits =
      p.backend.linear(p.backend.rms_norm(wanted, *w.final_norm, p.config.norm_eps), *w.head);
}

}  // namespace

Model::Model(ModelConfig config, std::shared_ptr<Backend> backend,
             std::unique_ptr<const ModelWeights> weights)
    : config_(std::move(config)), backend_(std::move(backend)), weights_(std::move(weights)) {}

Model::~Model() = default;

std::shared_ptr<const Model> Model::load(const Checkpoint& checkpoint,
                                         std::shared_ptr<Backend> backend,
                                         void (*progress)(double, void*), void* progress_context) {
  ModelConfig config = read_model_config(checkpoint);
  const ModelTensors tensors = map_tensors(checkpoint, config);
  auto weights = std::make_unique<const ModelWeights>(
      load_weights(tensors, config, *backend, [&](double share) {
        if (progress) progress(share, progress_context);
      }));
  return std::shared_ptr<const Model>(
      new Model(std::move(config), std::move(backend), std::move(weights)));
}

const ModelConfig& Model::config() const { return config_; }
Backend& Model::backend() const { return *backend_; }
int64_t Model::weight_bytes() const { return weights_->bytes(); }
std::vector<MatrixPtr> Model::matrices() const {
  std::vector<MatrixPtr> all;
  for (const LayerWeights& layer : weights_->layers)
    all.insert(all.end(), {layer.qkv, layer.output, layer.gate_up, layer.down});
  all.push_back(weights_->head);
  return all;
}

const std::vector<std::string>& Model::unused_tensors() const { return weights_->unused; }

KvShape Model::kv_shape(int64_t blocks, DType type) const {
  return {config_.layers, config_.kv_heads, config_.head_dim, blocks, type};
}

ForwardResult Model::forward(const Batch& batch, KvStore& kv) const {
  const ModelWeights& w = *weights_;
  check_tokens(batch, config_);
  check_store(batch, config_, kv.shape());
  AttentionPlan plan = make_attention_plan(batch);
  RopeAngles angles = rope_angles(w.rope, plan.position);
  const Pass pass{
      config_,          *backend_, kv, std::move(plan), attention_params(config_, w.alibi),
      std::move(angles)};
  Tensor x = backend_->embed(*w.embedding, batch.tokens);
  for (size_t i = 0; i < w.layers.size(); ++i) {
    x = attention_block(pass, w.layers[i], static_cast<int64_t>(i), x);
    x = ffn_block(pass, w.layers[i], x);
  }
  ForwardResult result;
  result.hidden = std::move(x);
  add_logits(batch, w, pass, result);
  return result;
}

}  // namespace clover
