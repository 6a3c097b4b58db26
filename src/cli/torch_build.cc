// SPDX-License-Identifier: Apache-2.0
#include "cli/torch_build.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace clover {
namespace {

constexpr const char* kProgram = "clover-torch";

}  // namespace

void restart_with_torch() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path other = self.parent_path() / kProgram;
  if (error || !std::filesystem::exists(other, error))
    fail(ErrorCode::kUnsupported,
         "this build has no libtorch, which training and GPUs need: run scripts/setup.sh torch and "
         "build again (-DCLOVER_TORCH=ON says why it is not found)");
  // Arguments as the kernel keeps them: each ends with a zero byte.
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string line{std::istreambuf_iterator<char>(file), {}};
  std::vector<char*> arguments;
  for (size_t at = 0; at < line.size(); at = line.find('\0', at) + 1)
    arguments.push_back(line.data() + at);
  arguments.push_back(nullptr);
  // libgomp's threads wait for each other awake, by default for milliseconds. Where they share the
  // processor with others that halves the speed; waiting briefly costs a machine of one's own 6 %.
  setenv("GOMP_SPINCOUNT", "1000", 0);
  execv(other.c_str(), arguments.data());
  fail(ErrorCode::kUnsupported, "cannot start {}: {}", other.string(), std::strerror(errno));
}

}  // namespace clover
