// SPDX-License-Identifier: Apache-2.0
// How many drafts of lookup and recycling are right: the target answers questions greedily once;
// then the speculators draft along the answers with trees of several sizes. What the target would
// rank highest at rejected drafts is not known here, so recycling learns a little less than it does
// in the engine. Prints accepted drafts per pass; no time is measured.
//   draft_replay MODEL QUESTIONS.jsonl [questions, 60] [tokens of an answer, 256] [first, 0]
//                [PACKAGE with an n-gram table]
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <numeric>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "engine/engine.h"
#include "measure/questions.h"
#include "model/model.h"
#include "speculation/planner/drafter.h"
#include "speculation/speculators/ngram.h"
#include "speculation/speculators/package.h"
#include "speculation/speculators/recycling.h"
#include "speculation/speculators/table_speculator.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace clover {
namespace {

constexpr int64_t kLongestPrompt = 3500;
constexpr int kNodes[] = {4, 8, 16, 25};

struct Text {
  std::string category;
  std::vector<int32_t> tokens;  // the prompt, then the answer
  size_t prompt = 0;
  std::vector<std::vector<TopEntry>> top;  // before every token of the answer
};

std::vector<Text> read_prompts(const Tokenizer& tokenizer, const std::string& path, size_t count,
                               size_t first) {
  const auto chat = tokenizer.chat_template();
  if (!chat) fail(ErrorCode::kNotFound, "the model has no chat template");
  const ChatTemplate format = ChatTemplate::parse(*chat);
  const std::vector<Question> questions = read_questions(path);
  const size_t stride = std::max<size_t>(1, questions.size() / std::max<size_t>(count, 1));
  std::vector<Text> texts;
  for (size_t i = first; i < questions.size() && texts.size() < count; i += stride) {
    Json messages = Json::array();
    messages.push_back({{"role", "user"}, {"content", questions[i].turns[0]}});
    Text text;
    text.category = questions[i].category;
    text.tokens = tokenizer.encode(format.render(messages, {}), {});
    text.tokens.resize(std::min(text.tokens.size(), size_t{kLongestPrompt}));
    text.prompt = text.tokens.size();
    texts.push_back(std::move(text));
  }
  return texts;
}

void answer(const std::shared_ptr<const Model>& model, const Tokenizer& tokenizer,
            std::vector<Text>& texts, int64_t tokens) {
  Engine engine(model, tokenizer, {.context = kLongestPrompt + tokens, .max_sequences = 8});
  for (Text& text : texts) {
    Request request;
    request.prompt = text.tokens;
    request.max_tokens = tokens;
    request.on_output = [&text](const Output& output) {
      for (const OutputToken& token : output.tokens) text.tokens.push_back(token.id);
    };
    engine.submit(std::move(request));
  }
  engine.run();
}

// Reads the text again for the target's best tokens before every token of the answer.
void rank(const Model& model, KvStore& kv, Text& text) {
  std::vector<int32_t> blocks(static_cast<size_t>(kv.shape().blocks));
  std::iota(blocks.begin(), blocks.end(), 0);
  const size_t end = text.tokens.size() - 1;
  for (size_t first = 0; first < end; first += 128) {
    const size_t rows = std::min<size_t>(128, end - first);
    Batch batch;
    batch.sequences.push_back({blocks, static_cast<int64_t>(first), 0, static_cast<int64_t>(rows)});
    for (size_t i = 0; i < rows; ++i) {
      batch.tokens.push_back(text.tokens[first + i]);
      batch.parents.push_back(static_cast<int32_t>(i) - 1);
      batch.wants_logits.push_back(first + i + 1 >= text.prompt ? 1 : 0);
    }
    const ForwardResult result = model.forward(batch, kv);
    if (result.logits.rows() == 0) continue;
    for (auto& row : model.backend().top_k(result.logits, RecallTable::kBest))
      text.top.push_back(std::move(row));
  }
}

// Reports that tokens first … end - 1 are stored; those of the answer, and the last of the prompt,
// have logits.
void observe(Drafter& drafter, int64_t id, const Text& text, size_t first, size_t end) {
  std::vector<int32_t> parents, rows, top_rows;
  std::vector<std::vector<TopEntry>> top;
  for (size_t i = first; i < end; ++i) {
    const auto row = static_cast<int32_t>(i - first);
    parents.push_back(row - 1);
    rows.push_back(row);
    if (i + 1 < text.prompt) continue;
    top_rows.push_back(row);
    top.push_back(text.top[i + 1 - text.prompt]);
  }
  const std::span tokens(text.tokens);
  const std::vector<ObservedSequence> sequences = {{.id = id,
                                                    .tokens = tokens.first(end + 1),
                                                    .blocks = {},
                                                    .first = static_cast<int64_t>(first),
                                                    .rows = rows}};
  const Tensor none;
  drafter.observe({.hidden = none,
                   .tokens = tokens.subspan(first, end - first),
                   .parents = parents,
                   .top_rows = top_rows,
                   .top = top,
                   .sequences = sequences});
}

struct Score {
  int64_t passes = 0;
  int64_t tokens = 0;
  double extra() const {
    return static_cast<double>(tokens) / static_cast<double>(std::max<int64_t>(passes, 1)) - 1.0;
  }
};

Score replay(Drafter& drafter, int64_t id, const Text& text, int64_t nodes) {
  Score score;
  drafter.begin(id);
  observe(drafter, id, text, 0, text.prompt);
  size_t known = text.prompt + 1;
  while (known < text.tokens.size()) {
    const auto left = static_cast<int64_t>(text.tokens.size() - known);
    DraftRequest request;
    request.sequence.id = id;
    request.sequence.tokens = std::span(text.tokens).first(known);
    request.sequence.draft_slots = nodes;
    request.max_nodes = nodes;
    request.max_depth = left;
    const std::vector<TokenTree> trees = drafter.draft(std::span(&request, 1), 0);
    std::vector<int32_t> path = {0}, drawn;
    while (true) {
      drawn.push_back(text.tokens[known + drawn.size()]);
      const int32_t child = trees[0].child(path.back(), drawn.back());
      if (child < 0 || known + drawn.size() == text.tokens.size()) break;
      path.push_back(child);
    }
    const DraftOutcome outcome = {path, drawn};
    drafter.learn(std::span(&outcome, 1));
    observe(drafter, id, text, known - 1, known - 1 + drawn.size());
    known += drawn.size();
    ++score.passes;
    score.tokens += static_cast<int64_t>(drawn.size());
  }
  drafter.end(id);
  return score;
}

struct Sources {
  bool ngram = false;
  bool recycle = false;
  std::shared_ptr<const NgramTable> table = {};
};

void report(const std::vector<Text>& texts, const char* name, const Sources& sources) {
  fmt::print("{:<20}", name);
  std::map<std::string, Score> categories;
  for (const int nodes : kNodes) {
    std::vector<std::unique_ptr<Speculator>> speculators;
    if (sources.ngram) speculators.push_back(std::make_unique<NgramSpeculator>());
    if (sources.recycle) speculators.push_back(std::make_unique<RecyclingSpeculator>());
    if (sources.table) speculators.push_back(std::make_unique<TableSpeculator>(sources.table));
    const TreePolicy policy = {.kind = TreePolicy::Kind::kNodes, .nodes = nodes};
    Drafter drafter(std::move(speculators), policy, CostCurve());
    Score all;
    int64_t id = 0;
    for (const Text& text : texts) {
      const Score score = replay(drafter, ++id, text, nodes);
      all.passes += score.passes;
      all.tokens += score.tokens;
      if (nodes != 8) continue;
      categories[text.category].passes += score.passes;
      categories[text.category].tokens += score.tokens;
    }
    fmt::print("  {}: {:.3f}", nodes, all.extra());
  }
  fmt::print("\n{:<20}  at 8:", "");
  for (const auto& [category, score] : categories)
    fmt::print(" {} {:.2f}", category, score.extra());
  fmt::print("\n");
}

int64_t number(int argc, char** argv, int index, int64_t fallback) {
  if (index >= argc) return fallback;
  const std::string_view text = argv[index];
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > 1'000'000)
    fail(ErrorCode::kInvalidArgument, "'{}' is not a count", text);
  return value;
}

