// SPDX-License-Identifier: Apache-2.0
#include "measure/report/page.h"

#include <fmt/format.h>

#include <cmath>

namespace clover {

std::string markdown_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += ' ';
      continue;
    }
    if (std::string_view("\\`*_[]<>|#&~").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string number_text(double value) {
  if (!std::isfinite(value)) return "–";
  const double size = std::abs(value);
  if (size >= 99.95) return fmt::format("{:.0f}", value);
  if (size >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

std::string percent_text(double share) {
  return std::isfinite(share) ? fmt::format("{:.0f} %", 100 * share) : "–";
}

std::string spread_text(const ResultSpread& spread) {
  if (spread.runs < 2 || !std::isfinite(spread.median)) return number_text(spread.median);
  return fmt::format("{} [{}–{}]", number_text(spread.median), number_text(spread.low),
                     number_text(spread.high));
}

SpreadVerdict verdict_of(const ResultSpread& ratio) {
  if (ratio.runs < 2 || !std::isfinite(ratio.median) || !std::isfinite(ratio.low) ||
      !std::isfinite(ratio.high) || ratio.median <= 0)
    return SpreadVerdict::kUnknown;
  if (ratio.low > 1) return SpreadVerdict::kAbove;
  return ratio.high < 1 ? SpreadVerdict::kBelow : SpreadVerdict::kNoise;
}

std::string verdict_text(const ResultSpread& ratio, bool less_is_better) {
  switch (verdict_of(ratio)) {
    case SpreadVerdict::kAbove:
      return less_is_better ? "slower" : "faster";
    case SpreadVerdict::kBelow:
      return less_is_better ? "faster" : "slower";
    case SpreadVerdict::kNoise:
      return "inside the noise";
    case SpreadVerdict::kUnknown:
      break;
  }
  const bool measured = std::isfinite(ratio.median) && ratio.median > 0;
  return measured ? "one run, spread unknown" : "not measured";
}

std::string ratio_text(const ResultSpread& ratio) {
  return (verdict_of(ratio) == SpreadVerdict::kNoise ? "≈ " : "") + spread_text(ratio);
}

void ReportPage::heading(int level, std::string_view text) {
  text_ += fmt::format("{} {}\n\n", std::string(static_cast<size_t>(level), '#'), text);
}

void ReportPage::paragraph(std::string_view text) { text_ += fmt::format("{}\n\n", text); }

void ReportPage::table(const std::vector<std::string>& head,
                       const std::vector<std::vector<std::string>>& rows) {
  const auto add = [&](const std::vector<std::string>& cells) {
    text_ += "|";
    for (const std::string& cell : cells) text_ += " " + cell + " |";
    text_ += "\n";
  };
  add(head);
  add(std::vector<std::string>(head.size(), "---"));
  for (const auto& row : rows) add(row);
  text_ += "\n";
}

void ReportPage::plot(const std::string& name, const std::string& title, std::string svg) {
  const int number = ++names_[name];
  const std::string file = number == 1 ? name + ".svg" : fmt::format("{}-{}.svg", name, number);
  plots_.emplace_back(file, std::move(svg));
  text_ += fmt::format("![{}]({})\n\n", markdown_text(title), file);
}

}  // namespace clover
