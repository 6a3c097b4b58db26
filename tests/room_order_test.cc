// SPDX-License-Identifier: Apache-2.0
// The rooms of src/ include each other only in the order of ARCHITECTURE.md's table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "house_files.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Room {
  std::string name;
  std::string used_by;  // "rooms below", "nobody", or the name of the one room that may include it
};

std::string trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  const size_t last = text.find_last_not_of(" \t\r");
  return std::string(text.substr(first, last - first + 1));
}

// The cells of a Markdown table row "| a | b |"; empty for any other line.
std::vector<std::string> table_cells(const std::string& line) {
  const std::string row = trim(line);
  std::vector<std::string> cells;
  if (row.size() < 2 || row.front() != '|') return cells;
  size_t begin = 1;
  for (size_t end = row.find('|', begin); end != std::string::npos; end = row.find('|', begin)) {
    cells.push_back(trim(std::string_view(row).substr(begin, end - begin)));
    begin = end + 1;
  }
  return cells;
}

// The rows of the table whose header starts "| room | used by |", in order.
std::vector<Room> read_rooms(std::string_view markdown) {
  std::vector<Room> rooms;
  bool inside = false;
  for (const std::string& line : house::split_lines(markdown)) {
    const std::vector<std::string> cells = table_cells(line);
    if (cells.size() < 2) {
      if (inside) break;
    } else if (cells[0] == "room" && cells[1] == "used by") {
      inside = true;
    } else if (inside && cells[0].find_first_not_of("-:") != std::string::npos) {
      rooms.push_back({cells[0], cells[1]});
    }
  }
  return rooms;
}

std::optional<size_t> find_room(const std::vector<Room>& rooms, std::string_view name) {
  for (size_t i = 0; i < rooms.size(); ++i) {
    if (rooms[i].name == name) return i;
  }
  return std::nullopt;
}

// What is written between the quotes of an #include "…" line; nothing for any other line.
std::optional<std::string> quoted_include(const std::string& line) {
  std::string rest = trim(line);
  if (rest.empty() || rest[0] != '#') return std::nullopt;
  rest = trim(std::string_view(rest).substr(1));
  if (rest.rfind("include", 0) != 0) return std::nullopt;
  rest = trim(std::string_view(rest).substr(7));
  if (rest.empty() || rest[0] != '"') return std::nullopt;
  const size_t end = rest.find('"', 1);
  return rest.substr(1, end == std::string::npos ? end : end - 1);
}

// Why a file of room `from` may not include `target`; nothing if it may.
std::optional<std::string> include_fault(const std::vector<Room>& rooms, size_t from,
                                         const std::string& target) {
  const size_t slash = target.find('/');
  if (slash == std::string::npos) return "is not written relative to src/";
  const std::optional<size_t> to = find_room(rooms, target.substr(0, slash));
  if (!to) return "names no room of the table";
  if (*to == from) return std::nullopt;
  if (*to > from) return "is in a room below " + rooms[from].name;
  const std::string& used_by = rooms[*to].used_by;
  if (used_by != "rooms below" && used_by != rooms[from].name) {
    return "is in a room used by " + used_by + " alone";
  }
  return std::nullopt;
}

// One line per violation in the file `path` ("src/room/…"); empty when it keeps the order.
std::vector<std::string> violations(const std::vector<Room>& rooms, const std::string& path,
                                    std::string_view text) {
  std::vector<std::string> faults;
  const size_t begin = path.find('/') + 1;
  const std::string name = path.substr(begin, path.find('/', begin) - begin);
  const std::optional<size_t> from = find_room(rooms, name);
  if (!from) return {path + ": its room \"" + name + "\" is not in the table"};
  int number = 0;
  for (const std::string& line : house::split_lines(text)) {
    ++number;
    const std::optional<std::string> target = quoted_include(line);
    if (!target) continue;
    if (const auto fault = include_fault(rooms, *from, *target)) {
      faults.push_back(path + ":" + std::to_string(number) + ": \"" + *target + "\" " + *fault);
    }
  }
  return faults;
}

const std::vector<Room> kMadeUp = {{"low", "rooms below"},
                                   {"mid", "rooms below"},
                                   {"leaf", "top"},
                                   {"side", "top"},
                                   {"top", "nobody"}};

