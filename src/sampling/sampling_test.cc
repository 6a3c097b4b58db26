// SPDX-License-Identifier: Apache-2.0
#include "sampling/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <thread>

#include "base/error.h"
#include "sampling/reference_for_tests.h"

namespace clover {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
    return e.what();
  }
  return "";
}

int32_t draw_id(const SamplerState& state, std::span<const float> logits, uint64_t position = 0,
                std::span<const int32_t> pending = {}) {
  return state.draw(logits, position, pending, -1).id;
}

TEST(Validate, AcceptsTheEdgesOfEveryRange) {
  for (const float t : {0.0f, 1e-45f, 100.0f}) EXPECT_NO_THROW(validate({.temperature = t}, 10));
  for (const float p : {1e-45f, 1.0f}) EXPECT_NO_THROW(validate({.top_p = p}, 10));
  for (const float p : {0.0f, 0.9999f}) EXPECT_NO_THROW(validate({.min_p = p}, 10));
  for (const float p : {0.001f, 1000.0f}) {
    EXPECT_NO_THROW(validate({.repetition_penalty = p}, 10));
  }
  for (const float p : {-2.0f, 2.0f}) {
    EXPECT_NO_THROW(validate({.presence_penalty = p, .frequency_penalty = p}, 10));
  }
  EXPECT_NO_THROW(validate({.top_k = std::numeric_limits<int32_t>::max()}, 10));
  EXPECT_NO_THROW(validate({.min_tokens = std::numeric_limits<int64_t>::max()}, 10));
  EXPECT_NO_THROW(validate({.logit_bias = {{0, -kInf}, {9, kInf}, {3, -3e38f}}}, 10));
}

TEST(Validate, NamesTheParameterOutOfRange) {
  const auto expect = [](const SamplingParams& params, const char* name) {
    EXPECT_THAT(error_of([&] { validate(params, 10); }), HasSubstr(name));
    EXPECT_THAT(error_of([&] { SamplerState(params, {}, 10); }), HasSubstr(name));
  };
  for (const float bad : {-0.1f, 100.1f, kNan, kInf, -kInf, 3e38f}) {
    expect({.temperature = bad}, "temperature");
  }
  for (const int32_t bad : {-1, std::numeric_limits<int32_t>::min()})
    expect({.top_k = bad}, "top_k");
  for (const float bad : {0.0f, -0.5f, 1.0001f, kNan, kInf}) expect({.top_p = bad}, "top_p");
  for (const float bad : {-0.1f, 1.0f, kNan, kInf, -kInf}) expect({.min_p = bad}, "min_p");
  for (const float bad : {0.0f, -1.0f, 1e-4f, 1001.0f, kNan, kInf}) {
    expect({.repetition_penalty = bad}, "repetition_penalty");
  }
  for (const float bad : {-2.1f, 2.1f, kNan, kInf, -kInf}) {
    expect({.presence_penalty = bad}, "presence_penalty");
    expect({.frequency_penalty = bad}, "frequency_penalty");
  }
  expect({.min_tokens = -1}, "min_tokens");
  expect({.logit_bias = {{10, 1.0f}}}, "token 10");
  expect({.logit_bias = {{-1, 1.0f}}}, "token -1");
  expect({.logit_bias = {{3, kNan}}}, "token 3");
  expect({.logit_bias = {{3, 1.0f}, {3, 2.0f}}}, "token 3 twice");
}

TEST(Validate, RefusesIdsOutsideTheVocabulary) {
  EXPECT_THAT(error_of([] { validate({}, 0); }), HasSubstr("vocabulary size"));
  EXPECT_THAT(error_of([] { SamplerState({}, {10}, 10); }), HasSubstr("end-of-text token 10"));
  SamplerState state({}, {}, 10);
  EXPECT_THAT(error_of([&] {
                state.add_prompt(std::vector<int32_t>{3, -1});
              }),
              HasSubstr("token -1"));
  EXPECT_THAT(error_of([&] { state.commit(10); }), HasSubstr("token 10"));
  EXPECT_EQ(state.output_tokens(), 0);
  const std::vector<float> logits(10, 0.0f);
  const int32_t pending[] = {99};
  EXPECT_THAT(error_of([&] { draw_id(state, logits, 0, pending); }), HasSubstr("token 99"));
}

