// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "train/train_log.h"

namespace clover {
namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 420;
constexpr double kLeft = 64;
constexpr double kRight = 150;  // room for the legend
constexpr double kTop = 40;
constexpr double kBottom = 52;
constexpr const char* kColours[] = {"#0b6e4f", "#c1440e", "#2a5caa", "#8a4fff",
                                    "#b8860b", "#444444", "#d81b60", "#00838f"};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // From 0 where values are close to it, and never empty.
  void settle() {
    if (!(low <= high)) low = 0, high = 1;
    if (low > 0 && low < 0.5 * high) low = 0;
    if (high - low < 1e-9 * std::max(1.0, std::abs(high))) high = low + 1;
  }
};

// A step of 1, 2 or 5 times a power of ten that cuts the range into about `pieces`.
double tick_step(const Range& range, int pieces) {
  const double raw = (range.high - range.low) / pieces;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw) return factor * power;
  return 10 * power;
}

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

class Diagram {
 public:
  Diagram(Range x, Range y) : x_(x), y_(y) {}

  double at_x(double value) const {
    return kLeft + (value - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - kRight);
  }
  double at_y(double value) const {
    return kHeight - kBottom - (value - y_.low) / (y_.high - y_.low) * (kHeight - kTop - kBottom);
  }

  void grid() {
    const double x_step = tick_step(x_, 8);
    for (double v = std::ceil(x_.low / x_step) * x_step; v <= x_.high * (1 + 1e-9); v += x_step) {
      line(at_x(v), kTop, at_x(v), kHeight - kBottom);
      text(at_x(v), kHeight - kBottom + 18, "middle", fmt::format("{:.6g}", v));
    }
    const double y_step = tick_step(y_, 6);
    for (double v = std::ceil(y_.low / y_step) * y_step; v <= y_.high * (1 + 1e-9); v += y_step) {
      line(kLeft, at_y(v), kWidth - kRight, at_y(v));
      text(kLeft - 8, at_y(v) + 4, "end", fmt::format("{:.6g}", v));
    }
  }

  void curve(const Curve& curve, size_t number) {
    const char* colour = kColours[number % std::size(kColours)];
    std::string points;
    for (size_t i = 0; i < std::min(curve.x.size(), curve.y.size()); ++i)
      if (std::isfinite(curve.x[i]) && std::isfinite(curve.y[i]))
        points += fmt::format("{:.1f},{:.1f} ", at_x(curve.x[i]), at_y(curve.y[i]));
    body_ +=
        fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" points=\"{}\"/>\n",
                    colour, points);
    const double y = kTop + 18 * static_cast<double>(number) + 6;
    body_ +=
        fmt::format("<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"14\" height=\"3\" fill=\"{}\"/>\n",
                    kWidth - kRight + 12, y, colour);
    text(kWidth - kRight + 32, y + 6, "start", curve.name);
  }

  void line(double x1, double y1, double x2, double y2) {
    body_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#dddddd\"/>\n", x1,
        y1, x2, y2);
  }

  void text(double x, double y, const char* anchor, std::string_view value) {
    body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y,
                         anchor, escape(value));
  }

  std::string svg() const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
        "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"white\"/>\n{2}</svg>\n",
        kWidth, kHeight, body_);
  }

 private:
  Range x_;
  Range y_;
  std::string body_;
};

}  // namespace

std::string draw_curves(const std::string& title, const std::string& x_label,
                        const std::string& y_label, const std::vector<Curve>& curves) {
  Range x;
  Range y;
  for (const Curve& curve : curves) {
    for (size_t i = 0; i < std::min(curve.x.size(), curve.y.size()); ++i) {
      if (!std::isfinite(curve.x[i]) || !std::isfinite(curve.y[i])) continue;
      x.add(curve.x[i]);
      y.add(curve.y[i]);
    }
  }
  x.settle();
  y.settle();
  Diagram diagram(x, y);
  diagram.grid();
  for (size_t i = 0; i < curves.size(); ++i) diagram.curve(curves[i], i);
  diagram.text(kLeft, 22, "start", title + ": " + y_label);
  diagram.text((kLeft + kWidth - kRight) / 2, kHeight - 12, "middle", x_label);
  return diagram.svg();
}

}  // namespace clover
