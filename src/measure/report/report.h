// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "measure/report/page.h"
#include "measure/report/results.h"

namespace clover {

struct ReportOptions {
  std::vector<ScaleDevice> devices;  // for which the scale model predicts, beside its own
  std::vector<std::string> notes;    // said in front of the results
};

// Tables and plots of result files. Results of one machine, model and commit form a chapter; runs
// of `bench decode` in it that differ only in methods and batches share a table, as do `eval`s of
// several speculators. Everything else stays apart, and the report says so. Where there are costs
// of passes, a scale model predicts from them. Training runs have a chapter of their own.
// Error(kInvalidArgument) without results, or when two files hold the same measurement.
ReportPage make_report(const std::vector<ResultFile>& results, const ReportOptions& options = {});

// All result files among `paths`: files as they are, the folder of a training run (with log.jsonl)
// for its log, other folders for every *.json in them by name.
// Errors as read_result(); a folder without any is kNotFound.
std::vector<ResultFile> read_results(const std::vector<std::string>& paths);

}  // namespace clover