TEST(Draw, RefusesRowsThatDefineNoDistribution) {
  for (const float temperature : {0.0f, 1.0f}) {
    const SamplerState state({.temperature = temperature}, {}, 200);
    std::vector<float> logits(200, 0.0f);
    logits[150] = kNan;
    EXPECT_THAT(error_of([&] { draw_id(state, logits); }), HasSubstr("token 150 is NaN"));
    EXPECT_THAT(error_of([&] { state.process(logits, {}); }), HasSubstr("token 150 is NaN"));
    logits[150] = kInf;
    EXPECT_THAT(error_of([&] { draw_id(state, logits); }), HasSubstr("token 150 is infinite"));
    logits.assign(200, -kInf);
    EXPECT_THAT(error_of([&] { draw_id(state, logits); }), HasSubstr("-inf"));
    logits.assign(199, 0.0f);
    EXPECT_THAT(error_of([&] { draw_id(state, logits); }), HasSubstr("199"));
    EXPECT_THAT(error_of([&] { draw_id(state, {}); }), HasSubstr("0 logits"));
  }
}

TEST(Draw, GreedyTakesTheGreatestAndOfEqualsTheLowest) {
  const SamplerState state({}, {}, 5);
  EXPECT_EQ(draw_id(state, std::vector<float>{1, 3, 2, 3, 0}), 1);
  EXPECT_EQ(draw_id(state, std::vector<float>{-0.0f, 0.0f, -1, -1, -1}), 0);
  EXPECT_EQ(draw_id(state, std::vector<float>{-kInf, -kInf, -kInf, -9, -kInf}), 3);
  EXPECT_EQ(draw_id(state, std::vector<float>(5, 7.0f)), 0);
}

TEST(Draw, GreedyIgnoresTruncationAndSeed) {
  const std::vector<float> logits = normal_row(4, 500, 2.0);
  const int32_t expected = draw_id(SamplerState({}, {}, 500), logits);
  SamplingParams params{.top_k = 3, .top_p = 0.1f, .min_p = 0.5f, .seed = 99};
  EXPECT_EQ(draw_id(SamplerState(params, {}, 500), logits), expected);
}

TEST(Draw, VocabularyOfOneToken) {
  for (const float t : {0.0f, 1.0f, 100.0f}) {
    const SamplerState state({.temperature = t, .top_k = 5, .top_p = 0.5f, .min_p = 0.5f}, {}, 1);
    const Draw draw = state.draw(std::vector<float>{-1e30f}, 3, {}, 5);
    EXPECT_EQ(draw.id, 0);
    EXPECT_EQ(draw.logprob, 0.0f);
    ASSERT_EQ(draw.top.size(), 1u);
  }
}

TEST(Draw, ExtremeLogitsAreDefined) {
  const std::vector<float> logits = {-3.4e38f, 3.4e38f, 0.0f, -kInf};
  for (const float t : {0.0f, 1e-45f, 1.0f, 100.0f}) {
    const Draw draw = SamplerState({.temperature = t, .top_p = 0.9f}, {}, 4).draw(logits, 1, {}, 4);
    EXPECT_EQ(draw.id, 1);
    EXPECT_EQ(draw.logprob, 0.0f);
    EXPECT_EQ(draw.top.size(), 3u);
  }
}

