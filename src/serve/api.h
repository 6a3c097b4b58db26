// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "constraint/constraint_cache.h"
#include "engine/engine_service.h"
#include "serve/api_answer.h"
#include "serve/api_request.h"
#include "serve/metrics.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace clover {

struct ApiOptions {
  std::string model;        // the name that it is served under
  std::string version;      // of the program
  std::string speculators;  // as -s names them; "none"
  int64_t max_drafts = 0;   // of one step, at most; 0 without speculators
};

// A request that is ready for the engine; one engine request for each choice, without callbacks.
struct PreparedRequest {
  ApiRequest request;
  std::vector<Request> requests;
  std::vector<EchoedPrompt> echo;  // one a prompt, or none
  AnswerHead head;
};

// What the server's endpoints do, without HTTP. Thread-safe. All errors are clover::Errors, mostly
// RequestErrors.
class Api {
 public:
  // All three must outlive it. A chat template that does not parse is refused here.
  Api(const Tokenizer& tokenizer, EngineService& engine, ServerMetrics& metrics,
      ApiOptions options);

  Json models() const;
  Json version() const;
  Json tokenize(const Json& body) const;
  Json detokenize(const Json& body) const;
  // `connections`: open ones, as the server counts them.
  std::string metrics(int64_t connections) const {
    return metrics_.text(engine_.stats(), connections);
  }

  // Checks the body, renders and encodes the prompts and checks them against the context.
  PreparedRequest prepare(const Json& body, bool chat) const;

  EngineService& engine() const { return engine_; }
  ServerMetrics& server_metrics() const { return metrics_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  int32_t vocab() const;
  std::vector<TokenId> chat_prompt(const Json& messages, const Json& variables,
                                   bool generation_prompt) const;
  std::vector<TokenId> text_prompt(const ApiRequest::Prompt& prompt) const;
  void check_model(const std::string& name) const;
  void check_speculation(const ApiRequest& request) const;
  std::string speculators_of(const ApiRequest& request) const;
  std::vector<TokenId> predicted_answer(const ApiRequest& request) const;
  int64_t answer_tokens(const ApiRequest& request, int64_t prompt_tokens) const;
  std::shared_ptr<const Constraint> constraint_of(const ApiRequest& request) const;
  void add_requests(const std::vector<TokenId>& prompt, PreparedRequest& prepared) const;

  const Tokenizer& tokenizer_;
  EngineService& engine_;
  ServerMetrics& metrics_;
  ApiOptions options_;
  std::optional<ChatTemplate> template_;
  mutable ConstraintCache constraints_;
  int64_t created_;
};

}  // namespace clover