TEST(RoomOrder, ReadsTheTable) {
  const std::vector<Room> rooms = read_rooms(
      "# Title\n| other | table |\n|---|---|\n| no | room |\n\n"
      "| room | used by | holds |\n|---|:-:|---|\n| a | rooms below | x |\n  | b | nobody | y |\n"
      "text\n| c | nobody | z |\n");
  ASSERT_EQ(rooms.size(), 2u);
  EXPECT_EQ(rooms[0].name, "a");
  EXPECT_EQ(rooms[0].used_by, "rooms below");
  EXPECT_EQ(rooms[1].name, "b");
  EXPECT_EQ(rooms[1].used_by, "nobody");
}

TEST(RoomOrder, AllowsOwnRoomRoomsAboveAndSystemHeaders) {
  const std::string text =
      "#include <leaf/system.h>\n#include \"mid/own.h\"\n#include \"low/a/b.h\"\n"
      "// #include \"top/in_a_comment.h\"\n";
  EXPECT_THAT(violations(kMadeUp, "src/mid/x.cc", text), IsEmpty());
  EXPECT_THAT(violations(kMadeUp, "src/top/x.cc", "#include \"leaf/x.h\"\n"), IsEmpty());
}

TEST(RoomOrder, FindsAnIncludeOfARoomBelow) {
  EXPECT_THAT(violations(kMadeUp, "src/low/deep/x.h", "#pragma once\n  #  include \"mid/y.h\"\n"),
              ElementsAre("src/low/deep/x.h:2: \"mid/y.h\" is in a room below low"));
}

TEST(RoomOrder, FindsAnIncludeOfAnothersLeaf) {
  EXPECT_THAT(violations(kMadeUp, "src/side/x.cc", "#include \"leaf/y.h\"\n"),
              ElementsAre(HasSubstr("used by top alone")));
}

TEST(RoomOrder, FindsPathsThatNameNoRoom) {
  EXPECT_THAT(violations(kMadeUp, "src/mid/x.cc", "#include \"y.h\"\n#include \"attic/z.h\"\n"),
              ElementsAre(HasSubstr("not written relative"), HasSubstr("names no room")));
  EXPECT_THAT(violations(kMadeUp, "src/mid/x.cc", "#include \"../low/y.h\"\n"),
              ElementsAre(HasSubstr("names no room")));
  EXPECT_THAT(violations(kMadeUp, "src/attic/x.cc", ""),
              ElementsAre(HasSubstr("not in the table")));
}

class Repository : public ::testing::Test {
 protected:
  const std::filesystem::path root_ = CLOVER_SOURCE_DIR;
  const std::vector<Room> rooms_ = read_rooms(house::read_text(root_ / "ARCHITECTURE.md"));
};

TEST_F(Repository, TableIsWellFormed) {
  ASSERT_GE(rooms_.size(), 10u);
  for (size_t i = 0; i < rooms_.size(); ++i) {
    EXPECT_EQ(find_room(rooms_, rooms_[i].name), i) << rooms_[i].name << " is listed twice";
    const std::string& used_by = rooms_[i].used_by;
    if (used_by == "rooms below" || used_by == "nobody") continue;
    const std::optional<size_t> user = find_room(rooms_, used_by);
    EXPECT_TRUE(user && *user > i) << rooms_[i].name << " is used by \"" << used_by << "\"";
  }
}

TEST_F(Repository, EveryFolderOfSrcIsInTheTable) {
  for (const std::string& folder : house::folders_of(root_ / "src")) {
    EXPECT_TRUE(find_room(rooms_, folder)) << "src/" << folder;
  }
}

TEST_F(Repository, EveryIncludeKeepsTheOrder) {
  int checked = 0;
  for (const std::string& path : house::files_under(root_, "src")) {
    const std::string extension = std::filesystem::path(path).extension().string();
    if (extension != ".h" && extension != ".cc") continue;
    ++checked;
    EXPECT_THAT(violations(rooms_, path, house::read_text(root_ / path)), IsEmpty());
  }
  EXPECT_GT(checked, 10);
}

}  // namespace
}  // namespace clover
