// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "measure/report/page.h"

namespace clover {
namespace {

// Rows per second from the time of a pass; the spread turns round.
PlotValue rows_per_second(const KernelCost& cost) {
  const PlotValue ms = cost.ms.plot();
  const double work = 1000.0 * static_cast<double>(cost.rows);
  const auto speed = [&](double time) { return time > 0 ? work / time : kNoValue; };
  return {speed(ms.value), speed(ms.high), speed(ms.low)};
}

std::string bound_text(const KernelCost& cost) {
  if (!std::isfinite(cost.read_share) || !std::isfinite(cost.mac_share)) return "–";
  return cost.read_share >= cost.mac_share ? "memory" : "computation";
}

// Where the weights' bytes stop to be what a pass waits for, and where more rows gain nothing.
std::string turning_text(const std::vector<const KernelCost*>& steps) {
  std::string text;
  const auto turn = std::find_if(steps.begin(), steps.end(), [](const KernelCost* cost) {
    return cost->mac_share > cost->read_share;
  });
  if (turn == steps.end())
    text =
        "A step is nearer to the memory's limit than to the arithmetic's at every number of rows.";
  else if (turn == steps.begin())
    text =
        "A step is nearer to the arithmetic's limit than to the memory's at every number of rows.";
  else
    text = fmt::format(
        "A step is nearer to the memory's limit up to {} rows, and to the arithmetic's from {} on.",
        (*std::prev(turn))->rows, (*turn)->rows);
  const auto faster = [](const KernelCost* a, const KernelCost* b) {
    const double x = rows_per_second(*a).value, y = rows_per_second(*b).value;
    return !std::isfinite(x) || (std::isfinite(y) && x < y);
  };
  const KernelCost& best = **std::max_element(steps.begin(), steps.end(), faster);
  const PlotValue peak = rows_per_second(best);
  if (!std::isfinite(peak.value)) return text;
  text += fmt::format(" Most rows per second: {} at {} rows", number_text(peak.value), best.rows);
  std::string equals;
  for (const KernelCost* cost : steps) {
    const PlotValue speed = rows_per_second(*cost);
    if (cost == &best || !(speed.high >= peak.low)) continue;
    equals += fmt::format("{}{}", equals.empty() ? "" : ", ", cost->rows);
  }
  if (!equals.empty()) text += fmt::format("; inside the noise of it: {} rows", equals);
  return text + ".";
}

}  // namespace

void add_section(ReportPage& page, const KernelResult& result) {
  page.heading(3, "Throughput against rows computed");
  page.paragraph(fmt::format(
      "One pass over 1 to n rows{}. The machine reads {} GB/s and multiplies {} GMAC/s in 8 bits.",
      result.date.empty() ? "" : ", " + markdown_text(result.date), number_text(result.read_peak),
      number_text(result.int8_peak)));
  LinePlot plot{.title = "Throughput against rows computed",
                .x_label = "rows of a pass",
                .y_label = "rows per second",
                .log_x = true,
                .marks_values = true};
  std::vector<std::vector<std::string>> lines;
  std::vector<const KernelCost*> steps;
  std::map<std::string, size_t> line_of;
  int64_t runs = 0;
  for (const KernelCost& cost : result.costs) {
    runs = std::max(runs, cost.ms.runs);
    const PlotValue speed = rows_per_second(cost);
    lines.push_back({markdown_text(cost.type), std::to_string(cost.rows), spread_text(cost.ms),
                     number_text(cost.ratio), number_text(speed.value),
                     percent_text(cost.read_share), percent_text(cost.mac_share),
                     bound_text(cost)});
    // Single weight types are parts of a pass: their rows per second say little beside its.
    if (cost.type != "step" && cost.type != "matmuls") continue;
    if (cost.type == "step") steps.push_back(&cost);
    const auto [at, added] = line_of.try_emplace(cost.type, plot.lines.size());
    if (added)
      plot.lines.push_back({cost.type == "step" ? "whole step" : "its matrices alone", {}});
    plot.lines[at->second].points.push_back({static_cast<double>(cost.rows), speed});
  }
  if (!steps.empty()) page.paragraph(turning_text(steps));
  if (runs < 2) page.paragraph("One run has no spread: differences may be noise.");
  page.plot("rows", plot.title, plot_svg(plot));
  page.table({"what", "rows", "ms", "over one row", "rows/s", "of read peak", "of MAC peak",
              "nearer to the limit of"},
             lines);
}

}  // namespace clover
