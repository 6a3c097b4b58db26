// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "engine/speculation_fixtures.h"

namespace clover {
namespace {

using namespace engine_testing;
using ::testing::HasSubstr;

const FakeTokenizer& tokenizer() {
  static const FakeTokenizer made(numbered_pieces(), {11});
  return made;
}

std::unique_ptr<EngineService> make_service(EngineOptions options, ServiceOptions service = {}) {
  return std::make_unique<EngineService>(
      std::make_unique<Engine>(tiny_model(), tokenizer(), options), std::move(service));
}

// An answer that another thread waits for.
struct Awaited {
  Answer answer;
  RequestStats stats;
  std::promise<void> ended;

  void attach(Request& request) {
    request.on_output = [this](const Output& output) {
      answer.add(output);
      if (output.finish == FinishReason::kNone) return;
      if (output.stats != nullptr) stats = *output.stats;
      ended.set_value();
    };
  }
  bool wait() {
    return ended.get_future().wait_for(std::chrono::seconds(60)) == std::future_status::ready;
  }
};

Request endless(uint64_t seed) {
  Request request = make_request(random_prompt(seed, 5), -1);
  request.ignore_eos = true;
  return request;
}

TEST(EngineService, ManyThreadsGetTheirSoloAnswersG12) {
  EngineOptions options{.context = 128, .max_sequences = 6, .kv_tokens = 256};
  options.speculators = {ngram(), recycling(), draft_model()};
  options.prefix_cache = true;
  constexpr uint64_t kThreads = 4, kEach = 12;
  const auto request_of = [](uint64_t t, uint64_t i) {
    Request request = make_request(random_prompt(t * 100 + i / 2, 10 + 3 * (i % 5)), 25);
    request.sampling.temperature = 0.8f;
    request.sampling.seed = i;
    return request;
  };
  // Before the service starts: the model's kernels have one owner at a time.
  std::vector<std::vector<Answer>> alone(kThreads);
  for (uint64_t t = 0; t < kThreads; ++t)
    for (uint64_t i = 0; i < kEach; ++i)
      alone[t].push_back(run_alone(tiny_model(), tokenizer(), request_of(t, i)));
  const auto service = make_service(options);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < kEach; ++i) {
        Request request = request_of(t, i);
        Awaited awaited;
        awaited.attach(request);
        const auto ids = service->submit({request});
        const bool cancels = i % 4 == 3;
        if (cancels) service->cancel(ids.front());
        if (!awaited.wait()) ++wrong;
        if (!cancels && !same_answer(awaited.answer, alone[t][i])) ++wrong;
        if (!awaited.answer.faults.empty()) ++wrong;
        if (awaited.stats.completion_tokens != std::ssize(awaited.answer.ids)) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(service->drain(std::chrono::seconds(10)));
  const EngineStats stats = service->stats();
  EXPECT_EQ(stats.running + stats.waiting, 0);
  EXPECT_EQ(stats.kv_blocks_free + stats.kv_blocks_cached, stats.kv_blocks);
}

TEST(EngineService, TheQueueHasALimit) {
  const auto service = make_service({.context = 512, .max_sequences = 1}, {.max_queue = 2});
  std::vector<Awaited> answers(3);
  std::vector<int64_t> ids;
  for (size_t i = 0; i < 3; ++i) {
    Request request = endless(i);
    answers[i].attach(request);
    ids.push_back(service->submit({request}).front());
  }
  EXPECT_EQ(service->in_flight(), 3);
  try {
    service->submit({endless(9)});
    FAIL() << "a fourth was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kExhausted);
    EXPECT_THAT(error.what(), HasSubstr("3 requests"));
  }
  for (const int64_t id : ids) service->cancel(id);
  for (Awaited& answer : answers) ASSERT_TRUE(answer.wait());
  while (service->in_flight() > 0) std::this_thread::yield();  // told first, given back then
  Awaited last;
  Request request = make_request(random_prompt(1, 5), 3);
  last.attach(request);
  service->submit({request});
  EXPECT_TRUE(last.wait());
}

// Several requests are queued together or not at all.
TEST(EngineService, AllOrNone) {
  const auto service = make_service({.context = 64, .max_sequences = 1}, {.max_queue = 1});
  std::vector<Request> three(3, make_request(random_prompt(1, 5), 3));
  EXPECT_THROW(service->submit(three), Error);
  EXPECT_EQ(service->in_flight(), 0);
  Request bad = make_request({-1}, 3);
  try {
    service->submit({make_request(random_prompt(1, 5), 3), bad});
    FAIL() << "a bad id was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(service->in_flight(), 0);
}

// C13: a cancelled request is over within a step, wherever it was.
TEST(EngineService, CancelFreesTheSlotC13) {
  const auto service = make_service({.context = 4096, .max_sequences = 1});
  Awaited running, queued;
  Request first = endless(1), second = endless(2);
  running.attach(first);
  queued.attach(second);
  const int64_t a = service->submit({first}).front();
  const int64_t b = service->submit({second}).front();
  service->cancel(b);
  ASSERT_TRUE(queued.wait());
  EXPECT_EQ(queued.answer.finish, FinishReason::kCancelled);
  const int64_t steps = service->stats().steps;
  service->cancel(a);
  ASSERT_TRUE(running.wait());
  EXPECT_EQ(running.answer.finish, FinishReason::kCancelled);
  EXPECT_GE(service->stats().steps, steps);
  service->cancel(a);  // again, and unknown ones
  service->cancel(12345);
  EXPECT_TRUE(service->drain(std::chrono::seconds(10)));
  const EngineStats stats = service->stats();
  EXPECT_EQ(stats.kv_blocks_free, stats.kv_blocks);
}

// C14: draining lets requests end, up to the limit, and takes no new ones.
TEST(EngineService, DrainsThenCutsC14) {
  const auto service = make_service({.context = 4096, .max_sequences = 2});
  EXPECT_FALSE(service->draining());
  Awaited shorter, longer;
  Request first = make_request(random_prompt(1, 5), 10), second = endless(2);
  shorter.attach(first);
  longer.attach(second);
  service->submit({first, second});
  const auto begin = Clock::now();
  EXPECT_FALSE(service->drain(std::chrono::milliseconds(200)));
  EXPECT_LT(ms_since(begin), 5000.0);
  ASSERT_TRUE(shorter.wait());
  EXPECT_NE(shorter.answer.finish, FinishReason::kCancelled);
  ASSERT_TRUE(longer.wait());
  EXPECT_EQ(longer.answer.finish, FinishReason::kCancelled);
  try {
    service->submit({endless(3)});
    FAIL() << "taken while draining";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("shutting down"));
  }
}

TEST(EngineService, EndsWithRequestsRunning) {
  Awaited running;
  {
    const auto service = make_service({.context = 4096, .max_sequences = 2});
    Request request = endless(1);
    running.attach(request);
    service->submit({request});
  }
  ASSERT_TRUE(running.wait());
  EXPECT_EQ(running.answer.finish, FinishReason::kCancelled);
}

TEST(EngineService, ReportsEveryStep) {
  std::atomic<int64_t> steps{0};
  const auto service = make_service({.context = 64, .max_sequences = 1},
                                    {.on_step = [&steps](const EngineStats& stats, double ms) {
                                      if (ms >= 0.0) steps = stats.steps;
                                    }});
  Awaited awaited;
  Request request = make_request(random_prompt(1, 5), 7);
  request.ignore_eos = true;
  awaited.attach(request);
  service->submit({request});
  ASSERT_TRUE(awaited.wait());
  EXPECT_TRUE(service->drain(std::chrono::seconds(10)));
  EXPECT_EQ(service->stats().steps, 7);
  EXPECT_GE(steps, 6);
}

}  // namespace
}  // namespace clover
