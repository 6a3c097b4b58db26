// SPDX-License-Identifier: Apache-2.0
#include "measure/report/results.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"

namespace clover {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;

std::string text_or(const ResultField& object, std::string_view key, const std::string& otherwise) {
  return object.has(key) ? object[key].text() : otherwise;
}

// `threads`: the key of the threads that ran.
ResultOrigin read_origin(const ResultField& file, const char* threads = "threads") {
  const ResultField machine = file["machine"];
  const ResultField model = file["model"];
  return {machine["cpu"].text(), text_or(machine, "isa", ""), machine[threads].count(1),
          model["name"].text(),  model["sha256"].text(),      text_or(file, "commit", "unknown")};
}

ResultSpread read_spread(const ResultField& parent, std::string_view key) {
  if (!parent.has(key)) {
    (void)parent[key];  // null is a measurement that was not made; a missing key is another file
    return {};
  }
  const ResultField field = parent[key];
  ResultSpread spread{field["median"].measurement(),
                      field["min"].measurement(),
                      field["max"].measurement(),
                      std::ssize(field["runs"].list()),
                      {}};
  for (const ResultField& run : field["runs"].list()) spread.values.push_back(run.measurement());
  return spread;
}

ResultTail read_tail(const ResultField& parent, std::string_view key) {
  if (!parent.has(key)) {
    (void)parent[key];
    return {};
  }
  const ResultField field = parent[key];
  return {field["p50"].measurement(), field["p95"].measurement(), field["p99"].measurement()};
}

// "SPECULATORS@TREE" without the folders of packages.
std::string short_method(const std::string& method) {
  const size_t at = method.rfind('@');
  if (at == std::string::npos) return short_speculators(method);
  return short_speculators(method.substr(0, at)) + method.substr(at);
}

DecodeRow read_decode_row(const ResultField& row) {
  DecodeRow out;
  out.method = short_method(row["method"].text());
  out.batch = row["batch"].count(1);
  out.category = row["category"].text();
  out.speed = read_spread(row, "tokens_per_second");
  out.speedup = read_spread(row, "speedup_over_none");
  out.extra = row["extra_tokens_per_step"].measurement();
  out.drafted = row["drafted_per_step"].measurement();
  out.ttft = read_tail(row, "ttft_ms");
  out.tpot = read_tail(row, "tpot_ms");
  const ResultField step = row["step_ms"];
  out.draft = read_tail(step, "draft");
  out.verify = read_tail(step, "verify");
  out.sample = read_tail(step, "sample");
  out.other = read_tail(step, "other");
  out.same_text = row["same_text_as_none"].flag();
  return out;
}

std::string settings_text(const ResultField& options) {
  std::string text;
  for (const auto& [key, value] : options.members()) text += key + "=" + value.dump() + " ";
  return text;
}

DecodeResult read_decode(const ResultField& file) {
  DecodeResult out;
  out.files = {file.file()};
  out.date = text_or(file, "date", "");
  const ResultField options = file["options"];
  out.settings = settings_text(options);
  out.repeats = options["repeats"].count(1);
  out.max_tokens = options["max_tokens"].count(1);
  out.questions = options["questions"].count(1);
  out.temperature = options["temperature"].measurement();
  for (const ResultField& row : file["results"].list()) out.rows.push_back(read_decode_row(row));
  if (out.rows.empty()) fail(ErrorCode::kCorrupt, "{} is empty", file["results"].place());
  return out;
}

KernelResult read_kernels(const ResultField& file) {
  KernelResult out;
  out.file = file.file();
  out.date = text_or(file, "date", "");
  out.read_peak = file["peak"]["read_gbytes_per_s"].measurement();
  out.int8_peak = file["peak"]["int8_gmac_per_s"].measurement();
  for (const ResultField& cost : file["cost"].list()) {
    KernelCost& to = out.costs.emplace_back();
    to.type = cost["type"].text();
    to.rows = cost["rows"].count(1);
    to.ms = read_spread(cost, "ms");
    to.ratio = cost["ratio_to_one_row"].measurement();
    to.read_share = cost["share_of_read_peak"].measurement();
    to.mac_share = cost["share_of_mac_peak"].measurement();
    to.gbytes = cost["gbytes_per_s"].measurement();
    to.gmacs = cost["gmac_per_s"].measurement();
  }
  if (out.costs.empty()) fail(ErrorCode::kCorrupt, "{} is empty", file["cost"].place());
  return out;
}

EvalRanks read_ranks(const ResultField& field) {
  EvalRanks ranks{
      field["depth"].count(1), field["parent_rank"].count(1), field["asked"].count(1), {}};
  int64_t right = 0;
  for (const ResultField& at : field["at_rank"].list()) {
    ranks.at_rank.push_back(at.count());
    right += ranks.at_rank.back();
  }
  if (right > ranks.asked)
    fail(ErrorCode::kCorrupt, "{} has more hits than {} is", field["at_rank"].place(),
         field["asked"].place());
  return ranks;
}

EvalResult read_eval(const ResultField& file) {
  EvalResult out;
  out.file = file.file();
  out.date = text_or(file, "date", "");
  out.speculator = short_speculators(file["speculator"].text());
  if (file.has("options")) {
    const ResultField options = file["options"];
    out.settings = settings_text(options);
    const double temperature = out.temperature = options["temperature"].measurement();
    out.description =
        fmt::format("{} questions, at most {} tokens an answer, {}", options["questions"].count(1),
                    options["max_tokens"].count(1),
                    temperature == 0 ? "greedy" : fmt::format("temperature {:.2f}", temperature));
  }
  for (const ResultField& tree : file["trees"].list()) {
    const bool limited = tree.has("depth");
    EvalTree& to = (limited ? out.limited : out.trees).emplace_back();
    to.nodes = tree["nodes"].count(1);
    if (limited) to.depth = tree["depth"].count(1);
    to.extra = tree["extra_tokens_per_step"].measurement();
    to.drafted = tree["drafted_per_step"].measurement();
    to.acceptance = tree["acceptance_rate"].measurement();
    for (const ResultField& depth : tree["per_depth"].list())
      to.per_depth.push_back(depth.measurement());
    if (tree.has("recall"))
      for (const ResultField& depth : tree["recall"].list())
        to.recall.push_back(depth.measurement());
    for (const auto& [category, value] : tree["by_category"].members())
      to.by_category.emplace_back(category, value.measurement());
  }
  if (out.trees.empty()) fail(ErrorCode::kCorrupt, "{} is empty", file["trees"].place());
  std::sort(out.trees.begin(), out.trees.end(),
            [](const EvalTree& a, const EvalTree& b) { return a.nodes < b.nodes; });
  for (const ResultField& bin : file["calibration"].list())
    out.calibration.push_back({bin["low"].measurement(), bin["high"].measurement(),
                               bin["count"].count(), bin["predicted"].measurement(),
                               bin["observed"].measurement()});
  if (file.has("costly")) out.costly = file["costly"].flag();
  if (file.has("ranks"))
    for (const ResultField& ranks : file["ranks"].list()) out.ranks.push_back(read_ranks(ranks));
  return out;
}

Comparison read_comparison(const ResultField& field) {
  Comparison out;
  out.title = field["title"].text();
  out.unit = field["unit"].text();
  out.note = field["note"].text();
  out.less_is_better = field["less_is_better"].flag();
  for (const ResultField& side : field["sides"].list()) {
    out.sides.push_back(side["name"].text());
    const ResultField values = side["values"];
    if (out.groups.empty())
      for (const auto& [name, unused] : values.members()) out.groups.push_back({name, {}, {}});
    for (ComparisonGroup& group : out.groups)
      group.sides.push_back(read_spread(values, group.name));
  }
  if (out.groups.empty()) fail(ErrorCode::kCorrupt, "{} is empty", field["sides"].place());
  if (!field.has("ratio")) return out;
  const ResultField ratio = field["ratio"];
  out.ratio = ratio["name"].text();
  for (ComparisonGroup& group : out.groups) group.ratio = read_spread(ratio["values"], group.name);
  return out;
}

ComparisonResult read_comparisons(const ResultField& file) {
  ComparisonResult out{text_or(file, "date", ""), {}};
  for (const ResultField& field : file["comparisons"].list())
    out.comparisons.push_back(read_comparison(field));
  if (out.comparisons.empty())
    fail(ErrorCode::kCorrupt, "{} is empty", file["comparisons"].place());
  return out;
}

}  // namespace

