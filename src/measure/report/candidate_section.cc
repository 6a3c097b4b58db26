// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "measure/report/page.h"

namespace clover {
namespace {

constexpr int64_t kFew = 30;  // cases below which a share is marked
constexpr int64_t kAnyRank = 1 << 20;

double share_of(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : kNoValue;
}

// Cases of a depth, of nodes of ranks in [first, last].
struct Cases {
  int64_t asked = 0;
  std::vector<int64_t> at_rank;

  void add(int64_t more_asked, const std::vector<int64_t>& more_at_rank) {
    asked += more_asked;
    at_rank.resize(std::max(at_rank.size(), more_at_rank.size()));
    for (size_t i = 0; i < more_at_rank.size(); ++i) at_rank[i] += more_at_rank[i];
  }
  double top(size_t k) const {
    int64_t right = 0;
    for (size_t i = 0; i < std::min(k, at_rank.size()); ++i) right += at_rank[i];
    return share_of(right, asked);
  }
  std::string text(size_t k) const {
    return percent_text(top(k)) + (asked > 0 && asked < kFew ? " (few)" : "");
  }
};

Cases cases_of(const EvalResult& eval, int64_t depth, int64_t first, int64_t last) {
  Cases cases;
  for (const EvalRanks& ranks : eval.ranks) {
    if (ranks.depth != depth || ranks.parent_rank < first || ranks.parent_rank > last) continue;
    cases.add(ranks.asked, ranks.at_rank);
  }
  return cases;
}

int64_t deepest_of(const EvalResult& eval) {
  int64_t depth = 0;
  for (const EvalRanks& ranks : eval.ranks) depth = std::max(depth, ranks.depth);
  return depth;
}

void add_candidates(ReportPage& page, const std::vector<EvalResult>& results) {
  page.heading(4, "Where the token that came stood among the candidates");
  page.paragraph(fmt::format(
      "With each speculator's largest tree, below nodes that were right: the share of cases in "
      "which it was the likeliest candidate, among the first two, five, and all. Depth d is what "
      "Clover's papers call head d. Fewer than {} cases are marked.",
      kFew));
  LinePlot plot{.title = "The token that came was among the five likeliest candidates",
                .x_label = "depth in the tree",
                .y_label = "share of cases",
                .marks_values = true};
  std::vector<std::vector<std::string>> lines;
  for (const EvalResult& eval : results) {
    PlotLine& line = plot.lines.emplace_back();
    line.name = eval.speculator;
    for (int64_t depth = 1; depth <= deepest_of(eval); ++depth) {
      const Cases cases = cases_of(eval, depth, 1, kAnyRank);
      lines.push_back({markdown_text(eval.speculator), std::to_string(depth),
                       std::to_string(cases.asked), cases.text(1), cases.text(2), cases.text(5),
                       cases.text(kAnyRank)});
      if (cases.asked >= kFew) line.points.push_back({static_cast<double>(depth), {cases.top(5)}});
    }
  }
  page.table({"speculator", "depth", "cases", "first", "first 2", "first 5", "any"}, lines);
  page.plot("top-five", plot.title, plot_svg(plot));
}

void add_propagation(ReportPage& page, const std::vector<EvalResult>& results) {
  page.heading(4, "Error propagation");
  page.paragraph(
      "How often the next token is a candidate, by the rank of the accepted node before it: what a "
      "speculator makes of a path that was not its first choice.");
  BarPlot plot{.title = "The next token was the likeliest candidate, by rank of the node before",
               .y_label = "share of cases",
               .groups = {"rank 1", "rank 2", "rank 3", "rank 4 and on"}};
  constexpr std::pair<int64_t, int64_t> kGroups[] = {{1, 1}, {2, 2}, {3, 3}, {4, kAnyRank}};
  std::vector<std::vector<std::string>> lines;
  for (const EvalResult& eval : results) {
    PlotBars bars{eval.speculator, {}};
    std::vector<Cases> sums(std::size(kGroups));
    for (int64_t depth = 2; depth <= deepest_of(eval); ++depth)
      for (size_t g = 0; g < std::size(kGroups); ++g) {
        const Cases cases = cases_of(eval, depth, kGroups[g].first, kGroups[g].second);
        if (cases.asked == 0) continue;
        lines.push_back({markdown_text(eval.speculator), std::to_string(depth), plot.groups[g],
                         std::to_string(cases.asked), cases.text(1), cases.text(kAnyRank)});
        sums[g].add(cases.asked, cases.at_rank);
      }
    for (const Cases& cases : sums)
      bars.values.push_back({cases.asked < kFew ? kNoValue : cases.top(1)});
    plot.bars.push_back(std::move(bars));
  }
  if (lines.empty()) return;
  page.table(
      {"speculator", "depth", "node before", "cases", "likeliest candidate", "any candidate"},
      lines);
  page.plot("error-propagation", plot.title, plot_svg(plot));
}

void add_recall(ReportPage& page, const std::vector<EvalResult>& results) {
  constexpr size_t kDepths = 5;
  page.heading(4, "Recall of trees");
  page.paragraph(
      "The share of the steps whose tree of k nodes held the first, the first two, … tokens that "
      "came, and what a node brings: accepted drafts for each that was checked.");
  LinePlot plot{.title = "Steps whose tree held the next two tokens",
                .x_label = "nodes of the tree",
                .y_label = "share of steps",
                .log_x = true,
                .marks_values = true};
  std::vector<std::vector<std::string>> lines;
  for (const EvalResult& eval : results) {
    PlotLine& line = plot.lines.emplace_back();
    line.name = eval.speculator;
    for (const EvalTree& tree : eval.trees) {
      std::vector<std::string>& cells = lines.emplace_back();
      cells = {markdown_text(eval.speculator), std::to_string(tree.nodes)};
      for (size_t d = 0; d < kDepths; ++d)
        cells.push_back(d < tree.recall.size() ? percent_text(tree.recall[d]) : "–");
      cells.push_back(number_text(tree.acceptance));
      if (tree.recall.size() > 1)
        line.points.push_back({static_cast<double>(tree.nodes), {tree.recall[1]}});
    }
  }
  page.table({"speculator", "nodes", "1 token", "2", "3", "4", "5", "accepted a node"}, lines);
  page.plot("recall", plot.title, plot_svg(plot));
}

// Trees with drafts of limited depth: as many heads as that.
void add_heads(ReportPage& page, const std::vector<EvalResult>& results) {
  for (const EvalResult& eval : results) {
    if (eval.limited.empty()) continue;
    std::map<int64_t, std::map<int64_t, double>> extra;  // by depth, nodes
    std::vector<int64_t> sizes;
    for (const EvalTree& tree : eval.limited) {
      extra[tree.depth][tree.nodes] = tree.extra;
      if (std::find(sizes.begin(), sizes.end(), tree.nodes) == sizes.end())
        sizes.push_back(tree.nodes);
    }
    std::sort(sizes.begin(), sizes.end());
    page.heading(4, "Extra tokens per step by depth and size: " + markdown_text(eval.speculator));
    LinePlot plot{.title = "Extra tokens per step by depth and size, " + eval.speculator,
                  .x_label = "deepest draft (heads)",
                  .y_label = "accepted drafts per step",
                  .marks_values = true};
    std::vector<std::string> head = {"deepest draft"};
    for (const int64_t size : sizes) {
      head.push_back(fmt::format("{} nodes", size));
      plot.lines.push_back({fmt::format("{} nodes", size)});
    }
    std::vector<std::vector<std::string>> lines;
    for (const auto& [depth, by_size] : extra) {
      std::vector<std::string>& line = lines.emplace_back(1, std::to_string(depth));
      for (size_t i = 0; i < sizes.size(); ++i) {
        const auto found = by_size.find(sizes[i]);
        const double value = found == by_size.end() ? kNoValue : found->second;
        line.push_back(number_text(value));
        plot.lines[i].points.push_back({static_cast<double>(depth), {value}});
      }
    }
    page.table(head, lines);
    page.plot("heads", plot.title, plot_svg(plot));
  }
}

// The eight combinations of Clover-1's components: which of regressive connection (r), attention
// decoder (a) and augmenting block (b) a package has.
constexpr const char* kCombinations[] = {"0", "r", "a", "ra", "b", "rb", "ab", "rab"};

const EvalResult* combination(const std::vector<EvalResult>& results, size_t set) {
  for (const EvalResult& eval : results)
    if (eval.speculator == std::string("combo-") + kCombinations[set] && !eval.trees.empty())
      return &eval;
  return nullptr;
}

// The effect of the components in `set` in a full factorial design of two levels: half the
// contrast's mean, so that an interaction says how much the effect of one differs with the other.
double factorial_effect(const std::array<double, 8>& values, size_t set) {
  double sum = 0;
  for (size_t run = 0; run < values.size(); ++run) {
    int sign = 1;
    for (size_t bit = 0; bit < 3; ++bit)
      if ((set >> bit & 1) != 0 && (run >> bit & 1) == 0) sign = -sign;
    sum += sign * values[run];
  }
  return sum / 4;
}

void add_combinations(ReportPage& page, const std::vector<EvalResult>& results) {
  std::array<double, 8> extra{};
  std::array<double, 8> top5{};
  std::vector<std::vector<std::string>> lines;
  for (size_t set = 0; set < 8; ++set) {
    const EvalResult* eval = combination(results, set);
    if (eval == nullptr) return;
    extra[set] = eval->trees.back().extra;
    top5[set] = cases_of(*eval, 1, 1, kAnyRank).top(5);
    const auto yes = [&](size_t bit) { return (set >> bit & 1) != 0 ? "yes" : "–"; };
    lines.push_back({yes(0), yes(1), yes(2), number_text(extra[set]), percent_text(top5[set]),
                     percent_text(cases_of(*eval, 2, 1, kAnyRank).top(5))});
  }
  page.heading(4, "All eight combinations of Clover-1's components");
  page.table(
      {"regressive connection", "attention decoder", "augmenting block",
       fmt::format("extra tokens/step, {} nodes", combination(results, 0)->trees.back().nodes),
       "first 5, head 1", "first 5, head 2"},
      lines);
  std::string text;
  constexpr const char* kNames[] = {"",
                                    "regressive connection",
                                    "attention decoder",
                                    "regressive × attention",
                                    "augmenting block",
                                    "regressive × block",
                                    "attention × block",
                                    "all three"};
  for (size_t set = 1; set < 8; ++set)
    text +=
        fmt::format("{}{} {:+.2f}", set > 1 ? ", " : "", kNames[set], factorial_effect(extra, set));
  page.paragraph(fmt::format(
      "Effects on the extra tokens per step, and (×) interactions: {}. One training run each, so "
      "small effects may be chance.",
      text));
}

}  // namespace

void add_candidate_sections(ReportPage& page, const std::vector<EvalResult>& results) {
  std::vector<EvalResult> ranked;
  for (const EvalResult& eval : results)
    if (!eval.ranks.empty()) ranked.push_back(eval);
  if (!ranked.empty()) {
    add_recall(page, ranked);
    add_candidates(page, ranked);
    add_propagation(page, ranked);
  }
  add_heads(page, results);
  add_combinations(page, results);
}

}  // namespace clover
