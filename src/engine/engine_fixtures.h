// SPDX-License-Identifier: Apache-2.0
#pragma once

// Helpers of the engine's tests: a tokenizer whose tokens are scripted byte strings, the tiny
// models of tests/data/tiny, and a slow answer to compare with.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "model/model.h"
#include "sampling/sampling.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace clover::engine_testing {

inline constexpr int32_t kTinyVocab = 96;  // of tiny_model()

// Token i stands for the bytes pieces[i]; only decoding is scripted.
class FakeTokenizer : public Tokenizer {
 public:
  explicit FakeTokenizer(std::vector<std::string> pieces, std::vector<TokenId> eos = {})
      : pieces_(std::move(pieces)), eos_(std::move(eos)) {
    std::sort(eos_.begin(), eos_.end());
  }

  std::vector<TokenId> encode(std::span<const TextSpan>, const EncodeOptions&) const override {
    fail(ErrorCode::kUnsupported, "the scripted tokenizer only decodes");
  }
  std::string_view token_bytes(TokenId id) const override {
    if (id < 0 || id >= vocab_size())
      fail(ErrorCode::kInvalidArgument, "token {} is not in the vocabulary of {}", id,
           vocab_size());
    return pieces_[static_cast<size_t>(id)];
  }
  std::string decode(std::span<const TokenId> ids, bool skip_special) const override {
    std::string out;
    for (const TokenId id : ids)
      if (!skip_special || !is_control(id)) out += token_bytes(id);
    return out;
  }
  int32_t vocab_size() const override { return static_cast<int32_t>(pieces_.size()); }
  bool is_control(TokenId id) const override {
    return std::binary_search(eos_.begin(), eos_.end(), id);
  }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  const std::vector<TokenId>& eos_ids() const override { return eos_; }
  std::optional<TokenId> find(std::string_view) const override { return std::nullopt; }
  std::string_view kind() const override { return "scripted"; }
  std::optional<std::string> chat_template() const override { return std::nullopt; }

 private:
  std::vector<std::string> pieces_;
  std::vector<TokenId> eos_;
};

// "[0]", "[1]", …: the text shows the ids.
inline std::vector<std::string> numbered_pieces(int32_t count = kTinyVocab) {
  std::vector<std::string> pieces;
  for (int32_t i = 0; i < count; ++i) pieces.push_back(fmt::format("[{}]", i));
  return pieces;
}

inline std::string numbered_text(std::span<const TokenId> ids) {
  std::string text;
  for (const TokenId id : ids) text += fmt::format("[{}]", id);
  return text;
}

// What a request sent, put together; `faults` names every breach of Output's contract.
struct Answer {
  std::string text;
  std::vector<TokenId> ids;
  std::vector<OutputToken> tokens;
  std::vector<OutputToken> prompt;  // its log-probabilities, where they were asked for
  FinishReason finish = FinishReason::kNone;
  std::string error;
  int64_t pieces = 0;
  std::vector<std::string> faults;

  void add(const Output& output) {
    if (finish != FinishReason::kNone) faults.push_back("output after the end");
    if (utf8_valid_prefix(output.text) != output.text.size()) faults.push_back("broken UTF-8");
    if (!output.prompt.empty() && !tokens.empty()) faults.push_back("prompt behind the answer");
    if (output.text.empty() && output.tokens.empty() && output.prompt.empty() &&
        output.finish == FinishReason::kNone)
      faults.push_back("an output without news");
    if (output.error.empty() != (output.finish != FinishReason::kError))
      faults.push_back("error text without an error, or an error without text");
    ++pieces;
    text += output.text;
    prompt.insert(prompt.end(), output.prompt.begin(), output.prompt.end());
    for (const OutputToken& token : output.tokens) {
      tokens.push_back(token);
      ids.push_back(token.id);
    }
    finish = output.finish;
    error = output.error;
  }
};

// The same text, ids, log-probabilities (bit for bit) and end.
inline bool same_answer(const Answer& a, const Answer& b) {
  const auto same_token = [](const OutputToken& x, const OutputToken& y) {
    const auto same_top = [](const TokenLogprob& p, const TokenLogprob& q) {
      return p.id == q.id && p.logprob == q.logprob;
    };
    return x.id == y.id && x.logprob == y.logprob &&
           std::equal(x.top.begin(), x.top.end(), y.top.begin(), y.top.end(), same_top);
  };
  return a.text == b.text && a.finish == b.finish && a.faults.empty() && b.faults.empty() &&
         std::ranges::equal(a.tokens, b.tokens, same_token) &&
         std::ranges::equal(a.prompt, b.prompt, same_token);
}

