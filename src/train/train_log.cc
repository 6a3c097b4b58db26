// SPDX-License-Identifier: Apache-2.0
#include "train/train_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "plot/plot.h"

namespace clover {
namespace {

constexpr size_t kMaxLog = size_t{1} << 30;

}  // namespace

TrainLog::TrainLog(std::string path, int64_t step) : path_(std::move(path)) {
  if (!std::filesystem::exists(path_)) return;
  const std::string text = read_file(path_, kMaxLog);
  std::string kept;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (end == std::string::npos) break;
    const std::string_view line(text.data() + at, end - at);
    const Json json = parse_json(line, path_);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer())
      fail(ErrorCode::kCorrupt, "{}: a line without a step", path_);
    if (json["step"].get<int64_t>() <= step) {
      kept.append(line).push_back('\n');
      lines_.push_back(json);
    }
    at = end + 1;
  }
  if (kept.size() != text.size()) write_file(path_, kept);
}

void TrainLog::add(const Json& line) {
  const std::string text = line.dump() + "\n";
  const int descriptor = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  const ssize_t done = descriptor < 0 ? -1 : write(descriptor, text.data(), text.size());
  const int error = done < 0 ? errno : ENOSPC;
  if (descriptor >= 0) close(descriptor);
  if (done != std::ssize(text))
    fail(write_error(error), "cannot write {}: {}", path_, std::strerror(error));
  lines_.push_back(line);
}

void draw_log(const std::vector<Json>& lines, const std::string& folder) {
  const std::string tokens = "million answer tokens presented";
  LinePlot losses{.title = "Loss", .x_label = tokens, .y_label = "loss of a token"};
  losses.markers = false;  // there is a point every few steps
  LinePlot acceptance{.title = "Speculative decoding of held-out prompts",
                      .x_label = tokens,
                      .y_label = "extra tokens per step"};
  const auto add = [](LinePlot& plot, const std::string& name, double x, double y) {
    auto line = std::find_if(plot.lines.begin(), plot.lines.end(),
                             [&](const PlotLine& l) { return l.name == name; });
    if (line == plot.lines.end()) line = plot.lines.insert(line, {name, {}});
    line->points.push_back({x, {y, kNoValue, kNoValue}});
  };
  for (const Json& line : lines) {
    const double x = line.value("tokens", 0.0) / 1e6;
    if (line.contains("heads")) {
      int64_t head = 0;
      for (const Json& h : line["heads"])
        add(losses, fmt::format("head {}", ++head), x, h.value("loss", 0.0));
    }
    if (line.contains("acceptance")) {
      for (const auto& [name, value] : line["acceptance"].items())
        add(acceptance, name, x, value.get<double>());
    }
  }
  write_file(folder + "/loss.svg", plot_svg(losses));
  write_file(folder + "/acceptance.svg", plot_svg(acceptance));
}

}  // namespace clover
