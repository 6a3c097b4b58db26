// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace clover {

// Plots as SVG files: one picture each, with its own background and colours for light and for dark
// surroundings, told apart by colour and by marker or dash. Values that are not finite are left
// out. All texts may hold any UTF-8.

inline constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

// A value with the ends of its spread; no bar is drawn where these are not finite.
struct PlotValue {
  double value = kNoValue;
  double low = kNoValue;
  double high = kNoValue;
};

struct PlotPoint {
  double x = kNoValue;
  PlotValue y;
};

struct PlotLine {
  std::string name = {};
  std::vector<PlotPoint> points = {};  // joined in this order; a gap where a value is missing
};

// Lines over an axis of numbers. The y axis begins at 0 unless a value is negative.
struct LinePlot {
  std::string title = {};
  std::string x_label = {};
  std::string y_label = {};
  std::vector<PlotLine> lines = {};
  bool log_x = false;         // powers of two; only for x > 0, others are left out
  double level = kNoValue;    // a dashed horizontal line, for "as fast as without"
  bool diagonal = false;      // a dashed line y = x
  bool markers = true;        // with the spreads; without, for lines of many points
  bool marks_values = false;  // ticks at the x values instead of round numbers
};

struct PlotBars {
  std::string name = {};
  std::vector<PlotValue> values = {};  // one a group
};

// Bars in groups, side by side, or stacked on each other (then without spreads).
struct BarPlot {
  std::string title = {};
  std::string y_label = {};
  std::vector<std::string> groups = {};
  std::vector<PlotBars> bars = {};
  bool stacked = false;
  double level = kNoValue;
};

// The whole SVG file. A plot without a single finite value says "no data".
std::string plot_svg(const LinePlot& plot);
std::string plot_svg(const BarPlot& plot);

}  // namespace clover
