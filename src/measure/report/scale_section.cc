// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure/report/page.h"
#include "measure/report/scale_model.h"

namespace clover {
namespace {

constexpr double kContext = 512;  // tokens of a sequence, for the devices that are not here
constexpr int64_t kBatches[] = {1, 4, 8, 16, 24, 32, 48, 128};
constexpr int64_t kMostBatch = 512;
constexpr int64_t kPaperNodes = 4;  // of Clover-1's trees

// Clover-1's maths figures on 7B (arXiv 2405.00263): tokens per second with 32 at once, the gain
// with 4.
constexpr PublishedFigures kClover1Maths = {32, 1202, 1138, 4, 1.91, kPaperNodes};
// Clover-2 on Vicuna-7B, MT-bench (arXiv 2408.00264): a tree of 25.
constexpr double kClover2Nodes = 25;
constexpr double kClover2Extra = 2.95;

void add_check(ReportPage& page, const ScaleCheck& check) {
  page.paragraph(fmt::format(
      "A pass takes a fixed time and then as long as the slower of reading its bytes and "
      "multiplying. Checked on this machine first: from its measured peaks alone ({} GB/s, {} "
      "GMAC/s) the time of a step by rows is missed by {} in the mean. With the fixed time ({} ms) "
      "and the reached shares of both peaks ({}, {}) from three of the measured rows, the others "
      "are missed by {}.",
      number_text(check.device.bytes_per_s / 1e9), number_text(check.device.macs_per_s / 1e9),
      percent_text(check.peak_error), number_text(1e3 * check.device.step_s),
      percent_text(check.device.read_share), percent_text(check.device.mac_share),
      percent_text(check.fitted_error)));
  LinePlot plot{.title = "Rows per second of a step: measured and from the roofline",
                .x_label = "rows of a pass",
                .y_label = "rows per second",
                .lines = {{"measured"}, {"from the peaks"}, {"fitted"}},
                .log_x = true,
                .marks_values = true};
  std::vector<std::vector<std::string>> lines;
  for (const ScaleCheck::Row& row : check.rows) {
    const auto rows = static_cast<double>(row.rows);
    const double ms[] = {row.measured_ms, row.peak_ms, row.fitted_ms};
    for (size_t i = 0; i < 3; ++i) plot.lines[i].points.push_back({rows, {1e3 * rows / ms[i]}});
    lines.push_back(
        {std::to_string(row.rows), number_text(row.measured_ms),
         fmt::format("{} ({:+.0f} %)", number_text(row.peak_ms),
                     100 * (row.peak_ms / row.measured_ms - 1)),
         fmt::format("{} ({:+.0f} %{})", number_text(row.fitted_ms),
                     100 * (row.fitted_ms / row.measured_ms - 1), row.used ? ", fitted to" : "")});
  }
  page.table({"rows", "measured ms", "from the peaks", "fitted"}, lines);
  page.plot("scale-check", plot.title, plot_svg(plot));
}

double tree_size(const std::string& method) {
  const size_t at = method.rfind('@');
  if (at == std::string::npos) return 0;
  const std::string digits = method.substr(at + 1);
  const bool number = !digits.empty() && digits.find_first_not_of("0123456789") == digits.npos;
  return number && digits.size() < 4 ? std::stod(digits) : 0;
}

// Milliseconds of a step beside its pass.
double beside_ms(const DecodeRow& row) {
  double ms = 0;
  for (const ResultTail& tail : {row.draft, row.sample, row.other})
    if (std::isfinite(tail.p50)) ms += tail.p50;
  return ms;
}

// The gain of fixed trees that the fitted roofline predicts, beside what was measured.
void add_speed_check(ReportPage& page, const ScaleCheck& check, const DecodeResult& decode) {
  std::vector<std::vector<std::string>> lines;
  double error = 0;
  for (const DecodeRow& row : decode.rows) {
    const DecodeRow* plain = find_row(decode, "none", row.batch, "all");
    if (row.category != "all" || tree_size(row.method) == 0 || plain == nullptr) continue;
    const auto batch = static_cast<double>(row.batch);
    const auto step = [&](const DecodeRow& of, double drafted) {
      return 1e3 * pass_seconds(check.device, check.model, batch, batch * (1 + drafted), 0) +
             beside_ms(of);
    };
    const double gain = (1 + row.extra) * step(*plain, 0) / step(row, row.drafted);
    if (!std::isfinite(gain) || !(row.speedup.median > 0)) continue;
    const double miss = gain / row.speedup.median - 1;
    error += std::abs(miss);
    lines.push_back({std::to_string(row.batch), markdown_text(row.method), ratio_text(row.speedup),
                     number_text(gain), fmt::format("{:+.0f} %", 100 * miss)});
  }
  if (lines.empty()) return;
  page.paragraph(fmt::format(
      "The same for speed: the gain of fixed trees over none, from the accepted drafts, the rows "
      "and the measured time beside the passes. It is missed by {} in the mean. Answers that end "
      "early make real batches smaller than their name.",
      percent_text(error / static_cast<double>(lines.size()))));
  page.table({"batch", "method", "measured", "predicted", "error"}, lines);
}

const EvalTree* paper_tree(const EvalResult& eval) {
  const EvalTree* best = nullptr;
  for (const EvalTree& tree : eval.trees)
    if (tree.nodes >= kPaperNodes && best == nullptr) best = &tree;
  return best != nullptr || eval.trees.empty() ? best : &eval.trees.back();
}

std::vector<ScaleMethod> scale_methods(const std::vector<EvalResult>& evals) {
  std::vector<ScaleMethod> methods;
  for (const EvalResult& eval : evals) {
    const EvalTree* tree = paper_tree(eval);
    if (tree == nullptr || !std::isfinite(tree->extra) || !std::isfinite(tree->drafted)) continue;
    methods.push_back({fmt::format("{}, {} nodes", eval.speculator, tree->nodes), tree->drafted,
                       tree->extra, eval.costly ? clover2_drafting() : ScaleDrafting{}});
  }
  methods.push_back(
      {"Clover-2 as published, 25 nodes", kClover2Nodes, kClover2Extra, clover2_drafting()});
  return methods;
}

std::string crossover_text(int64_t batch) {
  return batch == 0 ? fmt::format("never up to {}", kMostBatch) : fmt::format("from {}", batch);
}

void add_device(ReportPage& page, const ScaleDevice& device, const ScaleModel& model,
                const std::vector<ScaleMethod>& methods) {
  const std::string title = fmt::format("{} on {}", model.name, device.name);
  page.heading(4, "Predicted: " + markdown_text(title));
  LinePlot plot{.title = "Predicted speed-up over none: " + title,
                .x_label = "sequences at once",
                .y_label = "ratio",
                .log_x = true,
                .level = 1,
                .marks_values = true};
  std::vector<std::string> head = {"batch", "none, tokens/s"};
  for (const ScaleMethod& method : methods) {
    head.push_back(markdown_text(method.name));
    plot.lines.push_back({method.name});
  }
  std::vector<std::vector<std::string>> lines;
  for (const int64_t batch : kBatches) {
    const auto sequences = static_cast<double>(batch);
    const double plain = scale_throughput(device, model, {"none"}, sequences, kContext);
    std::vector<std::string>& line = lines.emplace_back();
    line = {std::to_string(batch), number_text(plain)};
    for (size_t i = 0; i < methods.size(); ++i) {
      const double gain = scale_throughput(device, model, methods[i], sequences, kContext) / plain;
      line.push_back(number_text(gain));
      plot.lines[i].points.push_back({sequences, {gain}});
    }
  }
  std::vector<std::string>& last = lines.emplace_back();
  last = {"slower than none", ""};
  for (const ScaleMethod& method : methods)
    last.push_back(crossover_text(crossover_batch(device, model, method, kContext, kMostBatch)));
  page.table(head, lines);
  page.plot("scale-devices", plot.title, plot_svg(plot));
}

// What Clover-1's published figures say of the stack that they were measured on.
void add_implied(ReportPage& page) {
  const PublishedFigures& f = kClover1Maths;
  const ImpliedStack stack = implied_stack(f);
  page.heading(4, "The shape of Clover-1's table on 7B");
  const double roofline = 1 / (h200().macs_per_s * h200().mac_share / scale_7b().weights);
  page.paragraph(fmt::format(
      "Its figures for maths ({} at {:.0f} at once without drafts, {} with them, {:.2f} times as "
      "fast with {:.0f} at once; trees of {:.0f}) fit a pass of {} ms and {} ms for every row, and "
      "{} accepted drafts a step. A row so dear is {:.0f} times what the H200's arithmetic would "
      "take ({} ms), so this roofline does **not** confirm that plain decoding overtakes at 32: "
      "that belongs to the stack of the paper. With its implied stack the table has the paper's "
      "shape:",
      number_text(f.plain_per_s), f.batch, number_text(f.drafted_per_s), f.small_gain,
      f.small_batch, f.nodes, number_text(1e3 * stack.fixed_s),
      fmt::format("{:.3f}", 1e3 * stack.row_s), number_text(stack.extra), stack.row_s / roofline,
      fmt::format("{:.3f}", 1e3 * roofline)));
  std::vector<std::string> head = {"batch"}, line = {"speed-up over none"};
  for (const int64_t batch : kBatches) {
    head.push_back(std::to_string(batch));
    line.push_back(number_text(stack.gain(static_cast<double>(batch), f.nodes)));
  }
  page.table(head, {line});
}

}  // namespace

void add_scale_section(ReportPage& page, const KernelResult& kernels,
                       const std::vector<DecodeResult>& decodes,
                       const std::vector<EvalResult>& evals,
                       const std::vector<ScaleDevice>& devices) {
  const ScaleCheck check = check_scale(kernels);
  if (check.rows.empty()) return;
  page.heading(3, "Scale model");
  add_check(page, check);
  for (const DecodeResult& decode : decodes) add_speed_check(page, check, decode);
  const std::vector<ScaleMethod> methods = scale_methods(evals);
  page.paragraph(fmt::format(
      "Predictions, not measurements: accepted drafts as measured here with the default model "
      "(beside Clover-2's published ones), {} tokens of context a sequence. H200 as published (4.8 "
      "TB/s, 989 TFLOP/s in 16 bits, 1979 in 8), of which 80 % and 70 % are taken to be reached, "
      "25 µs of launches a layer, 10 µs an exchange between devices. A trained head is costed as "
      "Clover-2: two layers, five heads with the whole vocabulary.",
      kContext));
  add_device(page, h200(), scale_7b(), methods);
  add_device(page, h200(), scale_70b(), methods);
  add_device(page, h200(8), scale_100b(), methods);
  for (const ScaleDevice& device : devices) add_device(page, device, scale_7b(), methods);
  add_implied(page);
}

}  // namespace clover
