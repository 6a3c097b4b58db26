// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "plot/frame.h"
#include "plot/plot.h"

namespace clover {
namespace {

constexpr double kBottom = 56;
constexpr double kTickDistance = 26;  // pixels below which two labels would touch

// The x axis: where a value lies, and which ticks it has.
struct XScale {
  bool log = false;
  double low = 0;
  double high = 1;
  std::vector<double> ticks;

  double place(double x, const PlotFrame& frame) const {
    const double share =
        log ? std::log2(x / low) / std::log2(high / low) : (x - low) / (high - low);
    return frame.left() + 10 + share * (frame.right() - frame.left() - 20);
  }
};

bool drawable(const PlotPoint& point, bool log_x) {
  return std::isfinite(point.x) && std::isfinite(point.y.value) && (!log_x || point.x > 0);
}

XScale make_scale(const LinePlot& plot, const std::set<double>& values) {
  XScale scale;
  scale.log = plot.log_x;
  scale.low = *values.begin();
  scale.high = *values.rbegin();
  if (scale.log || plot.marks_values) {
    scale.ticks.assign(values.begin(), values.end());
    // A single value stands in the middle.
    if (scale.low == scale.high) {
      scale.low = scale.log ? scale.low / 2 : scale.low - 1;
      scale.high = scale.log ? scale.high * 2 : scale.high + 1;
    }
  } else {
    scale.ticks = round_ticks(scale.low, scale.high, 8);
    scale.low = std::min(scale.low, scale.ticks.front());
    scale.high = std::max(scale.high, scale.ticks.back());
  }
  return scale;
}

void draw_x_axis(SvgCanvas& canvas, const PlotFrame& frame, const XScale& scale) {
  double last = -1e9;
  for (const double tick : scale.ticks) {
    const double x = scale.place(tick, frame);
    canvas.line(x, frame.bottom(), x, frame.bottom() + 5, "axis");
    if (x - last < kTickDistance) continue;
    canvas.text(x, frame.bottom() + 20, tick_text(tick), TextAnchor::kMiddle);
    last = x;
  }
}

void draw_line(SvgCanvas& canvas, const PlotFrame& frame, const XScale& scale, const PlotLine& line,
               int colour, bool markers) {
  std::vector<std::pair<double, double>> run;
  const std::string classes = fmt::format("line s{}", colour);
  for (const PlotPoint& point : line.points) {
    if (!drawable(point, scale.log)) {
      canvas.polyline(run, classes);
      run.clear();
      continue;
    }
    run.emplace_back(scale.place(point.x, frame), frame.y(point.y.value));
  }
  canvas.polyline(run, classes);
  if (!markers && line.points.size() > 1) return;
  for (const PlotPoint& point : line.points) {
    if (!drawable(point, scale.log)) continue;
    const double x = scale.place(point.x, frame);
    frame.draw_spread(canvas, x, point.y.low, point.y.high, fmt::format("whisker s{}", colour));
    canvas.marker(x, frame.y(point.y.value), colour);
  }
}

}  // namespace

std::string plot_svg(const LinePlot& plot) {
  std::vector<std::string> names;
  std::set<double> xs;
  double low = 0, high = 0;
  for (const PlotLine& line : plot.lines) {
    names.push_back(line.name);
    for (const PlotPoint& point : line.points) {
      if (!drawable(point, plot.log_x)) continue;
      xs.insert(point.x);
      for (const double y : {point.y.value, point.y.low, point.y.high})
        if (std::isfinite(y)) {
          low = std::min(low, y);
          high = std::max(high, y);
        }
    }
  }
  if (std::isfinite(plot.level)) high = std::max(high, plot.level);
  if (plot.diagonal && !xs.empty()) high = std::max(high, *xs.rbegin());
  if (names.size() == 1 && names.front().empty()) names.clear();
  PlotFrame frame(names, kBottom);
  SvgCanvas canvas(PlotFrame::kWidth, frame.height());
  frame.draw_titles(canvas, plot.title, plot.x_label);
  if (xs.empty()) {
    frame.draw_no_data(canvas);
    return canvas.finish(plot.title);
  }
  frame.set_y_range(low, high);
  const XScale scale = make_scale(plot, xs);
  frame.draw_y_axis(canvas, plot.y_label);
  draw_x_axis(canvas, frame, scale);
  frame.draw_level(canvas, plot.level);
  if (plot.diagonal && !plot.log_x) {
    const double from = std::max(scale.low, frame.range_low());
    const double to = std::min(scale.high, frame.range_high());
    canvas.line(scale.place(from, frame), frame.y(from), scale.place(to, frame), frame.y(to),
                "level");
  }
  for (size_t i = 0; i < plot.lines.size(); ++i)
    draw_line(canvas, frame, scale, plot.lines[i], static_cast<int>(i % SvgCanvas::kColours),
              plot.markers);
  if (!names.empty()) frame.draw_legend(canvas, false);
  return canvas.finish(plot.title);
}

}  // namespace clover
