// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "measure/report/page.h"

namespace clover {

void add_section(ReportPage& page, const PeerResult& result) {
  page.heading(3, "Against another program");
  page.paragraph(fmt::format("Tokens per second on one model file, {} {}, {} tokens an answer{}{}.",
                             result.repeats, result.repeats == 1 ? "run" : "runs interleaved",
                             result.tokens,
                             result.package.empty() ? "" : "; " + markdown_text(result.package),
                             result.date.empty() ? "" : "; " + markdown_text(result.date)));
  BarPlot plot{.title = "Tokens per second, Clover and another program",
               .y_label = "tokens per second"};
  std::vector<std::string> head = {"measure"};
  bool ratios = false;
  for (size_t s = 0; s < result.sides.size(); ++s) {
    head.push_back(markdown_text(result.sides[s]));
    plot.bars.push_back({result.sides[s], {}});
  }
  for (const PeerMeasure& measure : result.measures) ratios = ratios || measure.ratio.runs > 0;
  if (ratios) head.insert(head.end(), {"ratio", ""});
  std::vector<std::vector<std::string>> lines;
  for (const PeerMeasure& measure : result.measures) {
    std::vector<std::string>& line = lines.emplace_back(1, markdown_text(measure.name));
    plot.groups.push_back(measure.name);
    for (size_t s = 0; s < result.sides.size(); ++s) {
      line.push_back(spread_text(measure.sides[s]));
      plot.bars[s].values.push_back(measure.sides[s].plot());
    }
    if (ratios) {
      line.push_back(ratio_text(measure.ratio));
      line.push_back(verdict_text(measure.ratio));
    }
  }
  page.table(head, lines);
  page.plot("peers", plot.title, plot_svg(plot));
}

}  // namespace clover
