// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace clover {

// Where text stands relative to its point.
enum class TextAnchor { kStart, kMiddle, kEnd };

// Elements of an SVG file in the order in which they are drawn; pixels, y downwards. Colours are
// class names of the style sheet: "axis", "grid", "text", and "s0" … "s7" for series.
class SvgCanvas {
 public:
  static constexpr int kColours = 8;

  SvgCanvas(double width, double height) : width_(width), height_(height) {}

  void line(double x1, double y1, double x2, double y2, const std::string& classes);
  void polyline(const std::vector<std::pair<double, double>>& points, const std::string& classes);
  void rectangle(double x, double y, double width, double height, const std::string& classes);
  // One of eight shapes, so that series differ without colour.
  void marker(double x, double y, int series);
  void text(double x, double y, std::string_view text, TextAnchor anchor,
            const std::string& classes = "text", double rotation = 0);
  // The file.
  std::string finish(std::string_view title) const;

 private:
  double width_;
  double height_;
  std::string body_;
};

// Text as it may stand in XML: marked-up characters escaped, control characters left out.
std::string xml_text(std::string_view text);

// Pixels that a text of 12 px takes, about: no font is asked.
double text_width(std::string_view text);

// Round numbers from `low` to `high`, both ends enclosed; about `count` of them. 0 and 1 for a
// range that is empty or not finite.
std::vector<double> round_ticks(double low, double high, int count);

// A number for an axis: no more digits than it needs.
std::string tick_text(double value);

}  // namespace clover
