// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <memory>
#include <utility>

#include "serve/api_answer.h"

namespace clover {

// Events on their way from the engine's thread to a connection. All but deliver() belongs to the
// connection's strand.
class Mailbox : public std::enable_shared_from_this<Mailbox> {
 public:
  explicit Mailbox(const boost::asio::any_io_executor& strand) : timer_(strand) {}

  // From any thread.
  void deliver(AnswerEvent event) {
    boost::asio::post(timer_.get_executor(),
                      [self = shared_from_this(), event = std::move(event)]() mutable {
                        self->events_.push_back(std::move(event));
                        self->timer_.cancel();
                      });
  }
  // The client is gone.
  void close() {
    closed_ = true;
    timer_.cancel();
  }
  bool closed() const { return closed_; }
  bool empty() const { return events_.empty(); }
  AnswerEvent take() {
    AnswerEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  // Until there is an event, the client is gone or the time is over.
  boost::asio::awaitable<void> wait(boost::asio::steady_timer::duration longest) {
    if (!events_.empty() || closed_) co_return;
    timer_.expires_after(longest);
    co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }

 private:
  boost::asio::steady_timer timer_;
  std::deque<AnswerEvent> events_;
  bool closed_ = false;
};

}  // namespace clover