// D9: the token depends on (seed, position), not on the order of calls, the thread or other rows.
TEST(Draw, D9SameSeedAndPositionGiveTheSameToken) {
  const std::vector<float> logits = normal_row(8, 3000, 1.0);
  const SamplerState state({.temperature = 1.0f, .seed = 5}, {}, 3000);
  std::vector<int32_t> forward;
  for (uint64_t p = 0; p < 200; ++p) forward.push_back(draw_id(state, logits, p));
  const SamplerState other({.temperature = 1.3f, .top_k = 9, .seed = 6}, {}, 700);
  const std::vector<float> other_logits = normal_row(9, 700, 2.0);
  std::vector<int32_t> backward(200);
  std::thread thread([&] {
    for (uint64_t p = 200; p-- > 0;) {
      draw_id(other, other_logits, p);
      backward[p] = draw_id(state, logits, p);
    }
  });
  thread.join();
  EXPECT_EQ(forward, backward);
  const SamplerState reseeded({.temperature = 1.0f, .seed = 7}, {}, 3000);
  int equal = 0;
  for (uint64_t p = 0; p < 200; ++p) equal += draw_id(reseeded, logits, p) == forward[p] ? 1 : 0;
  EXPECT_LT(equal, 20);
}

TEST(Draw, UsesThePublicNoise) {
  const std::vector<float> logits = normal_row(8, 300, 1.0);
  const SamplerState state({.temperature = 0.7f, .seed = 123}, {}, 300);
  for (uint64_t p = 0; p < 100; ++p) {
    const std::vector<float> z = state.process(logits, {});
    int32_t best = 0;
    for (int32_t i = 1; i < 300; ++i) {
      if (z[i] + gumbel_noise(123, p, i) > z[best] + gumbel_noise(123, p, best)) best = i;
    }
    EXPECT_EQ(draw_id(state, logits, p), best);
  }
}

// D6: a bias holds in every draw, whatever the drafter proposed.
TEST(Draw, D6BiasForbidsAndForces) {
  const std::vector<float> logits = {5.0f, 4.0f, 3.0f, 2.0f};
  const int32_t pending[] = {0, 0};
  for (const float t : {0.0f, 1.0f, 2.0f}) {
    for (const float amount : {100.0f, kInf}) {
      const SamplerState barred({.temperature = t, .logit_bias = {{0, -amount}}}, {}, 4);
      const SamplerState forced({.temperature = t, .logit_bias = {{3, amount}}}, {}, 4);
      for (uint64_t p = 0; p < 300; ++p) {
        EXPECT_NE(draw_id(barred, logits, p, pending), 0);
        EXPECT_EQ(draw_id(forced, logits, p, pending), 3);
      }
    }
  }
}

TEST(Draw, ForcedTokensAreDrawnEvenlyEvenWhereTheModelExcludesThem) {
  const std::vector<float> logits = {5.0f, 4.0f, -kInf, 2.0f};
  const SamplerState state({.temperature = 1.0f, .logit_bias = {{2, kInf}, {3, kInf}}}, {}, 4);
  EXPECT_THAT(state.process(logits, {}), ElementsAre(-kInf, -kInf, 0.0f, 0.0f));
  int twos = 0;
  for (uint64_t p = 0; p < 1000; ++p) {
    const int32_t id = draw_id(state, logits, p);
    ASSERT_GE(id, 2);
    twos += id == 2 ? 1 : 0;
  }
  EXPECT_NEAR(twos, 500, 80);
}

TEST(Draw, NothingLeftIsAnError) {
  const std::vector<float> logits = {1.0f, 2.0f};
  const SamplerState biased({.logit_bias = {{0, -kInf}, {1, -kInf}}}, {}, 2);
  EXPECT_THAT(error_of([&] { draw_id(biased, logits); }), HasSubstr("no token is left"));
  const SamplerState barred({.temperature = 1.0f, .min_tokens = 1}, {0, 1}, 2);
  EXPECT_THAT(error_of([&] { draw_id(barred, logits); }), HasSubstr("no token is left"));
  const uint64_t none[] = {0};
  EXPECT_THAT(error_of([&] { SamplerState({}, {}, 2).draw(logits, 0, {}, -1, none); }),
              HasSubstr("no token is left"));
}

