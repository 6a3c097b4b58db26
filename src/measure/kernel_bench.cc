// SPDX-License-Identifier: Apache-2.0
#include "measure/kernel_bench.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "measure/spread.h"

namespace clover {
namespace {

// A set of matrices that is timed as one: a step passes over each once.
struct Group {
  std::string type;
  std::vector<MatrixPtr> matrices;
  int64_t bytes = 0;
  int64_t macs = 0;  // per row
  bool floats = false;
  std::map<int64_t, std::vector<double>> ms;  // by rows, one a repeat
};

std::vector<Group> make_groups(const Model& model) {
  std::map<std::string, Group> by_type;
  Group all{"matmuls", {}, 0, 0, false, {}};
  for (const MatrixPtr& matrix : model.matrices()) {
    Group& group = by_type[matrix->type_name()];
    group.type = matrix->type_name();
    group.floats = group.type == "F32" || group.type == "F16" || group.type == "BF16";
    for (Group* target : {&group, &all}) {
      target->matrices.push_back(matrix);
      target->bytes += matrix->bytes();
      target->macs += matrix->rows() * matrix->cols();
    }
  }
  all.floats = by_type.begin()->second.floats && by_type.size() == 1;
  Group step = all;
  step.type = "step";
  std::vector<Group> groups;
  groups.reserve(by_type.size() + 2);
  for (auto& [type, group] : by_type) groups.push_back(std::move(group));
  groups.push_back(std::move(all));
  groups.push_back(std::move(step));
  return groups;
}

double time_matrices(Backend& backend, const Group& group, int64_t rows) {
  std::map<int64_t, Tensor> inputs;  // by width
  for (const MatrixPtr& matrix : group.matrices) {
    if (inputs.contains(matrix->cols())) continue;
    std::vector<float> values(static_cast<size_t>(rows * matrix->cols()));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(random_uniform(1, i) - 0.5);
    inputs[matrix->cols()] = backend.from_host(rows, matrix->cols(), values.data());
  }
  const auto begin = Clock::now();
  for (const MatrixPtr& matrix : group.matrices) backend.linear(inputs.at(matrix->cols()), *matrix);
  return ms_since(begin);
}

// Whole passes over a chain of rows behind a context.
class StepTimer {
 public:
  StepTimer(const Model& model, int64_t context, int64_t most_rows)
      : model_(model), context_(context) {
    const int64_t blocks = (context + most_rows) / kKvBlockTokens + 1;
    kv_ = model.backend().make_kv_store(model.kv_shape(blocks, DType::kF16));
    blocks_.resize(static_cast<size_t>(blocks));
    std::iota(blocks_.begin(), blocks_.end(), 0);
    if (context > 0) model_.forward(chain(0, context, false), *kv_);
  }
  double time(int64_t rows) {
    const Batch batch = chain(context_, rows, true);
    const auto begin = Clock::now();
    model_.forward(batch, *kv_);
    return ms_since(begin);
  }

 private:
  Batch chain(int64_t committed, int64_t rows, bool logits) const {
    Batch batch;
    batch.sequences.push_back({blocks_, committed, 0, rows});
    for (int64_t r = 0; r < rows; ++r) {
      batch.tokens.push_back(static_cast<int32_t>((committed + r) * 7919 % model_.config().vocab));
      batch.parents.push_back(static_cast<int32_t>(r - 1));
      batch.wants_logits.push_back(logits ? 1 : 0);
    }
    return batch;
  }
  const Model& model_;
  int64_t context_;
  std::unique_ptr<KvStore> kv_;
  std::vector<int32_t> blocks_;
};

Json cost_json(const Group& group, int64_t rows, const std::vector<MachinePeak>& peaks) {
  const std::vector<double>& ms = group.ms.at(rows);
  std::vector<double> ratios, gbytes, gmacs, read_shares, mac_shares;
  for (size_t i = 0; i < ms.size(); ++i) {
    ratios.push_back(ms[i] / group.ms.at(1)[i]);
    gbytes.push_back(static_cast<double>(group.bytes) / ms[i] / 1e6);
    gmacs.push_back(static_cast<double>(group.macs * rows) / ms[i] / 1e6);
    read_shares.push_back(gbytes.back() / peaks[i].read_gbytes_per_s);
    mac_shares.push_back(gmacs.back() /
                         (group.floats ? peaks[i].float_gmac_per_s : peaks[i].int8_gmac_per_s));
  }
  return {{"type", group.type},
          {"rows", rows},
          {"ms", spread_json(ms)},
          {"ratio_to_one_row", quantile(ratios, 0.5)},
          {"gbytes_per_s", quantile(gbytes, 0.5)},
          {"gmac_per_s", quantile(gmacs, 0.5)},
          {"share_of_read_peak", quantile(read_shares, 0.5)},
          {"share_of_mac_peak", quantile(mac_shares, 0.5)}};
}

double median_of(const std::vector<MachinePeak>& peaks, double MachinePeak::*field) {
  std::vector<double> values;
  values.reserve(peaks.size());
  for (const MachinePeak& peak : peaks) values.push_back(peak.*field);
  return quantile(values, 0.5);
}

}  // namespace

Json bench_kernels(const Model& model, const KernelBenchOptions& options) {
  std::vector<int64_t> rows = options.rows;
  rows.push_back(1);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  if (rows.front() < 1 || rows.back() > 1024)
    fail(ErrorCode::kInvalidArgument, "rows must be 1 to 1024");
  if (options.repeats < 1) fail(ErrorCode::kInvalidArgument, "needs at least one repeat");
  if (options.context < 0 || options.context + rows.back() > model.config().context)
    fail(ErrorCode::kInvalidArgument, "context and rows exceed the model's {} positions",
         model.config().context);
  Backend& backend = model.backend();
  std::vector<Group> groups = make_groups(model);
  StepTimer step(model, options.context, rows.back());
  // The machine's own speed drifts, so its peak is measured in every repeat beside the kernels.
  std::vector<MachinePeak> peaks;
  for (int64_t repeat = -1; repeat < options.repeats; ++repeat) {  // the first is a warm-up
    const MachinePeak peak = backend.measure_peak(model.weight_bytes());
    if (repeat >= 0) peaks.push_back(peak);
    for (Group& group : groups)
      for (const int64_t n : rows) {
        double best = 1e9;
        for (int i = 0; i < 3; ++i)
          best = std::min(best,
                          group.type == "step" ? step.time(n) : time_matrices(backend, group, n));
        if (repeat >= 0) group.ms[n].push_back(best);
      }
  }
  Json cost = Json::array();
  for (const Group& group : groups)
    for (const int64_t n : rows) cost.push_back(cost_json(group, n, peaks));
  return {{"peak",
           {{"read_gbytes_per_s", median_of(peaks, &MachinePeak::read_gbytes_per_s)},
            {"int8_gmac_per_s", median_of(peaks, &MachinePeak::int8_gmac_per_s)},
            {"float_gmac_per_s", median_of(peaks, &MachinePeak::float_gmac_per_s)}}},
          {"cost", std::move(cost)}};
}

}  // namespace clover
