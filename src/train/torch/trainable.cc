// SPDX-License-Identifier: Apache-2.0
#include "train/torch/trainable.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "backend/torch/torch_values.h"
#include "base/error.h"
#include "model/weights.h"
#include "speculation/speculators/package_reader.h"
#include "train/torch/parameter_source.h"
#include "train/torch/training_rows.h"

namespace clover {
namespace {

// The states of the rows that a head needs, and what it sends into the LM head.
struct StepOut {
  Tensor state;
  HeadInput head;
};

// The network of one kind, step by step over whole sequences.
class SequenceNetwork {
 public:
  virtual ~SequenceNetwork() = default;
  // Rows and the features of all of them.
  virtual StepOut first(const TrainingRows& rows, const Tensor& features) = 0;
  // `before`: states of the rows that this head needs.
  virtual StepOut next(const TrainingRows& rows, int64_t head, const Tensor& before) = 0;
};

class CloverSequences : public SequenceNetwork {
 public:
  CloverSequences(std::shared_ptr<const CloverWeights> weights, const Model& target)
      : weights_(std::move(weights)), target_(target), network_(*weights_, target) {}

  StepOut first(const TrainingRows& rows, const Tensor& features) override {
    Backend& b = target_.backend();
    const std::vector<int32_t>& needed = rows.needed(0);
    AttentionPlan plan = rows.plan();
    Tensor base;
    if (weights_->config.has_attention()) {
      KvShape shape = target_.kv_shape(rows.blocks(), DType::kF32);
      shape.layers = weights_->config.block_layers;
      const auto kv = b.make_kv_store(shape);
      std::vector<int32_t> all(rows.token().size());
      std::iota(all.begin(), all.end(), 0);
      base = b.gather_rows(network_.base(features, rows.tokens(all, 1), *kv, plan), needed);
    } else {
      // No row sees another.
      const auto kv = b.make_kv_store(target_.kv_shape(1, DType::kF32));
      plan.position.resize(needed.size());
      base = network_.base(b.gather_rows(features, needed), rows.tokens(needed, 1), *kv, plan);
    }
    return step(rows, 0, base);
  }
  StepOut next(const TrainingRows& rows, int64_t head, const Tensor& before) override {
    return step(rows, head, before);
  }

 private:
  StepOut step(const TrainingRows& rows, int64_t head, const Tensor& before) {
    const int64_t index = std::min(head, static_cast<int64_t>(weights_->steps.size()) - 1);
    const bool merged = head == 0 && weights_->config.decoder_first;
    const CloverNetwork::Out out =
        network_.advance(index, before, rows.tokens(rows.needed(head), 1 + head), merged);
    return {out.state, out.head};
  }

  std::shared_ptr<const CloverWeights> weights_;
  const Model& target_;
  CloverNetwork network_;
};

class EagleSequences : public SequenceNetwork {
 public:
  EagleSequences(std::shared_ptr<const EagleWeights> weights, const Model& target)
      : weights_(std::move(weights)), target_(target), network_(*weights_, target) {}

  StepOut first(const TrainingRows& rows, const Tensor& features) override {
    KvShape shape = target_.kv_shape(rows.blocks(), DType::kF32);
    shape.layers = 1;
    kv_ = target_.backend().make_kv_store(shape);
    std::vector<int32_t> all(rows.token().size());
    std::iota(all.begin(), all.end(), 0);
    const Tensor drafted = network_.next_feature(features, rows.tokens(all, 1), *kv_, rows.plan());
    return out(target_.backend().gather_rows(drafted, rows.needed(0)));
  }
  StepOut next(const TrainingRows& rows, int64_t head, const Tensor& before) override {
    return out(network_.next_feature(before, rows.tokens(rows.needed(head), 1 + head), *kv_,
                                     rows.drafted_plan(head)));
  }

 private:
  StepOut out(const Tensor& feature) const { return {feature, network_.head_input(feature)}; }

  std::shared_ptr<const EagleWeights> weights_;
  const Model& target_;
  EagleNetwork network_;
  std::unique_ptr<KvStore> kv_;
};

}  // namespace

struct Trainable::State {
  PackageConfig config;
  std::vector<int32_t> d2t;
  std::vector<std::vector<int64_t>> shapes;  // of the parameters
  std::shared_ptr<const Model> target;
  at::TensorOptions options;
  std::vector<NamedParameter> parameters;
  std::map<std::string, at::Tensor> by_name;
  at::Tensor head;
  std::vector<int64_t> draft_ids;

  Backend& backend() const { return target->backend(); }

  void add_parameter(const PackageTensor& tensor) {
    at::Tensor value = at::from_blob(const_cast<float*>(tensor.values.data()), tensor.shape,
                                     at::TensorOptions(at::kFloat))
                           .to(options, false, true);
    value.set_requires_grad(true);
    by_name[tensor.name] = value;
    parameters.push_back({tensor.name, value});
    shapes.push_back(tensor.shape);
  }

