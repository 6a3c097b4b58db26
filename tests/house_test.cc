// SPDX-License-Identifier: Apache-2.0
// Rules that every file of the repository keeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "house_files.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kMaxLines = 600;
constexpr std::string_view kLicence = "SPDX-License-Identifier: Apache-2.0";

bool is_cpp(const std::string& path) {
  static const std::set<std::string> kExtensions = {".h", ".cc", ".cpp", ".inc"};
  return kExtensions.count(std::filesystem::path(path).extension().string()) > 0;
}

// Scripts and build files: comments start with '#'.
bool is_script(const std::string& path) {
  static const std::set<std::string> kExtensions = {".py", ".sh", ".cmake"};
  const std::filesystem::path file(path);
  return kExtensions.count(file.extension().string()) > 0 || file.filename() == "CMakeLists.txt" ||
         file.parent_path() == ".ci";
}

// One line per rule that the file breaks.
std::vector<std::string> faults(const std::string& path, std::string_view text) {
  std::vector<std::string> found;
  const std::vector<std::string> lines = house::split_lines(text);
  const std::string wanted = (is_cpp(path) ? "// " : "# ") + std::string(kLicence);
  // A script may have its interpreter in the first line.
  const size_t at = !lines.empty() && lines[0].rfind("#!", 0) == 0 ? 1 : 0;
  if (lines.size() <= at || lines[at] != wanted) {
    found.push_back(path + ":" + std::to_string(at + 1) + ": is not \"" + wanted + "\"");
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find('\t') != std::string::npos) {
      found.push_back(path + ":" + std::to_string(i + 1) + ": has a tab");
    }
    if (!lines[i].empty() && lines[i].back() == '\r') {
      found.push_back(path + ":" + std::to_string(i + 1) + ": ends in a carriage return");
    }
  }
  if (!text.empty() && text.back() != '\n') found.push_back(path + ": has no newline at its end");
  if (path.rfind("src/", 0) == 0 && lines.size() > kMaxLines) {
    found.push_back(path + ": has " + std::to_string(lines.size()) + " lines, over " +
                    std::to_string(kMaxLines));
  }
  return found;
}

const std::string kGood = "// SPDX-License-Identifier: Apache-2.0\nint x;\n";

TEST(House, AcceptsGoodFiles) {
  EXPECT_THAT(faults("src/a/x.cc", kGood), IsEmpty());
  EXPECT_THAT(faults("tools/x.py", "# SPDX-License-Identifier: Apache-2.0\n"), IsEmpty());
  EXPECT_THAT(faults("x.sh", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\n"), IsEmpty());
  EXPECT_THAT(faults("tests/x.cc", kGood + std::string(2 * kMaxLines, '\n')), IsEmpty());
}

TEST(House, FindsAMissingLicenceLine) {
  EXPECT_THAT(faults("src/a/x.cc", "int x;\n"), ElementsAre(HasSubstr("x.cc:1: is not")));
  EXPECT_THAT(faults("src/a/x.cc", ""), ElementsAre(HasSubstr("x.cc:1: is not")));
  EXPECT_THAT(faults("x.py", "\n# SPDX-License-Identifier: Apache-2.0\n"),
              ElementsAre(HasSubstr("x.py:1: is not")));
  EXPECT_THAT(faults("x.sh", "#!/bin/sh\n"), ElementsAre(HasSubstr("x.sh:2: is not")));
}

TEST(House, FindsTabsCarriageReturnsAndMissingNewline) {
  EXPECT_THAT(faults("src/a/x.cc", kGood + "\tint y;\n"), ElementsAre("src/a/x.cc:3: has a tab"));
  EXPECT_THAT(faults("src/a/x.cc", kGood + "int y;\r\n"),
              ElementsAre(HasSubstr("carriage return")));
  EXPECT_THAT(faults("src/a/x.cc", kGood + "int y;"), ElementsAre(HasSubstr("no newline")));
}

TEST(House, FindsFilesOfSrcThatAreTooLong) {
  EXPECT_THAT(faults("src/a/x.cc", kGood + std::string(kMaxLines - 2, '\n')), IsEmpty());
  EXPECT_THAT(faults("src/a/x.cc", kGood + std::string(kMaxLines - 1, '\n')),
              ElementsAre(HasSubstr("has 601 lines")));
}

TEST(House, RepositoryKeepsTheRules) {
  const std::filesystem::path root = CLOVER_SOURCE_DIR;
  int checked = 0;
  for (const char* folder : {"src", "tests", "fuzz", "bench", "tools", "scripts", "cmake", ".ci"}) {
    for (const std::string& path : house::files_under(root, folder, "data")) {
      if (!is_cpp(path) && !is_script(path)) continue;
      ++checked;
      EXPECT_THAT(faults(path, house::read_text(root / path)), IsEmpty());
    }
  }
  EXPECT_THAT(faults("CMakeLists.txt", house::read_text(root / "CMakeLists.txt")), IsEmpty());
  EXPECT_GT(checked, 20);
}

}  // namespace
}  // namespace clover