void run(int argc, char** argv) {
  if (argc < 3)
    fail(ErrorCode::kInvalidArgument,
         "usage: draft_replay MODEL QUESTIONS.jsonl [questions] [tokens] [first] [PACKAGE]");
  const int64_t count = number(argc, argv, 3, 60), tokens = number(argc, argv, 4, 256);
  const auto checkpoint = open_checkpoint(argv[1]);
  const auto tokenizer = load_tokenizer(*checkpoint);
  const auto model = Model::load(*checkpoint, make_cpu_backend({}));
  std::vector<Text> texts = read_prompts(*tokenizer, argv[2], static_cast<size_t>(count),
                                         static_cast<size_t>(number(argc, argv, 5, 0)));
  answer(model, *tokenizer, texts, tokens);
  std::erase_if(texts, [](const Text& text) { return text.tokens.size() == text.prompt; });
  const int64_t blocks = (kLongestPrompt + tokens) / kKvBlockTokens + 1;
  const auto kv = model->backend().make_kv_store(model->kv_shape(blocks, DType::kF16));
  int64_t answers = 0;
  for (Text& text : texts) {
    rank(*model, *kv, text);
    answers += static_cast<int64_t>(text.top.size());
  }
  fmt::print("{} answers of {} tokens; accepted drafts per pass by nodes of the tree\n",
             texts.size(), answers);
  report(texts, "ngram", {.ngram = true});
  report(texts, "recycle", {.recycle = true});
  report(texts, "ngram+recycle", {.ngram = true, .recycle = true});
  if (argc <= 6) return;
  const Package package = read_package(argv[6], *checkpoint);
  if (!package.table) fail(ErrorCode::kInvalidArgument, "{} has no n-gram table", argv[6]);
  const auto table =
      std::make_shared<const NgramTable>(*package.table, model->config().vocab, argv[6]);
  report(texts, "table", {.table = table});
  report(texts, "ngram+table", {.ngram = true, .table = table});
  report(texts, "ngram+recycle+table", {.ngram = true, .recycle = true, .table = table});
}

}  // namespace
}  // namespace clover

int main(int argc, char** argv) {
  try {
    clover::run(argc, argv);
  } catch (const clover::Error& error) {
    fmt::print(stderr, "draft_replay: {}\n", error.what());
    return 1;
  }
  return 0;
}
