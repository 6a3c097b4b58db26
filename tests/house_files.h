// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// Reading the repository's own files, for the tests that check its rules.
namespace clover::house {

inline std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + path.string());
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Regular files under `root`/`folder`, as sorted paths relative to root; none if the folder is not
// there. Folders named `skip` (at any depth) are left out.
inline std::vector<std::string> files_under(const std::filesystem::path& root,
                                            const std::string& folder, std::string_view skip = {}) {
  namespace fs = std::filesystem;
  std::vector<std::string> found;
  if (!fs::exists(root / folder)) return found;
  for (auto it = fs::recursive_directory_iterator(root / folder); it != fs::end(it); ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory() && (name == skip || name == "__pycache__")) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file()) {
      found.push_back(fs::relative(it->path(), root).generic_string());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

inline std::vector<std::string> folders_of(const std::filesystem::path& path) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_directory()) found.push_back(entry.path().filename().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace clover::house
