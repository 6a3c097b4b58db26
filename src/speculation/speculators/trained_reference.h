// SPDX-License-Identifier: Apache-2.0
#pragma once

// The formulas of the trained speculators once more, slowly, in double precision, straight from a
// package's values. For tests.

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/rope.h"
#include "speculation/speculators/trained_for_tests.h"

namespace clover::testing_support {

class Reference {
 public:
  using Row = std::vector<double>;

  Reference(const Package& package, const Target& target)
      : package_(package), model_(*target.model), m_(target.model->config()) {
    for (const PackageTensor& tensor : package.tensors) tensors_[tensor.name] = &tensor;
  }

  // Probabilities of all draft ids at the depths 0 … drafts.size() of a chain behind the first
  // `known` tokens of the script.
  std::vector<Row> chain(const Script& script, int64_t known, std::span<const int32_t> drafts) {
    return package_.config.eagle() ? eagle_chain(script, known, drafts)
                                   : clover_chain(script, known, drafts);
  }

 private:
  const PackageTensor& at(const std::string& name) const { return *tensors_.at(name); }
  Row values(const std::string& name) const {
    return {at(name).values.begin(), at(name).values.end()};
  }

  // W x + b of columns [first, first + x.size()) of W.
  Row multiply(const std::string& name, const Row& x, int64_t first = 0) const {
    const PackageTensor& w = at(name);
    const int64_t cols = w.shape.back();
    Row y(static_cast<size_t>(w.shape.front()));
    for (size_t r = 0; r < y.size(); ++r) {
      for (size_t c = 0; c < x.size(); ++c)
        y[r] += x[c] * w.values[r * static_cast<size_t>(cols) + static_cast<size_t>(first) + c];
    }
    return y;
  }
  static Row plus(Row a, const Row& b) {
    for (size_t i = 0; i < a.size(); ++i) a[i] += b[i];
    return a;
  }
  static Row silu(Row a) {
    for (double& x : a) x = x / (1 + std::exp(-x));
    return a;
  }
  static void softmax_of(Row& x) {
    const double top = *std::max_element(x.begin(), x.end());
    double total = 0;
    for (double& v : x) total += v = std::exp(v - top);
    for (double& v : x) v /= total;
  }
  static Row norm(const Row& x, const Row& w, double eps) {
    Row y(x.size());
    for (size_t g = 0; g < x.size(); g += w.size()) {
      double squares = 0;
      for (size_t i = 0; i < w.size(); ++i) squares += x[g + i] * x[g + i];
      const double root = std::sqrt(squares / static_cast<double>(w.size()) + eps);
      for (size_t i = 0; i < w.size(); ++i) y[g + i] = x[g + i] / root * w[i];
    }
    return y;
  }
  Row table_row(const Matrix& table, int32_t id) const {
    const Tensor row = model_.backend().embed(table, {&id, 1});
    return {row.row(0), row.row(0) + m_.hidden};
  }
  Row embed(int32_t token) const {
    const CloverConfig& c = package_.config.clover;
    Row e = table_row(*model_.weights().head, token);
    if (c.embedding == EmbeddingKind::kNormalisedHeadRow) {
      double squares = 0;
      for (const double x : e) squares += x * x;
      for (double& x : e) x /= std::sqrt(squares);
    }
    return c.input_norm ? norm(e, values("embedding_norm.weight"), m_.norm_eps) : e;
  }

  Row decode(int64_t step, const Row& h, const Row& e) const {
    const CloverConfig& c = package_.config.clover;
    const std::string prefix = fmt::format("steps.{}.decoder.", step);
    if (c.decoder != DecoderKind::kCosine) {
      const Row y =
          plus(plus(multiply(prefix + "weight", h), multiply(prefix + "weight", e, m_.hidden)),
               values(prefix + "bias"));
      return c.decoder == DecoderKind::kConcat ? y : plus(h, silu(y));
    }
    const Row normed = norm(h, values(prefix + "norm.weight"), m_.norm_eps);
    const Row q = plus(multiply(prefix + "q.weight", normed), values(prefix + "q.bias"));
    const Row k = plus(multiply(prefix + "k.weight", e), values(prefix + "k.bias"));
    const Row v = plus(multiply(prefix + "v.weight", e), values(prefix + "v.bias"));
    Row out = h;
    const size_t size = h.size() / static_cast<size_t>(c.decoder_heads);
    for (size_t g = 0; g < h.size(); g += size) {
      double qk = 0, qq = 0, kk = 0;
      for (size_t i = g; i < g + size; ++i) {
        qk += q[i] * k[i];
        qq += q[i] * q[i];
        kk += k[i] * k[i];
      }
      const double likeness = qk / std::max(std::sqrt(qq), 1e-8) / std::max(std::sqrt(kk), 1e-8);
      for (size_t i = g; i < g + size; ++i) out[i] += likeness * v[i];
    }
    return out;
  }

