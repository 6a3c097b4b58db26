// SPDX-License-Identifier: Apache-2.0
#include "measure/decode_bench.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "measure/prompts.h"
#include "measure/spread.h"

namespace clover {
namespace {

// What one run over some questions adds up to.
struct Tally {
  double decode_ms = 0;
  int64_t decode_tokens = 0;
  int64_t steps = 0;  // target passes that produced tokens, summed over requests
  int64_t drafted = 0;
  int64_t accepted = 0;
  std::vector<double> ttft_ms;
  std::vector<double> tpot_ms;
  std::vector<double> draft_ms, verify_ms, sample_ms, other_ms;  // per decoding pass
  uint64_t ids_hash = 0;

  double tokens_per_second() const {
    return decode_ms > 0 ? 1000.0 * static_cast<double>(decode_tokens) / decode_ms : 0;
  }
  void add(const Tally& other) {
    decode_ms += other.decode_ms;
    decode_tokens += other.decode_tokens;
    steps += other.steps;
    drafted += other.drafted;
    accepted += other.accepted;
    ids_hash = mix64(ids_hash ^ other.ids_hash);
    const std::pair<std::vector<double>*, const std::vector<double>*> lists[] = {
        {&ttft_ms, &other.ttft_ms},     {&tpot_ms, &other.tpot_ms},
        {&draft_ms, &other.draft_ms},   {&verify_ms, &other.verify_ms},
        {&sample_ms, &other.sample_ms}, {&other_ms, &other.other_ms}};
    for (const auto& [to, from] : lists) to->insert(to->end(), from->begin(), from->end());
  }
};

// A dialogue's answer on its way.
struct Answering {
  Dialogue dialogue;
  int64_t id = 0;      // of the request for its turn
  uint64_t hash = 0;   // of all turns' ids
  std::string text{};  // of the turn's answer
};

void submit_turn(Engine& engine, const PromptWriter& writer, Answering& answering,
                 const DecodeBenchOptions& options) {
  Request request;
  request.prompt = answering.dialogue.ids(writer);
  request.sampling = options.sampling;
  request.max_tokens = options.max_tokens;
  request.ignore_eos = options.ignore_eos;
  if (options.logprobs) request.top_logprobs = 0;
  answering.text.clear();
  request.on_output = [&answering](const Output& output) {
    uint64_t& hash = answering.hash;
    for (const OutputToken& token : output.tokens) {
      hash = mix64(hash ^ static_cast<uint64_t>(token.id));
      hash = mix64(hash ^ std::bit_cast<uint32_t>(token.logprob));
    }
    answering.text += output.text;
    if (output.finish == FinishReason::kError) fail(ErrorCode::kExhausted, "{}", output.error);
  };
  answering.id = engine.submit(std::move(request));
}

// Steps until all answers are there; the passes that only decode are counted.
void run_steps(Engine& engine, Tally& tally) {
  for (bool more = true; more;) {
    const EngineStats before = engine.engine_stats();
    const auto started = Clock::now();
    more = engine.step();
    const double ms = ms_since(started);
    const EngineStats after = engine.engine_stats();
    if (after.steps == before.steps || after.prompt_rows != before.prompt_rows) continue;
    tally.decode_ms += ms;
    tally.decode_tokens += after.tokens - before.tokens;
    tally.draft_ms.push_back(after.draft_ms - before.draft_ms);
    tally.verify_ms.push_back(after.verify_ms - before.verify_ms);
    tally.sample_ms.push_back(after.sample_ms - before.sample_ms);
    tally.other_ms.push_back(std::max(
        0.0, ms - tally.draft_ms.back() - tally.verify_ms.back() - tally.sample_ms.back()));
  }
}

void add_request(Tally& tally, const RequestStats& stats) {
  tally.steps += stats.target_steps;
  tally.drafted += stats.drafted;
  tally.accepted += stats.accepted;
  tally.ttft_ms.push_back(stats.ttft_ms);
  if (stats.completion_tokens > 1)
    tally.tpot_ms.push_back((stats.total_ms - stats.ttft_ms) /
                            static_cast<double>(stats.completion_tokens - 1));
}

// Runs a group of dialogues side by side to their ends, turn by turn.
Tally run_group(Engine& engine, const PromptWriter& writer, std::span<const Prompt> prompts,
                const DecodeBenchOptions& options) {
  Tally tally;
  std::vector<Answering> all;
  all.reserve(prompts.size());
  for (const Prompt& prompt : prompts) all.push_back({Dialogue(prompt)});
  for (;;) {
    std::vector<Answering*> asked;
    for (Answering& answering : all)
      if (answering.dialogue.more()) asked.push_back(&answering);
    if (asked.empty()) break;
    for (Answering* answering : asked) submit_turn(engine, writer, *answering, options);
    run_steps(engine, tally);
    for (Answering* answering : asked) {
      add_request(tally, *engine.stats(answering->id));
      engine.forget(answering->id);
      answering->dialogue.answered(std::move(answering->text));
    }
  }
  for (const Answering& answering : all) tally.ids_hash = mix64(tally.ids_hash ^ answering.hash);
  return tally;
}

double time_prompt(Engine& engine, const std::vector<Prompt>& prompts, int64_t tokens) {
  Request request;
  for (size_t i = 0; static_cast<int64_t>(request.prompt.size()) < tokens;
       i = (i + 1) % prompts.size())
    request.prompt.insert(request.prompt.end(), prompts[i].ids.begin(), prompts[i].ids.end());
  request.prompt.resize(static_cast<size_t>(tokens));
  request.max_tokens = 1;
  const int64_t id = engine.submit(std::move(request));
  engine.run();
  const double ms = engine.stats(id)->ttft_ms;
  engine.forget(id);
  return 1000.0 * static_cast<double>(tokens) / ms;
}

// One method at one batch size: its engine and its results so far.
struct Cell {
  const DecodeMethod* method = nullptr;
  int64_t batch = 1;
  std::unique_ptr<Engine> engine;
  std::map<std::string, std::vector<Tally>> runs;  // by category, "all" too; one per repeat
  std::vector<double> prompt_speed;
};

// A new engine that has run once: the first pass touches scratch memory and KV pages for the first
// time. What it ran is no question of the bench.
std::unique_ptr<Engine> warm_engine(const std::shared_ptr<const Model>& model,
                                    const Tokenizer& tokenizer, const Cell& cell,
                                    EngineOptions options) {
  options.max_sequences = cell.batch;
  options.speculators = cell.method->speculators;
  options.tree = cell.method->tree;
  auto engine = std::make_unique<Engine>(model, tokenizer, options);
  const auto vocab = static_cast<uint64_t>(tokenizer.vocab_size());
  for (int64_t s = 0; s < cell.batch; ++s) {
    Request request;
    for (uint64_t i = 0; i < 32; ++i)
      request.prompt.push_back(
          static_cast<TokenId>(random_bits(stream_key(0, static_cast<uint64_t>(s)), i) % vocab));
    request.max_tokens = 16;
    request.ignore_eos = true;
    engine->submit(std::move(request));
  }
  engine->run();
  return engine;
}

// One repeat over all questions for the cells of one batch size, group by group.
void run_repeat(std::span<Cell> cells, const PromptWriter& writer,
                const std::vector<Prompt>& prompts, int64_t repeat,
                const DecodeBenchOptions& options) {
  const auto batch = static_cast<size_t>(cells.front().batch);
  for (Cell& cell : cells) cell.runs["all"].emplace_back();
  for (size_t begin = 0; begin < prompts.size();) {
    const size_t end = std::min(begin + batch, prompts.size());
    // Neighbours are of one category but for the last group of each, which counts for "all" only.
    const std::string& category = prompts[begin].category;
    const bool pure = !category.empty() && prompts[end - 1].category == category;
    for (size_t i = 0; i < cells.size(); ++i) {
      Cell& cell = cells[(i + begin / batch + static_cast<size_t>(repeat)) % cells.size()];
      const Tally tally =
          run_group(*cell.engine, writer, std::span(prompts).subspan(begin, end - begin), options);
      cell.runs["all"].back().add(tally);
      if (!pure) continue;
      std::vector<Tally>& runs = cell.runs[category];
      runs.resize(static_cast<size_t>(repeat) + 1);
      runs.back().add(tally);
    }
    begin = end;
  }
  for (Cell& cell : cells)
    if (options.prompt_tokens > 0)
      cell.prompt_speed.push_back(time_prompt(*cell.engine, prompts, options.prompt_tokens));
}

Json result_json(const Cell& cell, const Cell& baseline, const std::string& category) {
  const std::vector<Tally>& runs = cell.runs.at(category);
  const std::vector<Tally>& plain = baseline.runs.at(category);
  std::vector<double> speeds, ratios;
  Tally sum;
  for (size_t i = 0; i < runs.size(); ++i) {
    speeds.push_back(runs[i].tokens_per_second());
    const double base = plain[i].tokens_per_second();
    ratios.push_back(base > 0 ? speeds.back() / base : 0);
    sum.add(runs[i]);
  }
  const auto per_step = [&](int64_t n) {
    return sum.steps > 0 ? static_cast<double>(n) / static_cast<double>(sum.steps) : 0.0;
  };
  return {{"method", cell.method->name},
          {"tree", cell.method->speculators.empty() ? "" : cell.method->tree.name()},
          {"batch", cell.batch},
          {"category", category},
          {"tokens_per_second", spread_json(speeds)},
          {"speedup_over_none", spread_json(ratios)},
          {"prompt_tokens_per_second", spread_json(cell.prompt_speed)},
          {"extra_tokens_per_step", per_step(sum.accepted)},
          {"drafted_per_step", per_step(sum.drafted)},
          {"ttft_ms", tail_json(sum.ttft_ms)},
          {"tpot_ms", tail_json(sum.tpot_ms)},
          {"step_ms",
           {{"draft", tail_json(sum.draft_ms)},
            {"verify", tail_json(sum.verify_ms)},
            {"sample", tail_json(sum.sample_ms)},
            {"other", tail_json(sum.other_ms)}}},
          {"same_text_as_none", runs.front().ids_hash == plain.front().ids_hash},
          {"ids_hash", fmt::format("{:016x}", runs.front().ids_hash)}};
}

void check(const DecodeBenchOptions& options) {
  if (options.methods.empty() || options.batches.empty())
    fail(ErrorCode::kInvalidArgument, "needs at least one method and one batch size");
  for (const int64_t batch : options.batches)
    if (batch < 1 || batch > 256)
      fail(ErrorCode::kInvalidArgument, "a batch must be 1 to 256, not {}", batch);
  if (options.repeats < 1 || options.max_tokens < 2)
    fail(ErrorCode::kInvalidArgument, "needs at least 1 repeat and 2 tokens");
}

}  // namespace

Json bench_decode(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer,
                  const std::vector<Question>& questions, const DecodeBenchOptions& options,
                  const std::function<void(int64_t, int64_t)>& report) {
  check(options);
  const PromptWriter writer(tokenizer);
  const std::vector<Prompt> prompts = render_prompts(questions, tokenizer);
  std::vector<std::vector<Cell>> batches;
  for (const int64_t batch : options.batches) {
    std::vector<Cell>& cells = batches.emplace_back();
    for (const DecodeMethod& method : options.methods) {
      cells.emplace_back().method = &method;
      cells.back().batch = batch;
    }
  }
  int64_t done = 0;
  const auto all = options.repeats * std::ssize(batches);
  for (int64_t repeat = 0; repeat < options.repeats; ++repeat)
    for (std::vector<Cell>& cells : batches) {
      for (Cell& cell : cells) cell.engine = warm_engine(model, tokenizer, cell, options.engine);
      run_repeat(cells, writer, prompts, repeat, options);
      for (Cell& cell : cells) cell.engine.reset();
      if (report) report(++done, all);
    }
  Json results = Json::array();
  for (const std::vector<Cell>& cells : batches) {
    const auto baseline = std::find_if(cells.begin(), cells.end(),
                                       [](const Cell& c) { return c.method->speculators.empty(); });
    for (const Cell& cell : cells) {
      const Cell& plain = baseline == cells.end() ? cell : *baseline;
      for (const auto& [category, runs] : cell.runs)
        results.push_back(result_json(cell, plain, category));
    }
  }
  return {{"results", std::move(results)},
          {"options",
           {{"repeats", options.repeats},
            {"max_tokens", options.max_tokens},
            {"prompt_tokens", options.prompt_tokens},
            {"ignore_eos", options.ignore_eos},
            {"questions", questions.size()},
            {"turns", count_turns(questions)},
            {"temperature", options.sampling.temperature},
            {"seed", options.sampling.seed}}}};
}

}  // namespace clover
