// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include "tokenizer/chat_template/builtins.h"

namespace clover {
namespace {

constexpr std::string_view kMonths[] = {"January",   "February", "March",    "April",
                                        "May",       "June",     "July",     "August",
                                        "September", "October",  "November", "December"};
constexpr std::string_view kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                      "Thursday", "Friday", "Saturday"};

struct CalendarTime {
  int year;
  unsigned month;  // 1…12
  unsigned day;
  unsigned weekday;  // 0 is Sunday
  int year_day;      // 1…366
  int hour;
  int minute;
  int second;
};

CalendarTime calendar_time(int64_t seconds) {
  using std::chrono::days;
  using std::chrono::floor;
  // Kept within the years that four digits show.
  seconds = std::clamp<int64_t>(seconds, -62135596800, 253402300799);
  const std::chrono::sys_seconds time{std::chrono::seconds(seconds)};
  const auto date = floor<days>(time);
  const std::chrono::year_month_day ymd(date);
  const auto first = std::chrono::sys_days(ymd.year() / std::chrono::January / 1);
  const std::chrono::hh_mm_ss clock(time - date);
  return {static_cast<int>(ymd.year()),
          static_cast<unsigned>(ymd.month()),
          static_cast<unsigned>(ymd.day()),
          std::chrono::weekday(date).c_encoding(),
          static_cast<int>((date - first).count()) + 1,
          static_cast<int>(clock.hours().count()),
          static_cast<int>(clock.minutes().count()),
          static_cast<int>(clock.seconds().count())};
}

// "%d" gives 05, "%-d" gives 5, "%e" gives " 5".
std::string two_digits(int value, bool bare, char fill = '0') {
  if (bare) return fmt::format("{}", value);
  return fill == '0' ? fmt::format("{:02}", value) : fmt::format("{:2}", value);
}

std::string format_field(const JinjaContext& context, char field, bool bare,
                         const CalendarTime& t) {
  const int hour12 = t.hour % 12 == 0 ? 12 : t.hour % 12;
  switch (field) {
    case 'Y':
      return fmt::format("{}", t.year);
    case 'y':
      return two_digits(t.year % 100, bare);
    case 'm':
      return two_digits(static_cast<int>(t.month), bare);
    case 'd':
      return two_digits(static_cast<int>(t.day), bare);
    case 'e':
      return two_digits(static_cast<int>(t.day), bare, ' ');
    case 'H':
      return two_digits(t.hour, bare);
    case 'I':
      return two_digits(hour12, bare);
    case 'M':
      return two_digits(t.minute, bare);
    case 'S':
      return two_digits(t.second, bare);
    case 'f':
      return "000000";
    case 'j':
      return bare ? fmt::format("{}", t.year_day) : fmt::format("{:03}", t.year_day);
    case 'p':
      return t.hour < 12 ? "AM" : "PM";
    case 'B':
      return std::string(kMonths[t.month - 1]);
    case 'b':
    case 'h':
      return std::string(kMonths[t.month - 1].substr(0, 3));
    case 'A':
      return std::string(kDays[t.weekday]);
    case 'a':
      return std::string(kDays[t.weekday].substr(0, 3));
    case 'w':
      return fmt::format("{}", t.weekday);
    case 'u':
      return fmt::format("{}", t.weekday == 0 ? 7 : t.weekday);
    case 'F':
      return fmt::format("{}-{:02}-{:02}", t.year, t.month, t.day);
    case 'D':
      return fmt::format("{:02}/{:02}/{:02}", t.month, t.day, t.year % 100);
    case 'T':
      return fmt::format("{:02}:{:02}:{:02}", t.hour, t.minute, t.second);
    case 'R':
      return fmt::format("{:02}:{:02}", t.hour, t.minute);
    case 'z':
    case 'Z':
      return "";  // the clock has no zone
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case '%':
      return "%";
    default:
      context.fail_here("strftime_now cannot format %{}", field);
  }
}

}  // namespace

std::string format_time(const JinjaContext& context, std::string_view format, int64_t seconds) {
  const CalendarTime time = calendar_time(seconds);
  std::string result;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%' || at + 1 >= format.size()) {
      result += format[at];
      continue;
    }
    ++at;
    const bool bare = format[at] == '-' && at + 1 < format.size();
    if (bare) ++at;
    result += format_field(context, format[at], bare, time);
  }
  return result;
}

}  // namespace clover
