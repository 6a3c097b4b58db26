// SPDX-License-Identifier: Apache-2.0
#include "plot/canvas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <utility>

namespace clover {
namespace {

constexpr std::string_view kLightStyle = R"css(
svg{font-family:system-ui,"Segoe UI","DejaVu Sans",sans-serif;font-size:12px}
.ground{fill:#ffffff}.text{fill:#24292f}.title{fill:#24292f;font-size:15px;font-weight:600}
.small{font-size:12px}
.axis{stroke:#57606a;stroke-width:1;fill:none}.grid{stroke:#d8dee4;stroke-width:1}
.level{stroke:#57606a;stroke-width:1.2;stroke-dasharray:5 4}
.line{fill:none;stroke-width:2}.whisker{stroke-width:1.4;fill:none}
.edge{stroke:#24292f;stroke-width:1.1;fill:none}
)css";
constexpr std::string_view kDarkStyle = R"css(
.ground{fill:#0d1117}.text,.title{fill:#e6edf3}.axis,.level,.edge{stroke:#9ea7b3}
.grid{stroke:#2b3138}
)css";
// Okabe and Ito's palette for the colour-blind, darkened for light and lightened for dark ground.
constexpr std::string_view kLightColours[] = {"#0072b2", "#c75000", "#008060", "#a8447c",
                                              "#8a6d00", "#3b7fb6", "#5b4fa0", "#555555"};
constexpr std::string_view kDarkColours[] = {"#58a6e0", "#f08c3c", "#3fc79a", "#e08fbf",
                                             "#dcc04a", "#8ecbf5", "#a99bf0", "#b0b7bf"};
constexpr std::string_view kDashes[] = {"none", "7 3",      "2 3",     "9 3 2 3",
                                        "5 2",  "12 3 3 3", "3 2 1 2", "10 5"};

std::string colour_style(std::span<const std::string_view> colours) {
  std::string style;
  for (size_t i = 0; i < colours.size(); ++i)
    style += fmt::format(".fill.s{0}{{fill:{1}}}.line.s{0},.whisker.s{0}{{stroke:{1}}}\n", i,
                         colours[i]);
  return style;
}

std::string style_sheet() {
  std::string style(kLightStyle);
  style += colour_style(kLightColours);
  for (int i = 0; i < SvgCanvas::kColours; ++i)
    style += fmt::format(".line.s{}{{stroke-dasharray:{}}}\n", i, kDashes[i]);
  style += "@media (prefers-color-scheme:dark){" + std::string(kDarkStyle);
  return style + colour_style(kDarkColours) + "}\n";
}

std::string_view anchor_name(TextAnchor anchor) {
  switch (anchor) {
    case TextAnchor::kStart:
      return "start";
    case TextAnchor::kMiddle:
      return "middle";
    case TextAnchor::kEnd:
      return "end";
  }
  return "start";
}

// Corners of a regular shape round (x, y), each second one at `inner` times the radius.
std::string corners(double x, double y, int count, double radius, double turn, double inner = 1) {
  std::string points;
  for (int i = 0; i < count; ++i) {
    const double angle = turn + 2 * std::numbers::pi * i / count;
    const double r = i % 2 == 1 ? radius * inner : radius;
    points += fmt::format("{:.1f},{:.1f} ", x + r * std::sin(angle), y - r * std::cos(angle));
  }
  return points;
}

}  // namespace

std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) out += c;
    }
  }
  return out;
}

double text_width(std::string_view text) {
  const auto characters = std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // not a continuation byte of UTF-8
  });
  return 6.8 * static_cast<double>(characters);
}

std::vector<double> round_ticks(double low, double high, int count) {
  if (!std::isfinite(low) || !std::isfinite(high) || high <= low || !std::isfinite(high - low) ||
      high - low < 1e-300)
    return {0, 1};
  const double rough = (high - low) / std::max(count, 1);
  const double unit = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * unit;
  for (const double factor : {1.0, 2.0, 2.5, 5.0})
    if (factor * unit >= rough * 0.999) {
      step = factor * unit;
      break;
    }
  std::vector<double> ticks;
  const double first = std::floor(low / step + 1e-9);
  const double last = std::ceil(high / step - 1e-9);
  for (double i = first; i <= last && ticks.size() < 100; ++i) ticks.push_back(i * step);
  if (ticks.size() < 2) return {0, 1};
  return ticks;
}

std::string tick_text(double value) {
  if (std::abs(value) < 1e-12) return "0";
  return fmt::format("{:.6g}", value);
}

void SvgCanvas::line(double x1, double y1, double x2, double y2, const std::string& classes) {
  body_ +=
      fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n",
                  classes, x1, y1, x2, y2);
}

void SvgCanvas::polyline(const std::vector<std::pair<double, double>>& points,
                         const std::string& classes) {
  if (points.size() < 2) return;
  body_ += fmt::format("<polyline class=\"{}\" points=\"", classes);
  for (const auto& [x, y] : points) body_ += fmt::format("{:.1f},{:.1f} ", x, y);
  body_ += "\"/>\n";
}

void SvgCanvas::rectangle(double x, double y, double width, double height,
                          const std::string& classes) {
  body_ += fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n",
      classes, x, y, width, height);
}

void SvgCanvas::marker(double x, double y, int series) {
  const int shape = series % kColours;
  const std::string classes = fmt::format("fill s{}", shape);
  constexpr double kPi = std::numbers::pi;
  std::string points;
  switch (shape) {
    case 1:
      points = corners(x, y, 4, 5.2, kPi / 4);
      break;  // square
    case 2:
      points = corners(x, y, 3, 5.4, 0);
      break;  // triangle
    case 3:
      points = corners(x, y, 4, 5.4, 0);
      break;  // diamond
    case 4:
      points = corners(x, y, 3, 5.4, kPi);
      break;  // triangle, upside down
    case 5:
      points = corners(x, y, 5, 5.0, 0);
      break;  // pentagon
    case 6:
      points = corners(x, y, 10, 6.0, 0, 0.45);
      break;  // star
    case 7:
      points = corners(x, y, 8, 6.0, kPi / 4, 0.4);
      break;  // cross
    default:
      break;
  }
  if (points.empty())
    body_ +=
        fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>\n", classes, x, y);
  else
    body_ += fmt::format("<polygon class=\"{}\" points=\"{}\"/>\n", classes, points);
}

void SvgCanvas::text(double x, double y, std::string_view text, TextAnchor anchor,
                     const std::string& classes, double rotation) {
  body_ += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"", classes,
                       x, y, anchor_name(anchor));
  if (rotation != 0)
    body_ += fmt::format(" transform=\"rotate({:.0f} {:.1f} {:.1f})\"", rotation, x, y);
  body_ += ">" + xml_text(text) + "</text>\n";
}

std::string SvgCanvas::finish(std::string_view title) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\">\n<title>{2}</title>\n<style>{3}</style>\n"
      "<rect class=\"ground\" width=\"{0:.0f}\" height=\"{1:.0f}\"/>\n{4}</svg>\n",
      width_, height_, xml_text(title), style_sheet(), body_);
}

}  // namespace clover
