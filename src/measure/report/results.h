// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "measure/report/result_field.h"
#include "plot/plot.h"

namespace clover {

// What the benchmarks wrote, read back and checked. Values that were not measured are kNoValue.

// Where figures come from. Only figures of one origin may stand in one table.
struct ResultOrigin {
  std::string cpu;
  std::string isa;  // "" where the file doesn't say
  int64_t threads = 0;
  std::string model;
  std::string sha256;
  std::string commit;  // "unknown" where the file doesn't say
  bool operator==(const ResultOrigin&) const = default;
};

// Median, least and most of repeats.
struct ResultSpread {
  double median = kNoValue;
  double low = kNoValue;
  double high = kNoValue;
  int64_t runs = 0;
  std::vector<double> values = {};  // of the repeats, in their order

  PlotValue plot() const { return {median, runs > 1 ? low : kNoValue, runs > 1 ? high : kNoValue}; }
};

struct ResultTail {
  double p50 = kNoValue;
  double p95 = kNoValue;
  double p99 = kNoValue;
};

struct DecodeRow {
  std::string method;
  int64_t batch = 1;
  std::string category;
  ResultSpread speed;                       // tokens per second
  ResultSpread speedup;                     // over none
  double extra = kNoValue;                  // accepted drafts per step
  double drafted = kNoValue;                // per step
  ResultTail ttft, tpot;                    // ms
  ResultTail draft, verify, sample, other;  // ms of a step
  bool same_text = true;
};

// The rows of one or several runs of `bench decode` with the same settings.
struct DecodeResult {
  std::vector<std::string> files;
  std::string date;
  std::string settings;  // the options as the file has them; equal for rows of one table
  int64_t repeats = 0;
  int64_t max_tokens = 0;
  int64_t questions = 0;
  double temperature = 0;
  std::vector<DecodeRow> rows;
};

// The first row of a method, batch and category; null where nothing was measured.
const DecodeRow* find_row(const DecodeResult& result, std::string_view method, int64_t batch,
                          std::string_view category);

struct KernelCost {
  std::string type;
  int64_t rows = 1;
  ResultSpread ms;
  double ratio = kNoValue;  // to one row
  double read_share = kNoValue;
  double mac_share = kNoValue;
  double gbytes = kNoValue;  // read per second
  double gmacs = kNoValue;   // multiplied per second
};

struct KernelResult {
  std::string file;
  std::string date;
  double read_peak = kNoValue;  // GB/s
  double int8_peak = kNoValue;  // GMAC/s
  std::vector<KernelCost> costs;
};

struct EvalTree {
  int64_t nodes = 1;
  int64_t depth = 0;  // of its deepest draft; 0: no limit
  double extra = kNoValue;
  double drafted = kNoValue;
  double acceptance = kNoValue;
  std::vector<double> per_depth;
  std::vector<double> recall;  // share of the steps whose tree held the first d + 1 tokens
  std::vector<std::pair<std::string, double>> by_category;
};

struct EvalBin {
  double low = 0;
  double high = 0;
  int64_t count = 0;
  double predicted = kNoValue;
  double observed = kNoValue;
};

// Where the token that came stood among the candidates of a depth.
struct EvalRanks {
  int64_t depth = 1;
  int64_t parent_rank = 1;  // of the node before it
  int64_t asked = 0;
  std::vector<int64_t> at_rank;  // [0]: the likeliest
};

struct EvalResult {
  std::string file;
  std::string date;
  std::string speculator;
  std::string settings;     // as DecodeResult's; "" in files that lack them
  std::string description;  // the settings for readers
  double temperature = 0;
  bool costly = false;          // drafting computes passes of its own
  std::vector<EvalTree> trees;  // without a limit of depth, by size
  std::vector<EvalTree> limited;
  std::vector<EvalBin> calibration;
  std::vector<EvalRanks> ranks;
};

// One quantity of several programs or settings (sides), in groups: of measures, categories, numbers
// of clients.
struct ComparisonGroup {
  std::string name;
  std::vector<ResultSpread> sides;  // as Comparison::sides
  ResultSpread ratio;               // of two sides, in the pairs of their runs
};

struct Comparison {
  std::string title;
  std::string unit;
  std::string note;   // a paragraph for readers; "" for none
  std::string ratio;  // what over what; "" for none
  bool less_is_better = false;
  std::vector<std::string> sides;
  std::vector<ComparisonGroup> groups;
};

struct ComparisonResult {
  std::string date;
  std::vector<Comparison> comparisons;
};

// The judgements of a run of `clover train`, from the log of its folder.
struct TrainingResult {
  struct Point {
    int64_t tokens = 0;                                 // of answers, presented
    std::vector<double> top1, top5;                     // of the heads, all earlier tokens given
    std::vector<std::pair<std::string, double>> extra;  // accepted drafts per step, by what drafted
  };
  std::string file;
  std::string name;  // of the folder
  std::vector<Point> points;
};

struct ResultFile {
  ResultOrigin origin;  // empty for a TrainingResult: it holds counts alone
  std::variant<DecodeResult, KernelResult, EvalResult, ComparisonResult, TrainingResult> content;
};

// Reads a result file of `bench decode`, `bench kernels`, `eval`, bench/peers or bench/serving.
// Error(kNotFound); Error(kCorrupt) naming the file and, if it is JSON, the key.
ResultFile read_result(const std::string& path);
// The same from text; `name` stands for the file in errors.
ResultFile parse_result(std::string_view text, const std::string& name);
// The log (log.jsonl) of a training run. Errors as read_result(), with the line.
TrainingResult read_training(const std::string& folder);

// Speculators joined by "+" without the folders that packages lie in: "runs/medusa/best+ngram" is
// "medusa+ngram".
std::string short_speculators(std::string_view text);

}  // namespace clover