const DecodeRow* find_row(const DecodeResult& result, std::string_view method, int64_t batch,
                          std::string_view category) {
  for (const DecodeRow& row : result.rows)
    if (row.method == method && row.batch == batch && row.category == category) return &row;
  return nullptr;
}

std::string short_speculators(std::string_view text) {
  std::string all;
  while (true) {
    const size_t end = text.find('+');
    std::string_view one = text.substr(0, end);
    while (one.ends_with('/')) one.remove_suffix(1);
    for (const std::string_view last : {"/best", "/last"})
      if (one.ends_with(last)) one.remove_suffix(last.size());
    const size_t slash = one.rfind('/');
    all += slash == std::string_view::npos ? one : one.substr(slash + 1);
    if (end == std::string_view::npos) return all;
    all += '+';
    text.remove_prefix(end + 1);
  }
}

TrainingResult read_training(const std::string& folder) {
  TrainingResult out;
  out.file = (std::filesystem::path(folder) / "log.jsonl").string();
  const auto path = std::filesystem::path(folder).lexically_normal();
  out.name = (path.has_filename() ? path : path.parent_path()).filename().string();
  const std::string text = read_file(out.file, kMostBytes);
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string name = fmt::format("{}, line {}", out.file, ++number);
    const Json json = parse_json(std::string_view(text).substr(begin, end - begin), name);
    begin = end + 1;
    const ResultField line(name, json);
    if (!line.has("held_out")) continue;
    TrainingResult::Point& point = out.points.emplace_back();
    point.tokens = line["tokens"].count();
    for (const ResultField& head : line["held_out"].list()) {
      point.top1.push_back(head["teacher_forced_top1"].measurement());
      point.top5.push_back(head["teacher_forced_top5"].measurement());
    }
    for (const auto& [key, value] : line["acceptance"].members())
      if (key != "score") point.extra.emplace_back(key, value.measurement());
  }
  if (out.points.empty())
    fail(ErrorCode::kCorrupt, "{} holds no judgement (a line with held_out)", out.file);
  return out;
}

ResultFile read_result(const std::string& path) {
  return parse_result(read_file(path, kMostBytes), path);
}

ResultFile parse_result(std::string_view text, const std::string& name) {
  const Json json = parse_json(text, name);
  const ResultField file(name, json);
  if (file.has("results")) return {read_origin(file), read_decode(file)};
  if (file.has("cost")) return {read_origin(file), read_kernels(file)};
  if (file.has("trees")) return {read_origin(file), read_eval(file)};
  if (file.has("comparisons")) return {read_origin(file, "cores"), read_comparisons(file)};
  fail(ErrorCode::kCorrupt,
       "{} is no result of bench decode, bench kernels, eval, bench/peers or bench/serving: it has "
       "none of the keys results, cost, trees and comparisons",
       name);
}

}  // namespace clover
