// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure/report/page.h"

// What the papers (Clover: arXiv 2405.00263, Clover-2: arXiv 2408.00264) claim, beside what the
// results say of it. A claim that nothing was measured for is left out.
namespace clover {
namespace {

using Lines = std::vector<std::vector<std::string>>;

const EvalTree* tree_of(const std::vector<EvalResult>& evals, std::string_view speculator,
                        int64_t nodes) {
  for (const EvalResult& eval : evals)
    if (eval.speculator == speculator)
      for (const EvalTree& tree : eval.trees)
        if (tree.nodes == nodes) return &tree;
  return nullptr;
}

struct AcceptanceClaim {
  const char* text;
  const char* over;
  const char* under;
  int64_t nodes;
  double least;  // the ratio that the paper reports at least
};

// Clover-1, section 4.2; Clover-2's tables, mean of six tasks on Vicuna-7B.
constexpr AcceptanceClaim kAcceptance[] = {
    {"Clover-1 accepts 50 to 76 % more than Medusa, trees of 4", "clover1", "medusa", 4, 1.50},
    {"Clover-2 accepts 3 % more than EAGLE-1, trees of 25", "clover2", "eagle", 25, 1.03},
};

void add_acceptance(Lines& lines, const std::vector<EvalResult>& evals) {
  for (const AcceptanceClaim& claim : kAcceptance) {
    const EvalTree* over = tree_of(evals, claim.over, claim.nodes);
    const EvalTree* under = tree_of(evals, claim.under, claim.nodes);
    if (over == nullptr || under == nullptr || !(over->extra >= 0) || !(under->extra > 0)) continue;
    const double ratio = over->extra / under->extra;
    const char* verdict = ratio >= claim.least ? "as there"
                          : ratio > 1          ? "the same direction, but less"
                                               : "**contradicts it**";
    lines.push_back(
        {claim.text,
         fmt::format("{} over {} extra tokens per step: {:+.0f} %", number_text(over->extra),
                     number_text(under->extra), 100 * (ratio - 1)),
         verdict});
  }
}

// Clover-1, figure 8: the accepted length grows with the logarithm of the tree's size.
void add_tree_growth(Lines& lines, const std::vector<EvalResult>& evals) {
  const auto longest = std::max_element(
      evals.begin(), evals.end(),
      [](const EvalResult& a, const EvalResult& b) { return a.trees.size() < b.trees.size(); });
  if (longest == evals.end() || longest->trees.size() < 3) return;
  std::vector<double> gains;
  std::string text;
  for (size_t i = 1; i < longest->trees.size(); ++i) {
    const EvalTree &before = longest->trees[i - 1], &after = longest->trees[i];
    const double doublings =
        std::log2(static_cast<double>(after.nodes) / static_cast<double>(before.nodes));
    const double gain = (after.extra - before.extra) / doublings;
    if (!std::isfinite(gain)) return;
    gains.push_back(gain);
    text += fmt::format("{}{:.2f}", i == 1 ? "" : ", ", gain);
  }
  const bool falls = gains.back() < gains.front() / 2;
  lines.push_back({"accepted tokens grow with the logarithm of the tree's size (figure 8)",
                   fmt::format("{}, every doubling from {} to {} nodes brings {}",
                               markdown_text(longest->speculator), longest->trees.front().nodes,
                               longest->trees.back().nodes, text),
                   falls
                       ? "**contradicts it**: the last doubling brings less than half of the first"
                       : "as there"});
}

// Clover-1's table on 7B: 1.91 times plain decoding at 4 sequences, slower than it from 32 on.
void add_batches(Lines& lines, const std::vector<DecodeResult>& decodes) {
  constexpr int64_t kOvertaken = 32;
  std::string text;
  bool measured = false, slower = false;
  for (const DecodeResult& decode : decodes)
    for (const DecodeRow& row : decode.rows) {
      if (decode.temperature != 0 || row.method != "default" || row.category != "all" ||
          !std::isfinite(row.speedup.median))
        continue;
      text +=
          fmt::format("{}{} at {}", text.empty() ? "" : ", ", ratio_text(row.speedup), row.batch);
      if (row.batch < kOvertaken) continue;
      measured = true;
      slower = slower || verdict_of(row.speedup) == SpreadVerdict::kBelow;
    }
  if (text.empty()) return;
  lines.push_back(
      {"1.91 times plain decoding at 4 sequences, slower than it from 32 on (7B, maths)",
       "the defaults, all categories: " + text,
       !measured ? "32 sequences were not measured"
       : slower  ? "as there, although the planner may draft nothing"
                 : "**contradicts it**: not slower, since the planner drafts less"});
}

// Clover-1, figure 2: throughput against rows computed rises, peaks and falls.
void add_rows(Lines& lines, const std::vector<KernelResult>& kernels) {
  for (const KernelResult& kernel : kernels) {
    std::vector<std::pair<int64_t, double>> speeds;
    for (const KernelCost& cost : kernel.costs)
      if (cost.type == "step" && cost.ms.median > 0)
        speeds.emplace_back(cost.rows, 1e3 * static_cast<double>(cost.rows) / cost.ms.median);
    if (speeds.size() < 3) continue;
    const auto peak =
        std::max_element(speeds.begin(), speeds.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    // Five in a hundred: runs of a pass differ by as much.
    const bool falls = speeds.back().second < 0.95 * peak->second;
    lines.push_back(
        {"throughput against rows computed rises, peaks and falls (figure 2)",
         fmt::format("{} rows/s at {}, {} at {}, {} at {}", number_text(speeds.front().second),
                     speeds.front().first, number_text(peak->second), peak->first,
                     number_text(speeds.back().second), speeds.back().first),
         falls ? "as there" : "**contradicts it**: it does not fall within what was measured"});
  }
}

}  // namespace

void add_paper_section(ReportPage& page, const std::vector<DecodeResult>& decodes,
                       const std::vector<KernelResult>& kernels,
                       const std::vector<EvalResult>& evals) {
  Lines lines;
  add_acceptance(lines, evals);
  add_tree_growth(lines, evals);
  add_batches(lines, decodes);
  add_rows(lines, kernels);
  if (lines.empty()) return;
  page.heading(3, "Beside what the papers claim");
  page.paragraph(
      "The papers measured models of 7B and more on data centre GPUs, with speculators trained on "
      "150 million tokens and more; here is another model, another machine and, where speculators "
      "were trained for this report, far less training.");
  page.table({"the papers", "here", ""}, lines);
}

}  // namespace clover
