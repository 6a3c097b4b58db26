// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "measure/report/results.h"
#include "measure/report/scale_model.h"
#include "plot/plot.h"

namespace clover {

// A report under construction: Markdown, and the plots that it shows.
class ReportPage {
 public:
  void heading(int level, std::string_view text);
  void paragraph(std::string_view text);
  // Cells are written as they are; use markdown_text() for names.
  void table(const std::vector<std::string>& head,
             const std::vector<std::vector<std::string>>& rows);
  // Shows a plot under a name of its own: `name`.svg, name-2.svg, …
  void plot(const std::string& name, const std::string& title, std::string svg);

  const std::string& text() const { return text_; }
  const std::vector<std::pair<std::string, std::string>>& plots() const { return plots_; }

 private:
  std::string text_;
  std::vector<std::pair<std::string, std::string>> plots_;  // file name, SVG
  std::map<std::string, int> names_;
};

// Text from a file as plain text of Markdown.
std::string markdown_text(std::string_view text);

// Three significant digits or so; "–" for what was not measured.
std::string number_text(double value);
std::string percent_text(double share);
// "340 [309–365]"; without brackets for a single run.
std::string spread_text(const ResultSpread& spread);

// What repeats say about a ratio: whether all of them lie on one side of 1.
enum class SpreadVerdict { kAbove, kBelow, kNoise, kUnknown };
SpreadVerdict verdict_of(const ResultSpread& ratio);
// "faster", "slower", "inside the noise", "one run, spread unknown" or "not measured".
// `less_is_better`: of times and sizes, where a ratio below 1 is the faster one.
std::string verdict_text(const ResultSpread& ratio, bool less_is_better = false);
// The ratio for a table: "≈" before one that is inside the noise.
std::string ratio_text(const ResultSpread& ratio);

// Ratios of the repeats, in pairs: those of one repeat are of one moment.
ResultSpread paired_ratio(const ResultSpread& over, const ResultSpread& under);

// The sections of a report.
void add_section(ReportPage& page, const DecodeResult& result);
void add_section(ReportPage& page, const KernelResult& result);
void add_section(ReportPage& page, const ComparisonResult& result);
// Of one origin and the same settings.
void add_section(ReportPage& page, const std::vector<EvalResult>& results);
void add_section(ReportPage& page, const std::vector<TrainingResult>& runs);
// Parts of them: nothing is added where the results lack what they need.
void add_regret(ReportPage& page, const DecodeResult& result);
void add_candidate_sections(ReportPage& page, const std::vector<EvalResult>& results);
void add_paper_section(ReportPage& page, const std::vector<DecodeResult>& decodes,
                       const std::vector<KernelResult>& kernels,
                       const std::vector<EvalResult>& evals);
void add_scale_section(ReportPage& page, const KernelResult& kernels,
                       const std::vector<DecodeResult>& decodes,
                       const std::vector<EvalResult>& evals,
                       const std::vector<ScaleDevice>& devices);

}  // namespace clover
