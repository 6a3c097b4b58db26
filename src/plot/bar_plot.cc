// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plot/frame.h"
#include "plot/plot.h"

namespace clover {
namespace {

constexpr double kLevelBottom = 34;
constexpr double kTilt = -28;  // degrees of labels that would not fit side by side

// The labels below the groups, and the room that they take.
struct GroupLabels {
  double group_width = 0;
  double margin = kLevelBottom;
  bool tilted = false;

  explicit GroupLabels(const BarPlot& plot) {
    group_width = (PlotFrame::kWidth - 66 - 18) / std::max<double>(1, std::ssize(plot.groups));
    double widest = 0;
    for (const std::string& group : plot.groups) widest = std::max(widest, text_width(group));
    tilted = widest > group_width - 6;
    if (tilted) margin += std::min(170.0, 0.47 * widest);
  }
};

void draw_labels(SvgCanvas& canvas, const PlotFrame& frame, const BarPlot& plot,
                 const GroupLabels& labels) {
  for (size_t g = 0; g < plot.groups.size(); ++g) {
    const double middle = frame.left() + labels.group_width * (static_cast<double>(g) + 0.5);
    if (labels.tilted)
      canvas.text(middle + 4, frame.bottom() + 16, plot.groups[g], TextAnchor::kEnd, "text", kTilt);
    else
      canvas.text(middle, frame.bottom() + 18, plot.groups[g], TextAnchor::kMiddle);
  }
}

PlotValue value_of(const PlotBars& bars, size_t group) {
  return group < bars.values.size() ? bars.values[group] : PlotValue{};
}

void draw_stack(SvgCanvas& canvas, const PlotFrame& frame, const BarPlot& plot, size_t group,
                double left, double width) {
  double from = 0;
  for (size_t b = 0; b < plot.bars.size(); ++b) {
    const double value = value_of(plot.bars[b], group).value;
    if (!std::isfinite(value) || value <= 0) continue;
    canvas.rectangle(left, frame.y(from + value), width, frame.y(from) - frame.y(from + value),
                     fmt::format("fill s{}", b % SvgCanvas::kColours));
    from += value;
  }
}

void draw_side_by_side(SvgCanvas& canvas, const PlotFrame& frame, const BarPlot& plot, size_t group,
                       double left, double width) {
  const double each = width / static_cast<double>(plot.bars.size());
  for (size_t b = 0; b < plot.bars.size(); ++b) {
    const PlotValue value = value_of(plot.bars[b], group);
    if (!std::isfinite(value.value)) continue;
    const double x = left + each * static_cast<double>(b);
    const double y0 = frame.y(0), y1 = frame.y(value.value);
    canvas.rectangle(x, std::min(y0, y1), std::max(1.0, each - 1.5), std::abs(y1 - y0),
                     fmt::format("fill s{}", b % SvgCanvas::kColours));
    frame.draw_spread(canvas, x + (each - 1.5) / 2, value.low, value.high, "edge");
  }
}

}  // namespace

std::string plot_svg(const BarPlot& plot) {
  std::vector<std::string> names;
  double low = 0, high = 0;
  bool any = false;
  std::vector<double> stacks(plot.groups.size(), 0);
  for (const PlotBars& bars : plot.bars) {
    names.push_back(bars.name);
    for (size_t g = 0; g < plot.groups.size(); ++g) {
      const PlotValue value = value_of(bars, g);
      if (!std::isfinite(value.value)) continue;
      any = true;
      if (value.value > 0) stacks[g] += value.value;
      for (const double y : {plot.stacked ? stacks[g] : value.value, value.low, value.high})
        if (std::isfinite(y)) {
          low = std::min(low, y);
          high = std::max(high, y);
        }
    }
  }
  if (std::isfinite(plot.level)) high = std::max(high, plot.level);
  const GroupLabels labels(plot);
  if (names.size() == 1 && names.front().empty()) names.clear();
  PlotFrame frame(names, labels.margin);
  SvgCanvas canvas(PlotFrame::kWidth, frame.height());
  frame.draw_titles(canvas, plot.title, "");
  if (!any) {
    frame.draw_no_data(canvas);
    return canvas.finish(plot.title);
  }
  frame.set_y_range(low, high);
  frame.draw_y_axis(canvas, plot.y_label);
  const double gap = std::min(24.0, labels.group_width * 0.2);
  for (size_t g = 0; g < plot.groups.size(); ++g) {
    const double left = frame.left() + labels.group_width * static_cast<double>(g) + gap / 2;
    const double width = labels.group_width - gap;
    if (plot.stacked)
      draw_stack(canvas, frame, plot, g, left + std::max(0.0, width - 70) / 2,
                 std::min(width, 70.0));
    else
      draw_side_by_side(canvas, frame, plot, g, left, width);
  }
  frame.draw_level(canvas, plot.level);
  draw_labels(canvas, frame, plot, labels);
  if (!names.empty()) frame.draw_legend(canvas, true);
  return canvas.finish(plot.title);
}

}  // namespace clover
