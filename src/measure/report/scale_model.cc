// SPDX-License-Identifier: Apache-2.0
#include "measure/report/scale_model.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "measure/report/result_field.h"

namespace clover {
namespace {

// A set of matrices over some rows.
struct ScaleWork {
  double bytes = 0;
  double macs = 0;
  double layers = 0;
  double exchanged_bytes = 0;
};

double seconds(const ScaleDevice& device, const ScaleModel& model, const ScaleWork& work) {
  const auto count = static_cast<double>(device.count);
  const bool eight_bits = model.bytes_per_weight <= 1 && device.macs8_per_s > 0;
  const double macs_per_s = eight_bits ? device.macs8_per_s : device.macs_per_s;
  const double reading = work.bytes / (device.bytes_per_s * device.read_share * count);
  const double multiplying = work.macs / (macs_per_s * device.mac_share * count);
  double exchanging = 0;
  if (device.count > 1) {
    // Two sums a layer; a ring passes every value 2 (n - 1) / n times.
    const double passed = work.exchanged_bytes * 2 * (count - 1) / count;
    exchanging = 2 * work.layers * (device.exchange_s + passed / device.link_bytes_per_s);
  }
  return work.layers * device.layer_s + std::max(reading, multiplying) + exchanging;
}

double optional(const ResultField& object, std::string_view key, double otherwise) {
  return object.has(key) ? object[key].measurement() : otherwise;
}

double positive(const ResultField& object, std::string_view key, double value) {
  if (!(value > 0) || !std::isfinite(value))
    fail(ErrorCode::kCorrupt, "{} is no number above 0", object[key].place());
  return value;
}

ScaleModel decoder(const std::string& name, int64_t layers, int64_t hidden, int64_t ffn,
                   int64_t kv_width, int64_t vocab) {
  ScaleModel model{name};
  const auto d = static_cast<double>(hidden);
  const double layer =
      2 * d * d + 2 * d * static_cast<double>(kv_width) + 3 * d * static_cast<double>(ffn);
  model.weights = static_cast<double>(layers) * layer + d * static_cast<double>(vocab);
  model.layers = layers;
  model.hidden = hidden;
  model.vocab = vocab;
  model.kv_bytes_per_token = 2.0 * 2.0 * static_cast<double>(layers * kv_width);
  return model;
}

}  // namespace

double pass_seconds(const ScaleDevice& device, const ScaleModel& model, double sequences,
                    double rows, double context) {
  const auto layers = static_cast<double>(model.layers);
  const auto hidden = static_cast<double>(model.hidden);
  ScaleWork work;
  work.bytes =
      model.weights * model.bytes_per_weight + sequences * context * model.kv_bytes_per_token;
  // Keys and values: a multiply-add for each element of the row's heads, twice.
  work.macs = rows * (model.weights + 2 * context * hidden * layers);
  work.layers = layers;
  work.exchanged_bytes = rows * hidden * 2;
  return device.step_s + seconds(device, model, work);
}

double draft_seconds(const ScaleDevice& device, const ScaleModel& model, const ScaleMethod& method,
                     double sequences) {
  const ScaleDrafting& drafting = method.drafting;
  if (drafting.heads == 0) return 0;
  const auto hidden = static_cast<double>(model.hidden);
  const double lm_head = hidden * static_cast<double>(model.vocab);
  const double layer =
      (model.weights - lm_head) / static_cast<double>(std::max<int64_t>(model.layers, 1));
  const auto blocks = static_cast<double>(drafting.block_layers);
  const double committed = sequences * (1 + method.extra);
  ScaleWork block{blocks * layer * model.bytes_per_weight, committed * blocks * layer, blocks,
                  committed * hidden * 2};
  const auto heads = static_cast<double>(drafting.heads);
  const double weights = drafting.head_weights * hidden * hidden + lm_head;
  const double rows = sequences * std::max(1.0, method.nodes / heads);
  const ScaleWork head{weights * model.bytes_per_weight, rows * weights, 1, rows * hidden * 2};
  return seconds(device, model, block) + heads * seconds(device, model, head);
}

double scale_throughput(const ScaleDevice& device, const ScaleModel& model,
                        const ScaleMethod& method, double sequences, double context) {
  const double rows = sequences * (1 + method.nodes);
  const double step = pass_seconds(device, model, sequences, rows, context) +
                      draft_seconds(device, model, method, sequences);
  return sequences * (1 + method.extra) / step;
}

int64_t crossover_batch(const ScaleDevice& device, const ScaleModel& model,
                        const ScaleMethod& method, double context, int64_t most) {
  const ScaleMethod plain{"none"};
  for (int64_t batch = 1; batch <= most; ++batch) {
    const auto sequences = static_cast<double>(batch);
    if (scale_throughput(device, model, method, sequences, context) <
        scale_throughput(device, model, plain, sequences, context))
      return batch;
  }
  return 0;
}

ScaleDevice h200(int64_t count) {
  ScaleDevice device{count == 1 ? "H200" : std::to_string(count) + " × H200"};
  device.bytes_per_s = 4.8e12;
  device.macs_per_s = 989e12 / 2;
  device.macs8_per_s = 1979e12 / 2;
  device.layer_s = 25e-6;
  device.count = count;
  device.exchange_s = 10e-6;
  device.link_bytes_per_s = 450e9;
  device.read_share = 0.8;
  device.mac_share = 0.7;
  return device;
}

ScaleModel scale_7b() { return decoder("7B", 32, 4096, 11008, 4096, 32000); }

ScaleModel scale_70b() {
  ScaleModel model = decoder("70B", 80, 8192, 28672, 1024, 32000);
  model.bytes_per_weight = 1;
  return model;
}

ScaleModel scale_100b() { return decoder("100B", 80, 10240, 27648, 10240, 32000); }

// Attention decoder (query, key, value) and FC2 over two inputs: 5 hidden² a head.
ScaleDrafting clover2_drafting() { return {2, 5, 5}; }

ScaleDevice parse_scale_device(std::string_view text, const std::string& name) {
  const Json json = parse_json(text, name);
  const ResultField file(name, json);
  ScaleDevice device;
  device.name = file["name"].text();
  device.bytes_per_s = positive(file, "bytes_per_s", file["bytes_per_s"].measurement());
  device.macs_per_s = positive(file, "flops_per_s", file["flops_per_s"].measurement()) / 2;
  device.macs8_per_s = optional(file, "flops8_per_s", 0) / 2;
  device.count = file.has("count") ? file["count"].count(1) : 1;
  for (const auto& [key, field] :
       {std::pair{"layer_s", &device.layer_s}, std::pair{"step_s", &device.step_s},
        std::pair{"exchange_s", &device.exchange_s}}) {
    *field = optional(file, key, 0);
    if (!(*field >= 0)) fail(ErrorCode::kCorrupt, "{} is negative", file[key].place());
  }
  for (const auto& [key, field] :
       {std::pair{"read_share", &device.read_share}, std::pair{"mac_share", &device.mac_share}}) {
    *field = optional(file, key, 1);
    if (!(*field > 0) || *field > 1)
      fail(ErrorCode::kCorrupt, "{} is not above 0 and at most 1", file[key].place());
  }
  if (device.count > 1)
    device.link_bytes_per_s =
        positive(file, "link_bytes_per_s", file["link_bytes_per_s"].measurement());
  return device;
}

ScaleCheck check_scale(const KernelResult& kernels) {
  ScaleCheck check;
  std::vector<const KernelCost*> steps;
  for (const KernelCost& cost : kernels.costs)
    if (cost.type == "step" && cost.ms.median > 0 && std::isfinite(cost.gmacs))
      steps.push_back(&cost);
  std::sort(steps.begin(), steps.end(),
            [](const KernelCost* a, const KernelCost* b) { return a->rows < b->rows; });
  if (steps.size() < 3 || steps.front()->rows != 1) return check;
  const KernelCost& one = *steps.front();
  // What a step moves and multiplies: the file has rates.
  check.model.name = "as measured";
  check.model.weights = one.gmacs * 1e6 * one.ms.median;
  check.model.bytes_per_weight = one.gbytes * 1e6 * one.ms.median / check.model.weights;
  ScaleDevice& device = check.device;
  device.name = "this machine";
  device.bytes_per_s = kernels.read_peak * 1e9;
  device.macs_per_s = device.macs8_per_s = kernels.int8_peak * 1e9;
  const ScaleDevice peaks = device;
  const double bytes = check.model.weights * check.model.bytes_per_weight;
  // The slope between the most rows and the middle gives the arithmetic, one row the reading; what
  // the line leaves at no rows beyond the reading would be fixed time, were it positive.
  const KernelCost& middle = *steps[steps.size() / 2];
  const KernelCost& most = *steps.back();
  const double slope =
      (most.ms.median - middle.ms.median) / 1e3 / static_cast<double>(most.rows - middle.rows);
  device.step_s = std::max(0.0, most.ms.median / 1e3 - slope * static_cast<double>(most.rows));
  device.step_s = std::min(device.step_s, 0.9 * one.ms.median / 1e3);
  if (slope > 0) device.mac_share = check.model.weights / (slope * device.macs8_per_s);
  device.read_share = bytes / ((one.ms.median / 1e3 - device.step_s) * device.bytes_per_s);
  double peak_sum = 0, fitted_sum = 0, unused = 0;
  for (const KernelCost* cost : steps) {
    const auto rows = static_cast<double>(cost->rows);
    ScaleCheck::Row row{cost->rows, cost->ms.median};
    row.peak_ms = 1e3 * pass_seconds(peaks, check.model, 1, rows, 0);
    row.fitted_ms = 1e3 * pass_seconds(device, check.model, 1, rows, 0);
    row.used = cost == &one || cost == &middle || cost == &most;
    peak_sum += std::abs(row.peak_ms / row.measured_ms - 1);
    if (!row.used) {
      fitted_sum += std::abs(row.fitted_ms / row.measured_ms - 1);
      ++unused;
    }
    check.rows.push_back(row);
  }
  check.peak_error = peak_sum / static_cast<double>(steps.size());
  check.fitted_error = unused > 0 ? fitted_sum / unused : kNoValue;
  return check;
}

double ImpliedStack::gain(double batch, double nodes) const {
  return (1 + extra) * (fixed_s + batch * row_s) / (fixed_s + batch * (1 + nodes) * row_s);
}

// With a = T - B b (T: seconds of a plain step at the batch B) the two other figures give
//   1 + e = s (T + B n b),  s = drafted_per_s / B
//   (1 + e) (T - (B - m) b) = g (T - (B - m (1 + n)) b),  m: the small batch, g: its gain
// a quadratic in b, whose smaller root has the fewer accepted drafts.
ImpliedStack implied_stack(const PublishedFigures& f) {
  const double step = f.batch / f.plain_per_s;
  const double s = f.drafted_per_s / f.batch;
  const double wide = f.batch * f.nodes, low = f.batch - f.small_batch;
  const double high = f.batch - f.small_batch * (1 + f.nodes);
  const double a2 = -s * wide * low;
  const double a1 = s * step * (wide - low) + f.small_gain * high;
  const double a0 = step * (s * step - f.small_gain);
  const double root = a1 * a1 - 4 * a2 * a0;
  ImpliedStack stack;
  if (!(root >= 0) || a2 == 0) return stack;
  const double first = (-a1 + std::sqrt(root)) / (2 * a2);
  const double second = (-a1 - std::sqrt(root)) / (2 * a2);
  stack.row_s = std::min(first, second);
  stack.fixed_s = step - f.batch * stack.row_s;
  stack.extra = s * (step + wide * stack.row_s) - 1;
  stack.found = stack.row_s > 0 && stack.fixed_s > 0 && stack.extra >= 0 && stack.extra <= f.nodes;
  return stack;
}

}  // namespace clover