  void find_head(const Checkpoint& checkpoint) {
    const int64_t vocab = target->config().vocab;
    draft_ids.assign(static_cast<size_t>(vocab), -1);
    for (size_t i = 0; i < static_cast<size_t>(config.draft_vocab); ++i)
      draft_ids[d2t.empty() ? i : static_cast<size_t>(d2t[i])] = static_cast<int64_t>(i);
    const auto own = by_name.find(std::string(PackageFiles::kOwnHead));
    if (own != by_name.end()) {
      head = own->second;
    } else if (d2t.empty()) {
      head = values_of(*target->weights().head);
    } else {
      head = values_of(*load_head_rows(map_tensors(checkpoint, target->config()), target->config(),
                                       backend(), d2t));
    }
  }

  std::unique_ptr<SequenceNetwork> network() const {
    const ParameterSource source(by_name, options);
    if (config.eagle())
      return std::make_unique<EagleSequences>(assemble_eagle(config, *target, source, {}), *target);
    return std::make_unique<CloverSequences>(assemble_clover(config, *target, source, {}), *target);
  }

  // The part of a step that predicts something.
  HeadRows head_rows(const TrainingRows& rows, int64_t depth, const StepOut& step) const {
    HeadRows out;
    const std::vector<int32_t>& needed = rows.needed(depth);
    const std::vector<int32_t>& predicting = rows.predicting(depth);
    for (const int32_t place : predicting) {
      const int64_t token = rows.token()[static_cast<size_t>(needed[static_cast<size_t>(place)])];
      out.source.push_back(token);
      out.target.push_back(token + 2 + depth);
    }
    Backend& b = backend();
    const bool all = predicting.size() == needed.size();
    const Tensor state = all ? step.state : b.gather_rows(step.state, predicting);
    const Tensor projected = all ? step.head.states : b.gather_rows(step.head.states, predicting);
    out.state = unwrap(state);
    out.projected = unwrap(projected);
    out.normed = step.head.norm ? unwrap(b.rms_norm(projected, *step.head.norm, step.head.eps))
                                : out.projected;
    return out;
  }
};

Trainable::Trainable(const Package& package, const Checkpoint& checkpoint,
                     std::shared_ptr<const Model> target)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.config = package.config;
  s.d2t = package.d2t;
  s.target = std::move(target);
  with_torch("making parameters", [&] {
    s.options = unwrap(s.backend().empty(1, 1)).options();
    for (const PackageTensor& tensor : package.tensors) s.add_parameter(tensor);
    s.find_head(checkpoint);
  });
}

Trainable::~Trainable() = default;

const PackageConfig& Trainable::config() const { return state_->config; }
int64_t Trainable::heads() const { return state_->config.clover.heads; }
const std::vector<NamedParameter>& Trainable::parameters() const { return state_->parameters; }
const at::Tensor& Trainable::head() const { return state_->head; }
const std::vector<int64_t>& Trainable::draft_ids() const { return state_->draft_ids; }

Package Trainable::package() const {
  Package package{state_->config, {}, state_->d2t, {}};
  for (size_t i = 0; i < state_->parameters.size(); ++i) {
    const NamedParameter& parameter = state_->parameters[i];
    const at::Tensor host = parameter.value.detach().to(at::kCPU, at::kFloat).contiguous();
    const float* data = host.data_ptr<float>();
    package.tensors.push_back({parameter.name, state_->shapes[i], {data, data + host.numel()}});
  }
  return package;
}

std::vector<HeadRows> Trainable::forward(const TrainingBatch& batch) const {
  const State& s = *state_;
  const ModelConfig& model = s.target->config();
  const int64_t scratch = s.config.eagle() ? heads() - 1 : 0;
  const TrainingRows rows(batch, heads(), model.vocab, scratch);
  if (!batch.features.defined() || batch.features.dim() != 2 ||
      batch.features.size(0) != static_cast<int64_t>(batch.tokens.size()) ||
      batch.features.size(1) != model.hidden)
    fail(ErrorCode::kInvalidArgument, "a training batch needs features of {} tokens by {}",
         batch.tokens.size(), model.hidden);
  std::vector<HeadRows> out(static_cast<size_t>(heads()));
  if (rows.empty()) return out;
  return with_torch("the forward pass", [&] {
    Backend& b = s.backend();
    const at::Tensor chosen = at::tensor(rows.token(), at::kLong).to(batch.features.device());
    const Tensor features = wrap(batch.features.index_select(0, chosen).to(s.options));
    const std::unique_ptr<SequenceNetwork> network = s.network();
    StepOut step = network->first(rows, features);
    for (int64_t head = 0; head < heads(); ++head) {
      if (head > 0) {
        if (rows.needed(head).empty()) break;
        const std::vector<int32_t> kept = rows.kept(head);
        step = network->next(rows, head, b.gather_rows(step.state, kept));
      }
      out[static_cast<size_t>(head)] = s.head_rows(rows, head, step);
    }
    return out;
  });
}

at::Tensor Trainable::target_normed(const at::Tensor& features) const {
  const State& s = *state_;
  return with_torch("the target's final norm", [&] {
    const at::NoGradGuard no_grad;
    return unwrap(s.backend().rms_norm(wrap(features.to(s.options)),
                                       *s.target->weights().final_norm,
                                       s.target->config().norm_eps));
  });
}

}  // namespace clover
