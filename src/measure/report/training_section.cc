// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "measure/report/page.h"

namespace clover {
namespace {

std::vector<std::string> all_measures(const std::vector<TrainingResult>& runs) {
  std::vector<std::string> names;
  for (const TrainingResult& run : runs)
    for (const TrainingResult::Point& point : run.points)
      for (const auto& [name, unused] : point.extra)
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

double measure_of(const TrainingResult::Point& point, const std::string& name) {
  for (const auto& [key, value] : point.extra)
    if (key == name) return value;
  return kNoValue;
}

std::string heads_text(const std::vector<double>& shares) {
  std::string text;
  for (const double share : shares)
    text += fmt::format("{}{}", text.empty() ? "" : " ", percent_text(share));
  return text;
}

}  // namespace

void add_section(ReportPage& page, const std::vector<TrainingResult>& runs) {
  page.heading(2, "Training");
  page.paragraph(
      "Judgements of `clover train` on prompts kept from training: accepted drafts per step of "
      "real decoding, and each head's share of right first choices and of first fives with all "
      "earlier tokens given. Counts, not times.");
  const std::vector<std::string> measures = all_measures(runs);
  std::vector<std::string> head = {"run", "tokens seen"};
  for (const std::string& name : measures) head.push_back(markdown_text(name));
  head.insert(head.end(), {"heads' first choices", "heads' first fives"});
  std::vector<std::vector<std::string>> lines;
  for (const TrainingResult& run : runs)
    for (const TrainingResult::Point& point : run.points) {
      std::vector<std::string>& line = lines.emplace_back();
      line = {markdown_text(run.name), std::to_string(point.tokens)};
      for (const std::string& name : measures) line.push_back(number_text(measure_of(point, name)));
      line.push_back(heads_text(point.top1));
      line.push_back(heads_text(point.top5));
    }
  page.table(head, lines);
  for (const std::string& name : measures) {
    LinePlot plot{.title = "Extra tokens per step by tokens seen in training: " + name,
                  .x_label = "millions of tokens",
                  .y_label = "accepted drafts per step"};
    for (const TrainingResult& run : runs) {
      PlotLine& line = plot.lines.emplace_back();
      line.name = run.name;
      for (const TrainingResult::Point& point : run.points)
        line.points.push_back({static_cast<double>(point.tokens) / 1e6, {measure_of(point, name)}});
    }
    page.plot("training", plot.title, plot_svg(plot));
  }
}

}  // namespace clover
