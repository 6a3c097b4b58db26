// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "plot/canvas.h"

namespace clover {

// What line plots and bar plots share: the place of the picture on the canvas, the y axis with its
// grid, titles and the legend.
class PlotFrame {
 public:
  static constexpr double kWidth = 720;

  // `bottom` pixels are kept below the picture for the labels of the x axis.
  PlotFrame(const std::vector<std::string>& legend, double bottom);

  // Takes the range of the y axis from the values that will be drawn; a value outside is cut off.
  void set_y_range(double low, double high);

  void draw_y_axis(SvgCanvas& canvas, const std::string& label) const;
  void draw_titles(SvgCanvas& canvas, const std::string& title, const std::string& x_label) const;
  // `boxes`: squares of colour as for bars, otherwise a dash with the marker.
  void draw_legend(SvgCanvas& canvas, bool boxes) const;
  // A dashed line at `level`, if it lies in the range.
  void draw_level(SvgCanvas& canvas, double level) const;
  void draw_no_data(SvgCanvas& canvas) const;
  // A spread: a line from low to high with caps.
  void draw_spread(SvgCanvas& canvas, double x, double low, double high,
                   const std::string& classes) const;

  double y(double value) const;
  double range_low() const { return low_; }
  double range_high() const { return high_; }
  double left() const { return 66; }
  double right() const { return kWidth - 18; }
  double top() const { return top_; }
  double bottom() const { return top_ + 300; }
  double height() const { return bottom() + bottom_margin_; }

 private:
  struct LegendEntry {
    std::string name;
    double x;
    double y;
  };
  double top_ = 0;
  double bottom_margin_ = 0;
  double low_ = 0;
  double high_ = 1;
  std::vector<double> ticks_ = {0, 1};
  std::vector<LegendEntry> legend_;
};

}  // namespace clover
