// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "serve/api.h"
#include "serve/api_answer.h"
#include "serve/http_connection.h"
#include "serve/mailbox.h"

namespace clover {

// A request between its submission and its last word. Ends in the engine when it is destroyed.
struct HttpConnection::Generation {
 public:
  // Submits the request. Errors of EngineService::submit. The API must outlive it.
  Generation(Api& api, PreparedRequest prepared, const boost::asio::any_io_executor& strand);
  ~Generation();
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  const std::string& id() const { return id_; }
  bool streams() const { return streams_; }
  ApiAnswer& answer() { return *answer_; }
  const std::shared_ptr<Mailbox>& mailbox() const { return mailbox_; }

  // Events of a stream: the first ones, and those that came since; the last time, its end too.
  std::string opening() const;
  std::string take_news();
  bool over() const { return over_; }

 private:
  Api& api_;
  std::shared_ptr<Mailbox> mailbox_;
  std::unique_ptr<ApiAnswer> answer_;
  std::string id_;
  bool streams_ = false;
  bool over_ = false;
  std::vector<int64_t> requests_;
};

}  // namespace clover
