// SPDX-License-Identifier: Apache-2.0
// Time of one mask over the default model's vocabulary, on one core, from the repository's root:
// new states ("cold"), and states that came before ("kept"). The argument chooses the state.
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "constraint/constraint.h"
#include "constraint/json_schema.h"
#include "tokenizer/tokenizer.h"

namespace clover {
namespace {

constexpr const char* kModel = "models/SmolLM2-135M-Instruct.Q4_1.gguf";

struct Place {
  const char* name;
  const char* schema;
  const char* text;  // that has been written
};

constexpr Place kPlaces[] = {
    {"start", R"({"type":"object"})", ""},
    {"any value", R"({"type":"object"})", R"({"a": )"},
    {"free key", R"({"type":"object"})", R"({"a)"},
    {"string, deep", R"({"type":"object"})", R"({"a": {"b": [{"c": "hello)"},
    {"string, bounded", R"({"type":"string","maxLength":20})", "\"hello"},
    {"digits", R"({"type":"integer","minimum":0,"maximum":130})", "1"},
    {"declared key", R"({"properties":{"name":{},"number":{},"age":{}}})", R"({"n)"},
    {"string of 3 objects",
     R"({"anyOf":[{"properties":{"a":{"type":"string"},"b":{}}},
                  {"properties":{"a":{"type":"string"},"c":{}}},
                  {"properties":{"a":{"type":"string"},"d":{}}}]})",
     R"({"a": "x)"},
};

std::shared_ptr<const TokenWords> vocabulary() {
  static const auto words = [] {
    const auto tokenizer = load_tokenizer(*open_checkpoint(kModel));
    return std::make_shared<TokenWords>(*tokenizer, tokenizer->vocab_size());
  }();
  return words;
}

ConstraintState state_at(const Constraint& constraint, const std::string& text) {
  ConstraintState state = constraint.start();
  for (const char c : text)
    for (int32_t token = 0; token < constraint.words().vocab(); ++token)
      if (constraint.words().bytes(token) == std::string(1, c)) {
        if (!constraint.advance(state, token)) std::abort();
        break;
      }
  return state;
}

void BM_Mask(benchmark::State& bench, bool kept) {
  const Place& place = kPlaces[bench.range(0)];
  bench.SetLabel(place.name);
  const auto grammar = compile_json_schema(parse_json(place.schema, "the schema"));
  auto constraint = std::make_unique<Constraint>(grammar, vocabulary());
  const ConstraintState state = state_at(*constraint, place.text);
  std::vector<uint64_t> mask;
  for (auto _ : bench) {
    if (!kept) {
      bench.PauseTiming();
      constraint = std::make_unique<Constraint>(grammar, vocabulary());
      bench.ResumeTiming();
    }
    constraint->allowed(state, mask);
    benchmark::DoNotOptimize(mask.data());
  }
}

void BM_Vocabulary(benchmark::State& bench) {
  const auto tokenizer = load_tokenizer(*open_checkpoint(kModel));
  for (auto _ : bench) benchmark::DoNotOptimize(TokenWords(*tokenizer, tokenizer->vocab_size()));
}

BENCHMARK_CAPTURE(BM_Mask, cold, false)->DenseRange(0, 7)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_Mask, kept, true)->DenseRange(0, 7)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Vocabulary)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace clover
