// SPDX-License-Identifier: Apache-2.0
#include "serve/http_generation.h"

#include <utility>

#include "serve/request_error.h"

namespace clover {
namespace {

void add_event(const Json& json, std::string& text) { text += "data: " + json_line(json) + "\n\n"; }

}  // namespace

HttpConnection::Generation::Generation(Api& api, PreparedRequest prepared,
                                       const boost::asio::any_io_executor& strand)
    : api_(api),
      mailbox_(std::make_shared<Mailbox>(strand)),
      id_(prepared.head.id),
      streams_(prepared.request.stream) {
  std::vector<Request> requests = std::move(prepared.requests);
  answer_ = std::make_unique<ApiAnswer>(api.tokenizer(), std::move(prepared.request),
                                        std::move(prepared.head), std::move(prepared.echo));
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].on_output = [i, mailbox = mailbox_, times = std::make_shared<RequestTimes>(),
                             &metrics = api.server_metrics()](const Output& output) {
      metrics.output(*times, output);
      AnswerEvent event{i, output, {}};
      if (output.stats != nullptr) event.stats = *output.stats;
      event.output.stats = nullptr;
      mailbox->deliver(std::move(event));
    };
  }
  requests_ = api.engine().submit(std::move(requests));
}

HttpConnection::Generation::~Generation() {
  if (answer_->finished()) return;
  for (const int64_t id : requests_) api_.engine().cancel(id);
}

std::string HttpConnection::Generation::opening() const {
  std::string text;
  for (const Json& chunk : answer_->opening()) add_event(chunk, text);
  return text;
}

std::string HttpConnection::Generation::take_news() {
  std::string text;
  while (!mailbox_->empty()) {
    for (const Json& chunk : answer_->add(mailbox_->take())) add_event(chunk, text);
    if (answer_->failed() >= 0) {
      const bool cut = answer_->failure() == FinishReason::kCancelled;
      add_event(error_json(cut ? 503 : 500, cut ? "the server is shutting down" : answer_->error()),
                text);
      over_ = true;
      return text;
    }
  }
  if (!answer_->finished()) return text;
  if (const Json usage = answer_->closing(); !usage.is_null()) add_event(usage, text);
  text += "data: [DONE]\n\n";
  over_ = true;
  return text;
}

}  // namespace clover