  void rotate(Row& x, int64_t heads, int64_t position) const {
    if (!m_.rope) return;
    const RopeTable& table = model_.weights().rope;
    const auto pairs = static_cast<int64_t>(table.frequencies.size());
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < pairs; ++i) {
        const int64_t first = h * m_.head_dim + (m_.rope_adjacent ? 2 * i : i);
        double& a = x[static_cast<size_t>(first)];
        double& b = x[static_cast<size_t>(first + (m_.rope_adjacent ? 1 : pairs))];
        const double angle =
            static_cast<double>(position) * table.frequencies[static_cast<size_t>(i)];
        const double cos = std::cos(angle) * table.magnitude;
        const double sin = std::sin(angle) * table.magnitude;
        const double rotated = a * cos - b * sin;
        b = b * cos + a * sin;
        a = rotated;
      }
    }
  }

  struct Keys {
    std::vector<Row> k, v;
  };
  // The half of a layer that attends, for the next position of `keys`.
  Row attend(const std::string& prefix, const Row& x, bool input_norm, Keys& keys) const {
    const auto position = static_cast<int64_t>(keys.k.size());
    Row qkv =
        multiply(prefix + "qkv.weight",
                 input_norm ? norm(x, values(prefix + "attention_norm.weight"), m_.norm_eps) : x);
    if (m_.qkv_bias) qkv = plus(qkv, values(prefix + "qkv.bias"));
    const int64_t d = m_.head_dim;
    const auto k_begin = qkv.begin() + m_.heads * d;
    const auto v_begin = k_begin + m_.kv_heads * d;
    Row q(qkv.begin(), k_begin), k(k_begin, v_begin);
    if (m_.qk_norm) {
      q = norm(q, values(prefix + "q_norm.weight"), m_.norm_eps);
      k = norm(k, values(prefix + "k_norm.weight"), m_.norm_eps);
    }
    rotate(q, m_.heads, position);
    rotate(k, m_.kv_heads, position);
    keys.k.push_back(k);
    keys.v.emplace_back(v_begin, qkv.end());
    Row out(static_cast<size_t>(m_.heads * d));
    for (int64_t h = 0; h < m_.heads; ++h) {
      const auto q_at = static_cast<size_t>(h * d);
      const auto kv_at = static_cast<size_t>(h / (m_.heads / m_.kv_heads) * d);
      Row weight;
      for (size_t p = 0; p < keys.k.size(); ++p) {
        double score = 0;
        for (size_t i = 0; i < static_cast<size_t>(d); ++i)
          score += q[q_at + i] * keys.k[p][kv_at + i];
        score /= std::sqrt(static_cast<double>(d));
        if (!m_.rope)
          score += model_.weights().alibi[static_cast<size_t>(h)] *
                   static_cast<double>(static_cast<int64_t>(p) - position);
        const bool seen = m_.window == 0 || static_cast<int64_t>(p) > position - m_.window;
        weight.push_back(seen ? score : -INFINITY);
      }
      softmax_of(weight);
      for (size_t p = 0; p < keys.k.size(); ++p) {
        for (size_t i = 0; i < static_cast<size_t>(d); ++i)
          out[q_at + i] += weight[p] * keys.v[p][kv_at + i];
      }
    }
    return plus(x, multiply(prefix + "output.weight", out));
  }
  Row feed(const std::string& prefix, const Row& x) const {
    const Row both = multiply(prefix + "gate_up.weight",
                              norm(x, values(prefix + "ffn_norm.weight"), m_.norm_eps));
    const auto half = static_cast<int64_t>(both.size() / 2);
    Row gated = silu(Row(both.begin(), both.begin() + half));
    for (size_t i = 0; i < gated.size(); ++i) gated[i] *= both[static_cast<size_t>(half) + i];
    return plus(x, multiply(prefix + "down.weight", gated));
  }

  Row softmax(const Row& state) const {
    Row p;
    for (int64_t i = 0; i < package_.config.draft_vocab; ++i) {
      const int32_t token =
          package_.d2t.empty() ? static_cast<int32_t>(i) : package_.d2t[static_cast<size_t>(i)];
      const Row row = table_row(*model_.weights().head, token);
      double logit = 0;
      for (size_t c = 0; c < row.size(); ++c) logit += row[c] * state[c];
      p.push_back(logit);
    }
    softmax_of(p);
    return p;
  }

  static Row feature(const Script& script, int64_t position) {
    const float* row = script.hidden.row(position);
    return {row, row + script.hidden.cols()};
  }

  Row base(const Script& script, int64_t known) const {
    const CloverConfig& c = package_.config.clover;
    std::vector<Keys> keys(static_cast<size_t>(c.block_layers));
    Row x;
    for (int64_t p = 0; p < known - 1; ++p) {
      x = feature(script, p);
      if (c.input_norm) x = norm(x, values("hidden_norm.weight"), m_.norm_eps);
      if (c.decoder_first) x = decode(0, x, embed(script.tokens[static_cast<size_t>(p) + 1]));
      for (int64_t i = 0; i < c.block_layers; ++i) {
        const std::string prefix = fmt::format("block.{}.", i);
        if (c.has_attention()) x = attend(prefix, x, true, keys[static_cast<size_t>(i)]);
        if (c.block != BlockKind::kAttention) x = feed(prefix, x);
      }
      if (c.block != BlockKind::kNone) x = norm(x, values("block_norm.weight"), m_.norm_eps);
    }
    return x;
  }

  std::vector<Row> clover_chain(const Script& script, int64_t known,
                                std::span<const int32_t> drafts) const {
    const CloverConfig& c = package_.config.clover;
    std::vector<Row> all;
    Row s = base(script, known);
    for (size_t depth = 0; depth <= drafts.size(); ++depth) {
      const auto step = std::min<int64_t>(static_cast<int64_t>(depth), c.steps() - 1);
      const Row e =
          embed(depth == 0 ? script.tokens[static_cast<size_t>(known) - 1] : drafts[depth - 1]);
      const bool merges = depth == 0 ? !c.decoder_first : c.regressive;
      if (c.decoder != DecoderKind::kNone && merges) s = decode(step, s, e);
      const std::string prefix = fmt::format("steps.{}.", step);
      Row y = plus(multiply(prefix + "projector.weight", s), values(prefix + "projector.bias"));
      if (c.projector == ProjectorKind::kFc && c.regressive && step > 0)
        y = plus(y, multiply(prefix + "projector.weight", e, m_.hidden));
      if (c.projector == ProjectorKind::kResblock) y = plus(s, silu(y));
      if (c.head_norm) y = norm(y, values(prefix + "head_norm.weight"), m_.norm_eps);
      all.push_back(softmax(y));
    }
    return all;
  }

  std::vector<Row> eagle_chain(const Script& script, int64_t known,
                               std::span<const int32_t> drafts) const {
    std::vector<Row> all;
    Keys keys;
    const auto advance = [&](const Row& h, int32_t token) {
      const Row e = table_row(*model_.weights().embedding, token);
      const Row x = plus(plus(multiply("fc.weight", h), multiply("fc.weight", e, m_.hidden)),
                         values("fc.bias"));
      return feed("layer.", attend("layer.", x, false, keys));
    };
    Row f;
    for (int64_t p = 0; p < known - 1; ++p)
      f = advance(feature(script, p), script.tokens[static_cast<size_t>(p) + 1]);
    Row final_norm(static_cast<size_t>(m_.hidden));
    const Tensor ones = model_.backend().from_host(
        1, m_.hidden, std::vector<float>(final_norm.size(), 1.0f).data());
    const Tensor w = model_.backend().rms_norm(ones, *model_.weights().final_norm, 0.0f);
    for (size_t i = 0; i < final_norm.size(); ++i) final_norm[i] = w.row(0)[i];
    for (size_t depth = 0; depth <= drafts.size(); ++depth) {
      if (depth > 0) f = advance(f, drafts[depth - 1]);
      all.push_back(softmax(norm(f, final_norm, m_.norm_eps)));
    }
    return all;
  }

  const Package& package_;
  const Model& model_;
  const ModelConfig& m_;
  std::map<std::string, const PackageTensor*> tensors_;
};

}  // namespace clover::testing_support
