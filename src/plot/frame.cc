// SPDX-License-Identifier: Apache-2.0
#include "plot/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace clover {

PlotFrame::PlotFrame(const std::vector<std::string>& legend, double bottom)
    : bottom_margin_(bottom) {
  double x = left(), y = 46;
  for (const std::string& name : legend) {
    const double width = 34 + text_width(name) + 14;
    if (x > left() && x + width > right()) {
      x = left();
      y += 18;
    }
    legend_.push_back({name, x, y});
    x += width;
  }
  top_ = y + 16;
}

void PlotFrame::set_y_range(double low, double high) {
  ticks_ = round_ticks(low, high, 6);
  low_ = ticks_.front();
  high_ = ticks_.back();
}

double PlotFrame::y(double value) const {
  const double share = std::clamp((value - low_) / (high_ - low_), 0.0, 1.0);
  return bottom() - share * (bottom() - top());
}

void PlotFrame::draw_y_axis(SvgCanvas& canvas, const std::string& label) const {
  for (const double tick : ticks_) {
    canvas.line(left(), y(tick), right(), y(tick), "grid");
    canvas.text(left() - 7, y(tick) + 4, tick_text(tick), TextAnchor::kEnd);
  }
  canvas.line(left(), top(), left(), bottom(), "axis");
  canvas.line(left(), bottom(), right(), bottom(), "axis");
  canvas.text(16, (top() + bottom()) / 2, label, TextAnchor::kMiddle, "text", -90);
}

void PlotFrame::draw_titles(SvgCanvas& canvas, const std::string& title,
                            const std::string& x_label) const {
  // 15 px and bold are wider than what text_width() measures.
  const bool fits = 1.35 * text_width(title) <= right() - left();
  canvas.text(left(), 24, title, TextAnchor::kStart, fits ? "title" : "title small");
  canvas.text((left() + right()) / 2, height() - 10, x_label, TextAnchor::kMiddle);
}

void PlotFrame::draw_legend(SvgCanvas& canvas, bool boxes) const {
  for (size_t i = 0; i < legend_.size(); ++i) {
    const LegendEntry& entry = legend_[i];
    const int colour = static_cast<int>(i % SvgCanvas::kColours);
    if (boxes) {
      canvas.rectangle(entry.x + 12, entry.y - 7, 14, 12, fmt::format("fill s{}", colour));
    } else {
      canvas.line(entry.x, entry.y, entry.x + 28, entry.y, fmt::format("line s{}", colour));
      canvas.marker(entry.x + 14, entry.y, colour);
    }
    canvas.text(entry.x + 34, entry.y + 4, entry.name, TextAnchor::kStart);
  }
}

void PlotFrame::draw_level(SvgCanvas& canvas, double level) const {
  if (std::isfinite(level) && level >= low_ && level <= high_)
    canvas.line(left(), y(level), right(), y(level), "level");
}

void PlotFrame::draw_no_data(SvgCanvas& canvas) const {
  canvas.text((left() + right()) / 2, (top() + bottom()) / 2, "no data", TextAnchor::kMiddle);
}

void PlotFrame::draw_spread(SvgCanvas& canvas, double x, double low, double high,
                            const std::string& classes) const {
  if (!std::isfinite(low) || !std::isfinite(high) || high <= low) return;
  canvas.line(x, y(low), x, y(high), classes);
  canvas.line(x - 4, y(low), x + 4, y(low), classes);
  canvas.line(x - 4, y(high), x + 4, y(high), classes);
}

}  // namespace clover
