// SPDX-License-Identifier: Apache-2.0
// Two types with one name in one namespace link without a word and corrupt memory (one definition
// rule). All rooms share the namespace clover, so their names are compared here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "house_files.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Types that a file defines at the top of `namespace clover`, outside unnamed and other namespaces.
std::vector<std::string> types_of(const std::string& text) {
  static const std::regex kDefinition(
      R"(^(?:struct|class|enum class)(?: alignas\(\w+\))? (\w+)( final)?( :[^;]*)? \{)");
  std::vector<std::string> found;
  std::vector<std::string> open;
  for (const std::string& line : house::split_lines(text)) {
    if (line.starts_with("namespace ") && line.ends_with("{")) open.push_back(line);
    if (line.starts_with("}  // namespace") && !open.empty()) open.pop_back();
    std::smatch match;
    if (open.size() == 1 && open.front() == "namespace clover {" &&
        std::regex_search(line, match, kDefinition))
      found.push_back(match[1]);
  }
  return found;
}

TEST(OneDefinition, FindsTypes) {
  EXPECT_THAT(
      types_of("namespace clover {\nstruct A {\nenum class B : int {\nclass C final : public D {\n"
               "struct E;\n  struct F {\nnamespace {\nstruct G {\n}  // namespace\n"
               "struct H { int x; };\n}  // namespace clover\nstruct I {\n"),
      ElementsAre("A", "B", "C", "H"));
}

TEST(OneDefinition, NoTypeIsDefinedTwice) {
  const std::filesystem::path root(CLOVER_SOURCE_DIR);
  std::map<std::string, std::string> defined;  // type → file
  std::vector<std::string> twice;
  for (const std::string& path : house::files_under(root, "src"))
    for (const std::string& type : types_of(house::read_text(root / path))) {
      const auto [at, fresh] = defined.emplace(type, path);
      if (!fresh) twice.push_back(type + " in " + at->second + " and " + path);
    }
  EXPECT_GT(defined.size(), 100u);
  EXPECT_THAT(twice, IsEmpty());
}

}  // namespace
}  // namespace clover