inline std::shared_ptr<const Model> load_tiny(const std::string& name, int threads = 1,
                                              const std::string& isa = "auto") {
  const std::string path = std::string(CLOVER_SOURCE_DIR) + "/tests/data/tiny/" + name;
  const auto checkpoint = open_checkpoint(name.starts_with("gguf_") ? path + ".gguf" : path);
  return Model::load(*checkpoint, make_cpu_backend({.threads = threads, .isa = isa}));
}

// The model of most tests: block-quantised weights, as the default model's, and answers that wander
// (models with tied embeddings and random weights repeat themselves).
inline const std::shared_ptr<const Model>& tiny_model() {
  static const std::shared_ptr<const Model> model = load_tiny("gguf_qwen3_q4_0");
  return model;
}

// Ids that every tiny model has.
inline std::vector<TokenId> random_prompt(uint64_t seed, int64_t length) {
  std::vector<TokenId> ids;
  for (int64_t i = 0; i < length; ++i)
    ids.push_back(
        static_cast<TokenId>(random_bits(stream_key(seed, 1000), static_cast<uint64_t>(i)) % 64));
  return ids;
}

inline Request make_request(std::vector<TokenId> prompt, int64_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  return request;
}

// Sends the request's output to `answer`, which must outlive the engine's work on it.
inline int64_t submit(Engine& engine, Request request, Answer& answer) {
  request.on_output = [&answer](const Output& output) { answer.add(output); };
  return engine.submit(std::move(request));
}

// An answer and what the engine counted for it.
struct Counted {
  Answer answer;
  RequestStats stats;
};

inline Counted run_counted(Engine& engine, const Request& request) {
  Counted result;
  const int64_t id = submit(engine, request, result.answer);
  engine.run();
  result.stats = *engine.stats(id);
  return result;
}

inline Answer run_alone(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer,
                        Request request, const EngineOptions& options = {.context = 128}) {
  Engine engine(model, tokenizer, options);
  Answer answer;
  submit(engine, std::move(request), answer);
  engine.run();
  return answer;
}

// Logits of every token of `tokens`: one pass over the whole, nothing kept from before.
inline std::vector<std::vector<float>> all_logits(const Model& model,
                                                  std::span<const TokenId> tokens,
                                                  DType kv_type = DType::kF16) {
  const auto rows = static_cast<int64_t>(tokens.size());
  const int64_t blocks = kv_blocks_for(rows);
  const auto kv = model.backend().make_kv_store(model.kv_shape(blocks, kv_type));
  std::vector<int32_t> table(static_cast<size_t>(blocks));
  std::iota(table.begin(), table.end(), 0);
  Batch batch;
  batch.tokens.assign(tokens.begin(), tokens.end());
  batch.parents.resize(tokens.size());
  std::iota(batch.parents.begin(), batch.parents.end(), -1);
  batch.wants_logits.assign(tokens.size(), 1);
  batch.sequences.push_back({table, 0, 0, rows});
  const ForwardResult result = model.forward(batch, *kv);
  std::vector<std::vector<float>> logits;
  for (int64_t r = 0; r < rows; ++r)
    logits.emplace_back(result.logits.row(r), result.logits.row(r) + model.config().vocab);
  return logits;
}

// The draws of a request the slow way: every token from a fresh pass over all tokens before it.
inline std::vector<Draw> reference_draws(const Model& model, const Request& request,
                                         const std::vector<TokenId>& eos = {}) {
  std::vector<TokenId> tokens = request.prompt;
  SamplerState sampler(request.sampling, eos, static_cast<int32_t>(model.config().vocab));
  sampler.add_prompt(tokens);
  std::vector<Draw> draws;
  while (static_cast<int64_t>(draws.size()) < request.max_tokens) {
    const std::vector<float> logits = all_logits(model, tokens).back();
    draws.push_back(sampler.draw(logits, tokens.size(), {}, request.top_logprobs));
    tokens.push_back(draws.back().id);
    sampler.commit(tokens.back());
    if (std::find(eos.begin(), eos.end(), tokens.back()) != eos.end()) break;
  }
  return draws;
}

inline std::vector<TokenId> ids_of(std::span<const Draw> draws) {
  std::vector<TokenId> ids;
  for (const Draw& draw : draws) ids.push_back(draw.id);
  return ids;
}

}  // namespace clover::engine_testing