TEST(Draw, AllowedMaskWinsOverBiasAndIsChecked) {
  const std::vector<float> logits = normal_row(1, 130, 1.0);
  const uint64_t mask[] = {0x10, 0, 0x1};  // tokens 4 and 128
  for (const float t : {0.0f, 1.0f}) {
    const SamplerState state({.temperature = t, .logit_bias = {{7, kInf}}}, {}, 130);
    for (uint64_t p = 0; p < 100; ++p) {
      const int32_t id = state.draw(logits, p, {}, -1, mask).id;
      EXPECT_TRUE(id == 4 || id == 128) << id;
    }
  }
  const SamplerState state({}, {}, 130);
  EXPECT_THAT(error_of([&] { state.draw(logits, 0, {}, -1, std::span(mask).first(2)); }),
              HasSubstr("too short"));
}

// D4: a block of eight enters the penalties like eight single tokens, and pending tokens count as
// committed ones do.
TEST(Draw, D4PenaltiesDoNotDependOnBlockSizes) {
  const SamplingParams params{.temperature = 0.9f,
                              .repetition_penalty = 1.3f,
                              .presence_penalty = 0.4f,
                              .frequency_penalty = 0.2f,
                              .seed = 3};
  const std::vector<int32_t> prompt = {1, 2, 2, 5};
  const std::vector<int32_t> output = {2, 7, 7, 7, 9, 1, 1, 30};
  const std::vector<float> logits = normal_row(2, 40, 2.0);
  SamplerState by_one(params, {}, 40);
  by_one.add_prompt(prompt);
  for (size_t done = 0; done <= output.size(); ++done) {
    SamplerState fresh(params, {}, 40);
    fresh.add_prompt(std::span(prompt).first(2));
    fresh.add_prompt(std::span(prompt).subspan(2));
    const std::span<const int32_t> pending = std::span(output).first(done);
    EXPECT_EQ(by_one.process(logits, {}), fresh.process(logits, pending)) << done;
    EXPECT_EQ(draw_id(by_one, logits, done), draw_id(fresh, logits, done, pending)) << done;
    if (done < output.size()) by_one.commit(output[done]);
  }
  EXPECT_EQ(by_one.output_tokens(), 8);
}

TEST(Draw, D4PendingTokensLeaveNoTrace) {
  SamplerState state({.frequency_penalty = 1.0f}, {}, 4);
  state.commit(1);
  const std::vector<float> logits(4, 0.0f);
  const std::vector<float> before = state.process(logits, {});
  const int32_t rejected[] = {1, 2, 3};
  EXPECT_THAT(state.process(logits, rejected), ElementsAre(0.0f, -2.0f, -1.0f, -1.0f));
  EXPECT_EQ(state.process(logits, {}), before);
  EXPECT_THAT(before, ElementsAre(0.0f, -1.0f, 0.0f, 0.0f));
}

TEST(Draw, PromptCountsForRepetitionOnly) {
  SamplerState state({.repetition_penalty = 2.0f, .presence_penalty = 1.0f}, {}, 3);
  state.add_prompt(std::vector<int32_t>{0});
  state.commit(1);
  EXPECT_THAT(state.process(std::vector<float>{4, 4, 4}, {}), ElementsAre(2.0f, 1.0f, 4.0f));
}

