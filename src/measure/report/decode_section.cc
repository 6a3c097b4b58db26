// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure/report/page.h"

namespace clover {
namespace {

// The rows of a result, found by method, batch and category.
class DecodeTable {
 public:
  explicit DecodeTable(const DecodeResult& result) : result_(result) {
    for (const DecodeRow& row : result.rows) {
      add(methods, row.method);
      add(batches, row.batch);
      if (row.category != "all") add(categories, row.category);
    }
    std::sort(batches.begin(), batches.end());
  }

  // Null where nothing was measured.
  const DecodeRow* find(const std::string& method, int64_t batch,
                        const std::string& category) const {
    return find_row(result_, method, batch, category);
  }
  // Without it the file's speed-ups are over the method itself and mean nothing.
  bool has_baseline() const {
    return std::find(methods.begin(), methods.end(), "none") != methods.end();
  }

  std::vector<std::string> methods;
  std::vector<int64_t> batches;
  std::vector<std::string> categories;

 private:
  template <typename T>
  static void add(std::vector<T>& to, const T& value) {
    if (std::find(to.begin(), to.end(), value) == to.end()) to.push_back(value);
  }
  const DecodeResult& result_;
};

std::vector<std::string> batch_head(const DecodeTable& table) {
  std::vector<std::string> head = {"method"};
  for (const int64_t batch : table.batches) head.push_back(fmt::format("batch {}", batch));
  return head;
}

// One line a method, one column a batch, for all categories together.
void add_batch_table(ReportPage& page, const DecodeTable& table,
                     const std::vector<std::string>& methods,
                     std::string (*cell)(const DecodeRow&)) {
  std::vector<std::vector<std::string>> lines;
  for (const std::string& method : methods) {
    std::vector<std::string>& line = lines.emplace_back(1, markdown_text(method));
    for (const int64_t batch : table.batches) {
      const DecodeRow* row = table.find(method, batch, "all");
      line.push_back(row == nullptr ? "–" : cell(*row));
    }
  }
  page.table(batch_head(table), lines);
}

LinePlot batch_plot(const DecodeTable& table, const std::vector<std::string>& methods,
                    PlotValue (*value)(const DecodeRow&)) {
  LinePlot plot{.x_label = "sequences at once", .log_x = true, .marks_values = true};
  for (const std::string& method : methods) {
    PlotLine& line = plot.lines.emplace_back();
    line.name = method;
    for (const int64_t batch : table.batches)
      if (const DecodeRow* row = table.find(method, batch, "all"))
        line.points.push_back({static_cast<double>(batch), value(*row)});
  }
  return plot;
}

void show(ReportPage& page, const std::string& name, LinePlot plot, const std::string& title,
          const std::string& y_label) {
  plot.title = title;
  plot.y_label = y_label;
  page.plot(name, title, plot_svg(plot));
}

void add_verdicts(ReportPage& page, const DecodeTable& table) {
  for (const int64_t batch : table.batches) {
    std::string text;
    for (const std::string& method : table.methods) {
      const DecodeRow* row = table.find(method, batch, "all");
      if (method == "none" || row == nullptr) continue;
      text += fmt::format("{}{} {} ({})", text.empty() ? "" : "; ", markdown_text(method),
                          spread_text(row->speedup), verdict_text(row->speedup));
    }
    if (!text.empty()) page.paragraph(fmt::format("Over none with {} at once: {}.", batch, text));
  }
}

void add_throughput(ReportPage& page, const DecodeTable& table) {
  page.heading(4, "Tokens per second, all sequences together");
  add_batch_table(page, table, table.methods,
                  [](const DecodeRow& row) { return spread_text(row.speed); });
  show(page, "throughput",
       batch_plot(table, table.methods, [](const DecodeRow& row) { return row.speed.plot(); }),
       "Throughput by batch and method", "tokens per second");
  if (!table.has_baseline()) {
    page.paragraph("The method none was not measured, so there is no speed-up to tell.");
    return;
  }
  std::vector<std::string> others = table.methods;
  std::erase(others, "none");
  if (others.empty()) return;
  page.heading(4, "Speed-up over none");
  add_batch_table(page, table, others,
                  [](const DecodeRow& row) { return ratio_text(row.speedup); });
  LinePlot plot =
      batch_plot(table, table.methods, [](const DecodeRow& row) { return row.speedup.plot(); });
  plot.level = 1;
  show(page, "speedup", std::move(plot), "Speed-up over none by batch and method", "ratio");
  add_verdicts(page, table);
}

void add_categories(ReportPage& page, const DecodeTable& table) {
  if (table.categories.empty()) return;
  const bool ratios = table.has_baseline() && table.methods.size() > 1;
  page.heading(4, ratios ? "Speed-up by category" : "Tokens per second by category");
  for (const int64_t batch : table.batches) {
    std::vector<std::string> head = {fmt::format("batch {}", batch)};
    for (const std::string& method : table.methods)
      if (!ratios || method != "none") head.push_back(markdown_text(method));
    std::vector<std::vector<std::string>> lines;
    bool any = false;
    for (const std::string& category : table.categories) {
      std::vector<std::string>& line = lines.emplace_back(1, markdown_text(category));
      for (const std::string& method : table.methods) {
        if (ratios && method == "none") continue;
        const DecodeRow* row = table.find(method, batch, category);
        any = any || row != nullptr;
        line.push_back(row == nullptr ? "–"
                       : ratios       ? ratio_text(row->speedup)
                                      : spread_text(row->speed));
      }
    }
    if (any) page.table(head, lines);
  }
}

// Accepted drafts per step at the smallest batch, which has the most tokens to spare.
void add_extra_tokens(ReportPage& page, const DecodeTable& table) {
  const int64_t batch = table.batches.front();
  std::vector<std::string> groups = table.categories;
  groups.emplace_back("all");
  BarPlot plot{.title = fmt::format("Extra tokens per step by category, batch {}", batch),
               .y_label = "accepted drafts per step"};
  std::vector<std::vector<std::string>> lines;
  for (const std::string& method : table.methods) {
    if (method == "none") continue;
    PlotBars& bars = plot.bars.emplace_back();
    bars.name = method;
    std::vector<std::string>& line = lines.emplace_back(1, markdown_text(method));
    for (const std::string& group : groups) {
      const DecodeRow* row = table.find(method, batch, group);
      bars.values.push_back({row == nullptr ? kNoValue : row->extra, kNoValue, kNoValue});
      line.push_back(number_text(bars.values.back().value));
    }
  }
  if (lines.empty()) return;
  page.heading(4, fmt::format("Extra tokens per step, batch {}", batch));
  std::vector<std::string> head = {"method"};
  for (const std::string& group : groups) head.push_back(markdown_text(group));
  page.table(head, lines);
  plot.groups = groups;
  page.plot("extra-tokens-by-category", plot.title, plot_svg(plot));
}

std::string tail_text(const ResultTail& tail) {
  return fmt::format("{} / {} / {}", number_text(tail.p50), number_text(tail.p95),
                     number_text(tail.p99));
}

void add_latency(ReportPage& page, const DecodeTable& table) {
  page.heading(4, "Time to first token and time per token");
  page.paragraph(
      "Milliseconds over all answers: p50 / p95 / p99. In the plots points are medians and bars "
      "reach from p50 to p99.");
  std::vector<std::vector<std::string>> lines;
  for (const int64_t batch : table.batches)
    for (const std::string& method : table.methods)
      if (const DecodeRow* row = table.find(method, batch, "all"))
        lines.push_back({std::to_string(batch), markdown_text(method), tail_text(row->ttft),
                         tail_text(row->tpot)});
  page.table({"batch", "method", "first token", "per token"}, lines);
  show(page, "ttft",
       batch_plot(table, table.methods,
                  [](const DecodeRow& row) {
                    return PlotValue{row.ttft.p50, row.ttft.p50, row.ttft.p99};
                  }),
       "Time to first token, p50 to p99", "ms");
  show(page, "tpot",
       batch_plot(table, table.methods,
                  [](const DecodeRow& row) {
                    return PlotValue{row.tpot.p50, row.tpot.p50, row.tpot.p99};
                  }),
       "Time per token after the first, p50 to p99", "ms");
}

void add_component_plot(ReportPage& page, const DecodeTable& table, int64_t batch) {
  BarPlot plot{.title = fmt::format("Where a step's time goes, batch {}", batch),
               .y_label = "ms, medians",
               .stacked = true};
  const std::pair<const char*, ResultTail DecodeRow::*> parts[] = {{"verify", &DecodeRow::verify},
                                                                   {"draft", &DecodeRow::draft},
                                                                   {"sample", &DecodeRow::sample},
                                                                   {"other", &DecodeRow::other}};
  for (const auto& [name, unused] : parts) plot.bars.push_back({name, {}});
  for (const std::string& method : table.methods) {
    const DecodeRow* row = table.find(method, batch, "all");
    if (row == nullptr) continue;
    plot.groups.push_back(method);
    for (size_t i = 0; i < std::size(parts); ++i)
      plot.bars[i].values.push_back({(row->*parts[i].second).p50, kNoValue, kNoValue});
  }
  page.plot("step-time", plot.title, plot_svg(plot));
}

void add_components(ReportPage& page, const DecodeTable& table) {
  page.heading(4, "Time of a step by component");
  page.paragraph("Milliseconds of the steps that only decode: p50 / p95 / p99.");
  std::vector<std::vector<std::string>> lines;
  for (const int64_t batch : table.batches)
    for (const std::string& method : table.methods)
      if (const DecodeRow* row = table.find(method, batch, "all"))
        lines.push_back({std::to_string(batch), markdown_text(method), tail_text(row->draft),
                         tail_text(row->verify), tail_text(row->sample), tail_text(row->other)});
  page.table({"batch", "method", "draft", "verify", "sample", "other"}, lines);
  add_component_plot(page, table, table.batches.front());
  if (table.batches.size() > 1) add_component_plot(page, table, table.batches.back());
}

std::string lossless_text(const DecodeResult& result) {
  std::string others;
  for (const DecodeRow& row : result.rows)
    if (!row.same_text)
      others += fmt::format("{}{} (batch {}, {})", others.empty() ? "" : "; ",
                            markdown_text(row.method), row.batch, markdown_text(row.category));
  if (others.empty()) return "Every method gave the tokens of none.";
  return "**Not lossless**: other tokens than those of none came from " + others + ".";
}

}  // namespace

void add_section(ReportPage& page, const DecodeResult& result) {
  const DecodeTable table(result);
  page.heading(3, "Speed of generation");
  std::string intro = fmt::format(
      "{} questions, at most {} tokens an answer, {}, {} {}{}.", result.questions,
      result.max_tokens,
      result.temperature == 0 ? "greedy" : "temperature " + number_text(result.temperature),
      result.repeats, result.repeats == 1 ? "run" : "runs with the methods interleaved",
      result.date.empty() ? "" : ", " + markdown_text(result.date));
  if (result.repeats == 1)
    intro += " One run has no spread: differences between methods may be noise.";
  if (table.has_baseline()) intro += " " + lossless_text(result);
  page.paragraph(intro);
  add_throughput(page, table);
  add_categories(page, table);
  add_regret(page, result);
  add_extra_tokens(page, table);
  add_latency(page, table);
  add_components(page, table);
}

}  // namespace clover
