// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure/report/page.h"
#include "measure/spread.h"

namespace clover {
namespace {

// Of one method: its planned trees, and everything that is fixed, none among it.
struct Choice {
  const DecodeRow* planned = nullptr;
  std::vector<const DecodeRow*> fixed;
};

Choice choices(const DecodeResult& result, const std::string& method, int64_t batch,
               const std::string& category) {
  Choice choice;
  for (const DecodeRow& row : result.rows) {
    if (row.batch != batch || row.category != category || !(row.speed.median > 0)) continue;
    if (row.method == method) choice.planned = &row;
    if (row.method == "none" || row.method.starts_with(method + "@")) choice.fixed.push_back(&row);
  }
  return choice;
}

const DecodeRow* best_of(const std::vector<const DecodeRow*>& rows) {
  return *std::max_element(rows.begin(), rows.end(), [](const DecodeRow* a, const DecodeRow* b) {
    return a->speed.median < b->speed.median;
  });
}

std::vector<std::string> planned_methods(const DecodeResult& result) {
  std::vector<std::string> methods;
  for (const DecodeRow& row : result.rows) {
    const bool fixed = row.method.find('@') != std::string::npos || row.method == "none";
    if (!fixed && std::find(methods.begin(), methods.end(), row.method) == methods.end())
      methods.push_back(row.method);
  }
  return methods;
}

}  // namespace

ResultSpread paired_ratio(const ResultSpread& over, const ResultSpread& under) {
  ResultSpread ratio;
  for (size_t i = 0; i < std::min(over.values.size(), under.values.size()); ++i)
    if (over.values[i] > 0 && under.values[i] > 0)
      ratio.values.push_back(over.values[i] / under.values[i]);
  ratio.runs = std::ssize(ratio.values);
  if (ratio.values.empty()) return ratio;
  ratio.median = quantile(ratio.values, 0.5);
  ratio.low = quantile(ratio.values, 0);
  ratio.high = quantile(ratio.values, 1);
  return ratio;
}

void add_regret(ReportPage& page, const DecodeResult& result) {
  std::vector<std::vector<std::string>> lines;
  std::string summary;
  for (const std::string& method : planned_methods(result)) {
    std::vector<double> ratios;
    for (const DecodeRow& row : result.rows) {
      if (row.method != method) continue;
      const Choice choice = choices(result, method, row.batch, row.category);
      if (choice.planned == nullptr || choice.fixed.size() < 3) continue;
      const DecodeRow& best = *best_of(choice.fixed);
      const ResultSpread ratio = paired_ratio(choice.planned->speed, best.speed);
      lines.push_back({markdown_text(method), std::to_string(row.batch),
                       markdown_text(row.category), markdown_text(best.method),
                       spread_text(best.speed), spread_text(choice.planned->speed),
                       ratio_text(ratio), verdict_text(ratio)});
      if (ratio.median > 0) ratios.push_back(ratio.median);
    }
    if (ratios.empty()) continue;
    double sum = 0;
    for (const double ratio : ratios) sum += ratio;
    const auto worst = *std::min_element(ratios.begin(), ratios.end());
    summary +=
        fmt::format(" {}: {} of the best in the mean, {} at worst.", markdown_text(method),
                    number_text(sum / static_cast<double>(ratios.size())), number_text(worst));
  }
  if (lines.empty()) return;
  page.heading(4, "The planner against the best fixed setting");
  page.paragraph(
      "For every batch and category, the fastest of the fixed settings (none among them) was "
      "picked afterwards, by its median: a choice that nobody has beforehand, and that noise "
      "favours." +
      summary);
  page.table({"method", "batch", "category", "best fixed", "its tokens/s", "planner's tokens/s",
              "planner over best", ""},
             lines);
}

}  // namespace clover