// D4, D7: with min_tokens = 10 the end of text can first be the token of index 10, counting tokens,
// not steps, in whatever blocks they come.
// Models pad their vocabularies to round numbers; the padding has no text and whatever logits
// training left it with.
TEST(Draw, PaddingOfTheVocabularyIsNeverDrawn) {
  constexpr int32_t kVocab = 300, kUsable = 270;
  std::vector<float> logits(kVocab, 0.0f);
  for (int32_t id = 0; id < kUsable; ++id) logits[static_cast<size_t>(id)] = 0.01f * (id % 7);
  for (int32_t id = kUsable; id < kVocab; ++id) logits[static_cast<size_t>(id)] = 5.0f;
  const std::vector<SamplingParams> all = {
      {.temperature = 0.0f},
      {.temperature = 1.0f},
      {.temperature = 1.0f, .top_k = 40},
      {.temperature = 1.0f, .top_p = 0.5f},
      {.temperature = 1.0f, .min_p = 0.1f},
      {.temperature = 1.0f, .presence_penalty = 1.0f},
      {.temperature = 1.0f, .logit_bias = {{kUsable, kInf}, {3, 1.0f}}},
      {.temperature = 0.0f, .logit_bias = {{kVocab - 1, 100.0f}}}};
  const int32_t pending[] = {kUsable + 1, 4};
  for (const SamplingParams& params : all) {
    const SamplerState padded(params, {}, kVocab, kUsable);
    SamplingParams shorter_params = params;
    std::erase_if(shorter_params.logit_bias, [](auto bias) { return bias.first >= kUsable; });
    const SamplerState shorter(shorter_params, {}, kUsable);
    for (uint64_t position = 0; position < 200; ++position) {
      EXPECT_EQ(draw_id(padded, logits, position),
                draw_id(shorter, std::span(logits).first(kUsable), position));
      EXPECT_LT(draw_id(padded, logits, position, pending), kUsable);
    }
    const std::vector<float> processed = padded.process(logits, pending);
    ASSERT_EQ(processed.size(), logits.size());
    for (int32_t id = kUsable; id < kVocab; ++id)
      EXPECT_EQ(processed[static_cast<size_t>(id)], -kInf);
  }
}

TEST(Draw, PaddingCountsInTheModelsOwnDistribution) {
  const std::vector<float> logits = {0.0f, 0.0f, 1.0f};
  const SamplerState padded({}, {}, 3, 2);
  const Draw draw = padded.draw(logits, 0, {}, 3);
  EXPECT_EQ(draw.id, 0);
  EXPECT_NEAR(draw.logprob, -std::log(2.0 + std::exp(1.0)), 1e-5);
  ASSERT_EQ(draw.top.size(), 3u);
  EXPECT_EQ(draw.top[0].id, 2);
}

TEST(Draw, PaddingAloneIsNothingToDraw) {
  const std::vector<float> logits = {-kInf, -kInf, 1.0f};
  EXPECT_THAT(error_of([&] { draw_id(SamplerState({}, {}, 3, 2), logits); }),
              HasSubstr("no token is left"));
  EXPECT_THAT(error_of([&] { SamplerState({}, {}, 3, 0); }), HasSubstr("no token"));
  EXPECT_THAT(error_of([&] { SamplerState({}, {}, 3, -1); }), HasSubstr("no token"));
}

TEST(Draw, D4D7MinTokensCountsTokens) {
  const std::vector<float> logits = {0.0f, 10.0f, 9.0f};
  const std::vector<int32_t> eos = {1, 2};
  for (const size_t block : {1, 8}) {
    SamplerState state({.min_tokens = 10}, eos, 3);
    std::vector<int32_t> output;
    while (output.size() < 12) {
      std::vector<int32_t> pending;
      for (size_t i = 0; i < block; ++i) {
        const int32_t id = draw_id(state, logits, output.size() + i, pending);
        EXPECT_EQ(id, output.size() + i < 10 ? 0 : 1);
        pending.push_back(id);
      }
      for (const int32_t id : pending) state.commit(id);
      output.insert(output.end(), pending.begin(), pending.end());
    }
  }
}

