// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include <span>
#include <utility>

#include "base/error.h"
#include "model/decoder_layer.h"
#include "model/weights.h"

namespace clover {
namespace {

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

// Logits of the rows that want them, in row order.
void add_logits(const Batch& batch, const Model& model, ForwardResult& result) {
  std::vector<int32_t> rows;
  result.logits_row.assign(batch.tokens.size(), -1);
  for (size_t r = 0; r < batch.tokens.size(); ++r) {
    if (!batch.wants_logits[r]) continue;
    result.logits_row[r] = static_cast<int32_t>(rows.size());
    rows.push_back(static_cast<int32_t>(r));
  }
  if (rows.empty()) return;
  const bool all = rows.size() == batch.tokens.size();
  result.logits =
      model.logits(all ? result.hidden : model.backend().gather_rows(result.hidden, rows));
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
  const LoadListener listener = {
      .progress =
          [&](double share) {
            if (progress) progress(share, progress_context);
          },
      .packed = [&](const std::string& tensor) { checkpoint.release(checkpoint.at(tensor)); }};
  auto weights =
      std::make_unique<const ModelWeights>(load_weights(tensors, config, *backend, listener));
  return std::shared_ptr<const Model>(
      new Model(std::move(config), std::move(backend), std::move(weights)));
}

std::shared_ptr<const Model> Model::load_frame(const Checkpoint& checkpoint,
                                               std::shared_ptr<Backend> backend) {
  ModelConfig config = read_model_config(checkpoint);
  ModelTensors tensors = map_tensors(checkpoint, config);
  tensors.layers.clear();
  const LoadListener nobody = {.progress = [](double) {}, .packed = [](const std::string&) {}};
  auto weights =
      std::make_unique<const ModelWeights>(load_weights(tensors, config, *backend, nobody));
  return std::shared_ptr<const Model>(
      new Model(std::move(config), std::move(backend), std::move(weights)));
}

const ModelConfig& Model::config() const { return config_; }
const ModelWeights& Model::weights() const { return *weights_; }
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
  if (w.layers.empty())
    fail(ErrorCode::kInvalidArgument, "the model was loaded without its layers and cannot run");
  check_tokens(batch, config_);
  check_store(batch, config_, kv.shape());
  const AttentionPlan plan = make_attention_plan(batch);
  const DecoderPass pass = make_decoder_pass(*this, kv, plan);
  Tensor x = backend_->embed(*w.embedding, batch.tokens);
  for (size_t i = 0; i < w.layers.size(); ++i) {
    x = attention_block(pass, w.layers[i], static_cast<int64_t>(i), x);
    x = ffn_block(pass, w.layers[i], x);
  }
  ForwardResult result;
  result.hidden = std::move(x);
  add_logits(batch, *this, result);
  return result;
}

Tensor Model::logits(const Tensor& hidden) const {
  return backend_->norm_linear(hidden, *weights_->final_norm, config_.norm_eps, *weights_->head);
}

}  // namespace clover
