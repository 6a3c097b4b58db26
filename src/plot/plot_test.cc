// SPDX-License-Identifier: Apache-2.0
#include "plot/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "plot/canvas.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// No number of the file is infinite or outside the canvas by far, and tags are balanced.
void expect_sound(const std::string& svg) {
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_EQ(svg.find("<svg "), 0u);
  EXPECT_EQ(count(svg, "<text "), count(svg, "</text>"));
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  const std::regex number(" (?:x|y|x1|x2|y1|y2|cx|cy|width|height)=\"(-?[0-9.]+)\"");
  for (std::sregex_iterator i(svg.begin(), svg.end(), number), end; i != end; ++i) {
    EXPECT_GE(std::stod((*i)[1]), -1.0) << i->str();
    EXPECT_LE(std::stod((*i)[1]), 1200.0) << i->str();
  }
}

LinePlot two_lines() {
  return {.title = "speed",
          .x_label = "batch",
          .y_label = "tokens/s",
          .lines = {{"none", {{1, {100, 90, 110}}, {8, {400, 380, 420}}}},
                    {"ngram", {{1, {150, 140, 160}}, {8, {410, 300, 450}}}}},
          .log_x = true};
}

TEST(Plot, RoundTicks) {
  EXPECT_THAT(round_ticks(0, 97, 5), ElementsAre(0, 20, 40, 60, 80, 100));
  EXPECT_THAT(round_ticks(0, 1, 4), ElementsAre(0, 0.25, 0.5, 0.75, 1));
  EXPECT_THAT(round_ticks(-3, 4, 4), ElementsAre(-4, -2, 0, 2, 4));
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::infinity(), kNoValue, 1e-320})
    EXPECT_THAT(round_ticks(0, bad, 5), ElementsAre(0, 1)) << bad;
  EXPECT_LE(round_ticks(-1e308, 1e308, 5).size(), 100u);
  EXPECT_EQ(tick_text(0.25), "0.25");
  EXPECT_EQ(tick_text(1500), "1500");
  EXPECT_EQ(tick_text(-1e-16), "0");
}

TEST(Plot, LinesHaveMarkersSpreadsAndALegend) {
  const std::string svg = plot_svg(two_lines());
  expect_sound(svg);
  EXPECT_EQ(count(svg, "<polyline "), 2u);
  EXPECT_EQ(count(svg, "class=\"whisker s"), 12u);  // three strokes for each of four points
  EXPECT_EQ(count(svg, "<circle "), 3u);            // two points and the legend
  for (const char* text : {">none<", ">ngram<", ">batch<", ">tokens/s<", ">speed<", ">8<"})
    EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
}

// Higher values are drawn higher: the y of the last point of the first line is the least.
TEST(Plot, PlacesValues) {
  LinePlot plot{.title = "",
                .x_label = "",
                .y_label = "",
                .lines = {{"", {{0, {0}}, {5, {50}}, {10, {100}}}}}};
  const std::string svg = plot_svg(plot);
  std::smatch match;
  ASSERT_TRUE(std::regex_search(svg, match, std::regex("points=\"([0-9., ]+)\"")));
  EXPECT_EQ(match[1].str(), "76.0,362.0 384.0,212.0 692.0,62.0 ");
}

TEST(Plot, MissingValuesAreGaps) {
  LinePlot plot = two_lines();
  plot.lines[0].points = {{1, {1}}, {2, {2}}, {3, {kNoValue}}, {4, {4}}, {5, {5}}, {0, {1}}};
  plot.lines[1].points = {{1, {7, kNoValue, kNoValue}}, {1, {8, 8, 8}}};
  const std::string svg = plot_svg(plot);
  expect_sound(svg);
  EXPECT_EQ(count(svg, "<polyline class=\"line s0\""), 2u);
  EXPECT_EQ(count(svg, "class=\"whisker"), 0u);
}

TEST(Plot, LinesOfManyPointsNeedNoMarkers) {
  LinePlot plot = two_lines();
  plot.markers = false;
  const std::string svg = plot_svg(plot);
  expect_sound(svg);
  EXPECT_EQ(count(svg, "class=\"whisker"), 0u);
  EXPECT_EQ(count(svg, "<circle "), 1u);  // the legend's
}

