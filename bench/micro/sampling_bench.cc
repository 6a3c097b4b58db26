// SPDX-License-Identifier: Apache-2.0
// Time of one draw on one core. Arguments: vocabulary, shape of the logits (0: peaked, like a
// language model's; 1: a flat normal distribution, where little can be left out).
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "sampling/sampling.h"

namespace clover {
namespace {

// Normal logits (sum of 12 uniforms); the peaked shape is wider and has a few tokens well above.
std::vector<float> make_logits(int64_t vocab, bool flat) {
  std::vector<float> logits(vocab);
  for (int64_t i = 0; i < vocab; ++i) {
    double sum = -6.0;
    for (uint64_t k = 0; k < 12; ++k) sum += random_uniform(stream_key(7, i), k);
    logits[i] = static_cast<float>(flat ? sum : 2.5 * sum);
  }
  for (int64_t i = 0; !flat && i < 8; ++i) {
    logits[i * 5171 % vocab] = 17.0f - static_cast<float>(i);
  }
  return logits;
}

void run(benchmark::State& state, SamplingParams params, int top_logprobs) {
  const int64_t vocab = state.range(0);
  const std::vector<float> logits = make_logits(vocab, state.range(1) != 0);
  SamplerState sampler(std::move(params), {0}, static_cast<int32_t>(vocab));
  std::vector<int32_t> prompt(1000);
  for (int32_t i = 0; i < 1000; ++i) prompt[i] = i * 7;
  sampler.add_prompt(prompt);
  for (int32_t i = 0; i < 200; ++i) sampler.commit(i * 11);
  uint64_t position = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(sampler.draw(logits, position++, {}, top_logprobs));
  }
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"vocab", "flat"})->ArgsProduct({{49152, 151936}, {0, 1}});
  bench->Unit(benchmark::kMicrosecond);
}

void BM_Greedy(benchmark::State& state) { run(state, {}, -1); }
void BM_Temperature1(benchmark::State& state) { run(state, {.temperature = 1.0f}, -1); }
void BM_TopK40(benchmark::State& state) { run(state, {.temperature = 1.0f, .top_k = 40}, -1); }
void BM_TopK1000(benchmark::State& state) { run(state, {.temperature = 1.0f, .top_k = 1000}, -1); }
void BM_TopP95(benchmark::State& state) { run(state, {.temperature = 1.0f, .top_p = 0.95f}, -1); }
void BM_TopK40TopP95(benchmark::State& state) {
  run(state, {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f}, -1);
}
void BM_MinP(benchmark::State& state) { run(state, {.temperature = 1.0f, .min_p = 0.05f}, -1); }
void BM_AllProcessors(benchmark::State& state) {
  run(state,
      {.temperature = 0.8f,
       .top_k = 40,
       .top_p = 0.95f,
       .min_p = 0.05f,
       .repetition_penalty = 1.1f,
       .presence_penalty = 0.1f,
       .frequency_penalty = 0.1f,
       .logit_bias = {{5, 1.0f}}},
      -1);
}
void BM_GreedyLogprobs20(benchmark::State& state) { run(state, {}, 20); }

BENCHMARK(BM_Greedy)->Apply(shapes);
BENCHMARK(BM_Temperature1)->Apply(shapes);
BENCHMARK(BM_TopK40)->Apply(shapes);
BENCHMARK(BM_TopK1000)->Apply(shapes);
BENCHMARK(BM_TopP95)->Apply(shapes);
BENCHMARK(BM_TopK40TopP95)->Apply(shapes);
BENCHMARK(BM_MinP)->Apply(shapes);
BENCHMARK(BM_AllProcessors)->Apply(shapes);
BENCHMARK(BM_GreedyLogprobs20)->Apply(shapes);

}  // namespace
}  // namespace clover
