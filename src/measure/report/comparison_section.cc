// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "measure/report/page.h"

namespace clover {
namespace {

void add_comparison(ReportPage& page, const Comparison& comparison, const std::string& date) {
  page.heading(3, markdown_text(comparison.title));
  std::string note = markdown_text(comparison.note);
  if (!date.empty()) note += (note.empty() ? "" : " ") + fmt::format("Of {}.", markdown_text(date));
  if (!note.empty()) page.paragraph(note);
  BarPlot plot{.title = comparison.title, .y_label = comparison.unit};
  std::vector<std::string> head = {markdown_text(comparison.unit)};
  for (const std::string& side : comparison.sides) {
    head.push_back(markdown_text(side));
    plot.bars.push_back({side, {}});
  }
  if (!comparison.ratio.empty()) head.insert(head.end(), {markdown_text(comparison.ratio), ""});
  std::vector<std::vector<std::string>> lines;
  for (const ComparisonGroup& group : comparison.groups) {
    std::vector<std::string>& line = lines.emplace_back(1, markdown_text(group.name));
    plot.groups.push_back(group.name);
    for (size_t s = 0; s < comparison.sides.size(); ++s) {
      line.push_back(spread_text(group.sides[s]));
      plot.bars[s].values.push_back(group.sides[s].plot());
    }
    if (comparison.ratio.empty()) continue;
    line.push_back(ratio_text(group.ratio));
    line.push_back(verdict_text(group.ratio, comparison.less_is_better));
  }
  page.plot("comparison", plot.title, plot_svg(plot));
  page.table(head, lines);
}

}  // namespace

void add_section(ReportPage& page, const ComparisonResult& result) {
  std::string date = result.date;
  for (const Comparison& comparison : result.comparisons) {
    add_comparison(page, comparison, date);
    date.clear();  // once is enough
  }
}

}  // namespace clover