TEST(Process, RunsInTheStatedOrder) {
  // Penalties before the bias: (4 / 2 - 1) + 3 = 4; after it would be (4 + 3) / 2 - 1 = 2.5.
  SamplerState order({.repetition_penalty = 2.0f, .presence_penalty = 1.0f, .logit_bias = {{0, 3}}},
                     {}, 2);
  order.commit(0);
  EXPECT_THAT(order.process(std::vector<float>{4, 0}, {}), ElementsAre(4.0f, 0.0f));
  // Temperature before top-p: shares 0.8, 0.2 become 0.64/0.68 = 0.94, 0.06 at T = 0.5.
  const std::vector<float> shares = {std::log(0.8f), std::log(0.2f)};
  const SamplerState cold({.temperature = 0.5f, .top_p = 0.9f}, {}, 2);
  EXPECT_EQ(cold.process(shares, {})[1], -kInf);
  const SamplerState warm({.temperature = 1.0f, .top_p = 0.9f}, {}, 2);
  EXPECT_GT(warm.process(shares, {})[1], -kInf);
}

TEST(Process, LeavesTheLogitsAlone) {
  std::vector<float> logits = normal_row(3, 200, 1.0);
  const std::vector<float> copy = logits;
  const SamplerState state({.temperature = 0.5f, .top_k = 2, .logit_bias = {{0, 1.0f}}}, {}, 200);
  state.process(logits, {});
  state.draw(logits, 0, {}, 3);
  EXPECT_EQ(logits, copy);
}

// D1: log-probabilities are those of the raw logits whatever the processors do.
TEST(Logprobs, D1EqualTheDoubleReference) {
  for (const int32_t vocab : {1, 3, 127, 128, 130, 5000}) {
    for (const double scale : {0.0, 1.0, 20.0}) {
      const std::vector<float> logits = normal_row(vocab, vocab, scale);
      double sum = 0.0;
      for (const float x : logits) sum += std::exp(static_cast<double>(x) - logits[0]);
      const double normaliser = std::log(sum) + logits[0];
      SamplerState state({.temperature = 0.8f, .top_k = 5, .logit_bias = {{0, 30.0f}}}, {}, vocab);
      for (const int n : {0, 1, 20, std::numeric_limits<int>::max()}) {
        const Draw draw = state.draw(logits, 7, {}, n);
        EXPECT_NEAR(draw.logprob, logits[draw.id] - normaliser, 1e-5);
        ASSERT_EQ(draw.top.size(), static_cast<size_t>(std::min(n, vocab)));
        for (size_t i = 0; i < draw.top.size(); ++i) {
          EXPECT_NEAR(draw.top[i].logprob, logits[draw.top[i].id] - normaliser, 1e-5);
          if (i == 0) continue;
          const TokenLogprob& above = draw.top[i - 1];
          const TokenLogprob& here = draw.top[i];
          EXPECT_GE(logits[above.id], logits[here.id]);
          EXPECT_TRUE(logits[above.id] > logits[here.id] || above.id < here.id);
        }
      }
    }
  }
}

TEST(Logprobs, AreOfferedOnlyWhenAsked) {
  const Draw draw = SamplerState({}, {}, 2).draw(std::vector<float>{0, 1}, 0, {}, -1);
  EXPECT_EQ(draw.logprob, 0.0f);
  EXPECT_TRUE(draw.top.empty());
}

TEST(Logprobs, ExcludedTokensAreNotListed) {
  const Draw draw = SamplerState({}, {}, 3).draw(std::vector<float>{0, -kInf, 0}, 0, {}, 3);
  ASSERT_EQ(draw.top.size(), 2u);
  EXPECT_NEAR(draw.top[0].logprob, std::log(0.5), 1e-6);
  const SamplerState forced({.logit_bias = {{1, kInf}}}, {}, 3);
  EXPECT_EQ(forced.draw(std::vector<float>{0, -kInf, 0}, 0, {}, 0).logprob, -kInf);
}

}  // namespace
}  // namespace clover
