// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "cli/options.h"
#include "cli/verbs.h"
#include "measure/report/report.h"

namespace clover {
namespace {

constexpr size_t kMostDeviceBytes = 1 << 20;

struct ReportVerb {
  std::vector<std::string> results;
  std::vector<std::string> devices;
  std::vector<std::string> notes;
  std::string out;
  bool quiet = false;
};

int report(const ReportVerb& verb) {
  // Everything is read and checked before anything is written.
  ReportOptions options;
  options.notes = verb.notes;
  for (const std::string& path : verb.devices)
    options.devices.push_back(parse_scale_device(read_file(path, kMostDeviceBytes), path));
  const ReportPage page = make_report(read_results(verb.results), options);
  const std::filesystem::path folder(verb.out);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail(ErrorCode::kIo, "cannot make the folder {}: {}", verb.out, error.message());
  for (const auto& [name, svg] : page.plots()) write_file((folder / name).string(), svg);
  const std::string path = (folder / "report.md").string();
  write_file(path, page.text());
  if (!verb.quiet)
    std::fputs(fmt::format("{} and {} plots\n", path, page.plots().size()).c_str(), stdout);
  return 0;
}

}  // namespace

void add_report(CLI::App& program, Action& action) {
  CLI::App& verb = *program.add_subcommand(
      "report", "Tables and plots of result files: report.md and SVG files in a folder.");
  const auto options = std::make_shared<ReportVerb>();
  verb.add_option("results", options->results,
                  "files that bench decode, bench kernels, eval (--json) or the programs of "
                  "bench/peers wrote, or folders of them; folders of training runs")
      ->required()
      ->type_name("PATH…");
  add_list(verb, "--scale-device", options->devices,
           "JSON file of a device for which the scale model predicts as well: name, "
           "bytes_per_s, flops_per_s, …")
      ->type_name("FILE");
  add_list(verb, "--note", options->notes, "a paragraph in front of the results (repeatable)")
      ->type_name("TEXT");
  verb.add_option("--out", options->out, "folder to write into; made if it is missing")
      ->required()
      ->type_name("FOLDER");
  verb.add_flag("--quiet", options->quiet, "print nothing");
  verb.callback([options, &action] { action = [options] { return report(*options); }; });
}

}  // namespace clover
