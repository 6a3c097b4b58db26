// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure/report/page.h"

namespace clover {
namespace {

constexpr int64_t kFew = 50;  // candidates below which a share says little

double category_value(const EvalTree& tree, const std::string& category) {
  for (const auto& [name, value] : tree.by_category)
    if (name == category) return value;
  return kNoValue;
}

std::vector<std::string> all_categories(const std::vector<EvalResult>& results) {
  std::vector<std::string> names;
  for (const EvalResult& result : results)
    for (const EvalTree& tree : result.trees)
      for (const auto& [name, unused] : tree.by_category)
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

void add_sizes(ReportPage& page, const std::vector<EvalResult>& results) {
  page.heading(4, "Extra tokens per step by size of tree");
  LinePlot plot{.title = "Extra tokens per step by size of tree",
                .x_label = "nodes of the tree",
                .y_label = "accepted drafts per step",
                .log_x = true,
                .marks_values = true};
  std::vector<std::vector<std::string>> lines;
  for (const EvalResult& result : results) {
    PlotLine& line = plot.lines.emplace_back();
    line.name = result.speculator;
    for (const EvalTree& tree : result.trees) {
      line.points.push_back({static_cast<double>(tree.nodes), {tree.extra}});
      lines.push_back({markdown_text(result.speculator), std::to_string(tree.nodes),
                       number_text(tree.extra), number_text(1 + tree.extra),
                       number_text(tree.drafted), percent_text(tree.acceptance)});
    }
  }
  page.table({"speculator", "nodes", "extra tokens/step", "tokens/step", "drafted/step",
              "accepted of drafted"},
             lines);
  page.plot("extra-tokens-by-tree", plot.title, plot_svg(plot));
}

// Bars for each speculator with its largest tree; for a single one, for each size.
void add_categories(ReportPage& page, const std::vector<EvalResult>& results) {
  const std::vector<std::string> categories = all_categories(results);
  if (categories.empty()) return;
  page.heading(4, "Extra tokens per step by category");
  BarPlot plot{.title = "Extra tokens per step by category",
               .y_label = "accepted drafts per step",
               .groups = categories};
  std::vector<std::string> head = {"speculator", "nodes"};
  for (const std::string& category : categories) head.push_back(markdown_text(category));
  std::vector<std::vector<std::string>> lines;
  for (const EvalResult& result : results)
    for (const EvalTree& tree : result.trees) {
      std::vector<std::string>& line = lines.emplace_back();
      line = {markdown_text(result.speculator), std::to_string(tree.nodes)};
      std::vector<PlotValue> values;
      for (const std::string& category : categories) {
        values.push_back({category_value(tree, category), kNoValue, kNoValue});
        line.push_back(number_text(values.back().value));
      }
      if (results.size() == 1)
        plot.bars.push_back({fmt::format("{} nodes", tree.nodes), std::move(values)});
      else if (&tree == &result.trees.back())
        plot.bars.push_back(
            {fmt::format("{}, {} nodes", result.speculator, tree.nodes), std::move(values)});
    }
  page.table(head, lines);
  page.plot("eval-categories", plot.title, plot_svg(plot));
}

void add_depths(ReportPage& page, const std::vector<EvalResult>& results) {
  page.heading(4, "Acceptance by depth");
  page.paragraph(
      "The share of the drafted nodes of a depth that were accepted, with each speculator's "
      "largest "
      "tree. A node below a wrong one counts as wrong.");
  LinePlot plot{.title = "Accepted share of drafts by depth",
                .x_label = "depth in the tree",
                .y_label = "accepted of drafted",
                .marks_values = true};
  std::vector<std::vector<std::string>> lines;
  size_t deepest = 0;
  for (const EvalResult& result : results)
    deepest = std::max(deepest, result.trees.back().per_depth.size());
  for (const EvalResult& result : results) {
    const EvalTree& tree = result.trees.back();
    PlotLine& line = plot.lines.emplace_back();
    line.name = fmt::format("{}, {} nodes", result.speculator, tree.nodes);
    std::vector<std::string>& cells = lines.emplace_back(1, markdown_text(line.name));
    for (size_t d = 0; d < deepest; ++d) {
      const double share = d < tree.per_depth.size() ? tree.per_depth[d] : kNoValue;
      line.points.push_back({static_cast<double>(d + 1), {share, kNoValue, kNoValue}});
      cells.push_back(percent_text(share));
    }
  }
  std::vector<std::string> head = {"speculator"};
  for (size_t d = 0; d < deepest; ++d) head.push_back(std::to_string(d + 1));
  page.table(head, lines);
  page.plot("acceptance-by-depth", plot.title, plot_svg(plot));
}

void add_calibration(ReportPage& page, const std::vector<EvalResult>& results) {
  page.heading(4, "Calibration of the planner");
  LinePlot plot{.title = "What the planner predicted, and what came",
                .x_label = "predicted probability",
                .y_label = "share that was right",
                .diagonal = true};
  std::vector<std::vector<std::string>> lines;
  std::string summary;
  for (const EvalResult& result : results) {
    PlotLine& line = plot.lines.emplace_back();
    line.name = result.speculator;
    double error = 0, total = 0;
    for (const EvalBin& bin : result.calibration) {
      if (bin.count == 0) continue;
      lines.push_back({markdown_text(result.speculator),
                       fmt::format("{:.1f}–{:.1f}", bin.low, bin.high), std::to_string(bin.count),
                       number_text(bin.predicted),
                       number_text(bin.observed) + (bin.count < kFew ? " (few)" : "")});
      line.points.push_back({bin.predicted, {bin.observed, kNoValue, kNoValue}});
      if (!std::isfinite(bin.predicted) || !std::isfinite(bin.observed)) continue;
      error += static_cast<double>(bin.count) * std::abs(bin.predicted - bin.observed);
      total += static_cast<double>(bin.count);
    }
    summary += fmt::format("{}{} {}", summary.empty() ? "" : ", ", markdown_text(result.speculator),
                           total > 0 ? fmt::format("{:.3f}", error / total) : "no candidates");
  }
  page.paragraph(fmt::format(
      "Mean distance between predicted and observed, weighted by candidates: {}. Fewer than {} "
      "candidates say little and are marked.",
      summary, kFew));
  if (lines.empty()) return;
  page.table({"speculator", "predicted", "candidates", "mean", "right"}, lines);
  page.plot("calibration", plot.title, plot_svg(plot));
}

}  // namespace

void add_section(ReportPage& page, const std::vector<EvalResult>& results) {
  page.heading(3, "Quality of drafts");
  const EvalResult& first = results.front();
  page.paragraph(fmt::format(
      "Trees of fixed sizes, whatever they cost; counts, not times, so that a run gives the same "
      "figures again{}{}.",
      first.description.empty() ? "" : "; " + first.description,
      first.date.empty() ? "" : "; " + markdown_text(first.date)));
  add_sizes(page, results);
  add_categories(page, results);
  add_depths(page, results);
  add_candidate_sections(page, results);
  add_calibration(page, results);
}

}  // namespace clover
