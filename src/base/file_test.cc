// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"

namespace clover {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string pattern = (fs::temp_directory_path() / "clover_file_test.XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~FileTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  fs::path folder_;
};

ErrorCode code_of(const std::string& path) {
  try {
    MappedFile file(path);
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(path), std::string::npos);
    return e.code();
  }
  ADD_FAILURE() << path << " opened";
  return ErrorCode::kIo;
}

TEST_F(FileTest, MapsWhatWasWritten) {
  const std::string text(100000, 'x');
  write_file(path("a"), text);
  EXPECT_EQ(read_file(path("a"), text.size()), text);
  MappedFile first(path("a"));
  MappedFile second(std::move(first));
  EXPECT_EQ(second.bytes().size(), text.size());
  write_file(path("b"), "short");
  second = MappedFile(path("b"));
  EXPECT_EQ(second.bytes().size(), 5u);
  EXPECT_EQ(second.path(), path("b"));
}

// Bytes of a mapping that are in this process's memory now.
size_t resident(const MappedFile& file) {
  std::ifstream maps("/proc/self/smaps");
  size_t kilobytes = 0;
  bool wanted = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find(':') > line.find('-')) wanted = line.ends_with(file.path());
    if (wanted && line.starts_with("Rss:")) kilobytes += std::stoul(line.substr(4));
  }
  return kilobytes * 1024;
}

TEST_F(FileTest, ReleasedPartsLeaveMemoryAndComeBack) {
  constexpr size_t kSize = 1 << 20;
  std::string text(kSize, 'x');
  for (size_t i = 0; i < kSize; ++i) text[i] = static_cast<char>(i * 31 >> 8);
  write_file(path("big"), text);
  const MappedFile file(path("big"));
  const auto same = [&] { return std::memcmp(file.bytes().data(), text.data(), kSize) == 0; };
  EXPECT_TRUE(same());
  EXPECT_EQ(resident(file), kSize);
  file.release(file.bytes().subspan(100, kSize / 2));
  EXPECT_LE(resident(file), kSize / 2);
  EXPECT_TRUE(same());
  file.release(file.bytes());
  EXPECT_EQ(resident(file), 0u);
  EXPECT_TRUE(same());
}

TEST_F(FileTest, ReleasesOnlyItsOwnBytes) {
  write_file(path("a"), "text");
  const MappedFile file(path("a"));
  std::vector<std::byte> other(1 << 16, std::byte{7});
  file.release(other);
  file.release({file.bytes().data(), 1 << 20});
  file.release({});
  EXPECT_THAT(other, ::testing::Each(std::byte{7}));
  EXPECT_EQ(static_cast<char>(file.bytes()[0]), 't');
}

TEST_F(FileTest, EmptyFileIsAnEmptySpan) {
  write_file(path("empty"), "");
  EXPECT_TRUE(MappedFile(path("empty")).bytes().empty());
  EXPECT_EQ(read_file(path("empty"), 0), "");
}

TEST_F(FileTest, RefusesWhatIsNoFile) {
  EXPECT_EQ(code_of(path("missing")), ErrorCode::kNotFound);
  EXPECT_EQ(code_of(folder_.string()), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of("/dev/null"), ErrorCode::kInvalidArgument);
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(code_of(path("pipe")), ErrorCode::kInvalidArgument);
  write_file(path("file"), "x");
  EXPECT_EQ(code_of(path("file") + "/child"), ErrorCode::kNotFound);
}

TEST_F(FileTest, ReadIsBounded) {
  write_file(path("a"), "12345");
  EXPECT_THROW(read_file(path("a"), 4), Error);
}

TEST_F(FileTest, AbandonedWriteLeavesTheOldFileAndNoRubbish) {
  write_file(path("a"), "old");
  {
    AtomicFile file(path("a"));
    file.write("new, but never finished");
    EXPECT_EQ(read_file(path("a"), 100), "old");
    EXPECT_EQ(entries(), 2u);
  }
  EXPECT_EQ(read_file(path("a"), 100), "old");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FileTest, CommitReplacesTheFileAsAWhole) {
  write_file(path("a"), "old");
  const MappedFile reader(path("a"));
  {
    AtomicFile file(path("a"));
    file.write("n");
    file.write("ew");
    file.commit();
  }
  EXPECT_EQ(read_file(path("a"), 100), "new");
  EXPECT_EQ(static_cast<char>(reader.bytes()[0]), 'o');  // an open reader keeps its file
  EXPECT_EQ(entries(), 1u);
  struct stat status;
  ASSERT_EQ(stat(path("a").c_str(), &status), 0);
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(status.st_mode & 0777, 0666 & ~mask);
}

TEST_F(FileTest, UnwritablePlaceIsAnError) {
  EXPECT_THROW(write_file(path("no/such/folder"), "x"), Error);
  EXPECT_THROW(write_file(path(""), "x"), Error);  // the folder itself cannot be replaced
  EXPECT_EQ(entries(), 0u);
}

}  // namespace
}  // namespace clover