TEST(Plot, NothingToDraw) {
  for (const LinePlot& plot : {LinePlot{}, LinePlot{.lines = {{"a", {}}, {"b", {{1, {kNoValue}}}}}},
                               LinePlot{.lines = {{"a", {{-1, {2}}}}}, .log_x = true}}) {
    const std::string svg = plot_svg(plot);
    expect_sound(svg);
    EXPECT_THAT(svg, HasSubstr("no data"));
  }
  EXPECT_THAT(plot_svg(BarPlot{}), HasSubstr("no data"));
  EXPECT_THAT(plot_svg(BarPlot{.groups = {"a"}, .bars = {{"x", {{kNoValue}}}}}),
              HasSubstr("no data"));
}

TEST(Plot, ZerosAndSinglePointsAreSound) {
  expect_sound(plot_svg(LinePlot{.lines = {{"a", {{4, {0}}}}}, .log_x = true}));
  expect_sound(plot_svg(LinePlot{.lines = {{"a", {{4, {0}}}}}, .diagonal = true}));
  expect_sound(plot_svg(LinePlot{.lines = {{"a", {{4, {3}}}}}, .marks_values = true}));
  expect_sound(plot_svg(LinePlot{.lines = {{"a", {{1, {-3, -5, 2}}, {2, {1e300}}}}}}));
  expect_sound(plot_svg(BarPlot{.groups = {"g"}, .bars = {{"b", {{0, 0, 0}}}}}));
}

TEST(Plot, BarsSideBySideAndStacked) {
  BarPlot plot{.title = "t",
               .y_label = "ms",
               .groups = {"a", "b"},
               .bars = {{"x", {{1, 0.5, 2}, {2}}}, {"y", {{3}}}},
               .level = 1};
  std::string svg = plot_svg(plot);
  expect_sound(svg);
  EXPECT_EQ(count(svg, "<rect class=\"fill s0\""), 3u);  // two bars and the legend
  EXPECT_EQ(count(svg, "<rect class=\"fill s1\""), 2u);  // a bar is missing
  EXPECT_EQ(count(svg, "class=\"edge\""), 3u);
  EXPECT_EQ(count(svg, "class=\"level\""), 1u);
  plot.stacked = true;
  svg = plot_svg(plot);
  expect_sound(svg);
  EXPECT_EQ(count(svg, "class=\"edge\""), 0u);
  EXPECT_THAT(svg, HasSubstr(">4<"));  // the axis reaches the sum
}

TEST(Plot, LongLabelsAreTilted) {
  BarPlot plot{.title = "t", .y_label = "", .groups = {}, .bars = {{"x", {}}}};
  for (int i = 0; i < 12; ++i) {
    plot.groups.push_back("a rather long label " + std::to_string(i));
    plot.bars[0].values.push_back({1.0 * i});
  }
  const std::string svg = plot_svg(plot);
  expect_sound(svg);
  EXPECT_EQ(count(svg, "rotate(-28"), 12u);
}

TEST(Plot, LongTitlesAreSmaller) {
  LinePlot plot = two_lines();
  EXPECT_EQ(count(plot_svg(plot), "title small"), 0u);
  plot.title = std::string(76, 'x');
  EXPECT_EQ(count(plot_svg(plot), "title small"), 1u);
}

// Names come from files that anybody may have written.
TEST(Plot, HostileTextsStayText) {
  LinePlot plot = two_lines();
  plot.title = "</title><script>alert(1)</script>";
  plot.lines[0].name = "a&b\"<c>\x01\n\x7f'";
  const std::string svg = plot_svg(plot);
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, HasSubstr("a&amp;b&quot;&lt;c&gt;'"));
  EXPECT_EQ(svg.find('\x01'), std::string::npos);
  EXPECT_EQ(xml_text("日本 é"), "日本 é");
  EXPECT_LT(text_width("日本"), text_width("abc"));
}

}  // namespace
}  // namespace clover
