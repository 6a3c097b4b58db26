// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/gguf_checkpoint.h"

#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/gguf_reader.h"
#include "checkpoint/names.h"
#include "checkpoint/tensor_index.h"

namespace clover {
namespace {

constexpr int64_t kMaxSplits = 99999;  // the file names have five digits

// A whole-number key; nothing when it is missing, Error(kCorrupt) when it is something else.
std::optional<int64_t> whole_number(const GgufFile& file, std::string_view key,
                                    const std::string& path) {
  for (const auto& [name, meta] : file.metadata) {
    if (name != key) continue;
    if (const auto* scalar = std::get_if<MetaValue::Scalar>(&meta.value)) {
      const auto* natural = std::get_if<uint64_t>(scalar);
      if (natural && *natural <= INT32_MAX) return static_cast<int64_t>(*natural);
      const auto* integer = std::get_if<int64_t>(scalar);
      if (integer && *integer >= 0 && *integer <= INT32_MAX) return *integer;
    }
    fail(ErrorCode::kCorrupt, "{}: the value of key {} is not a natural number", path,
         quote_name(key));
  }
  return std::nullopt;
}

std::string split_suffix(int64_t number, int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

class GgufCheckpoint final : public Checkpoint {
 public:
  explicit GgufCheckpoint(const std::string& path) : path_(path) {
    open_first();
    index_ = TensorIndex(tensors_, path_);
  }

  Format format() const override { return Format::kGguf; }
  const std::string& path() const override { return path_; }
  const std::vector<std::string>& files() const override { return files_; }
  int64_t total_bytes() const override { return total_bytes_; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override { return index_.find(name); }
  void release(const TensorInfo& tensor) const override {
    for (const MappedFile& map : maps_) map.release(tensor.data);
  }
  const Metadata& metadata() const override { return metadata_; }
  const Json* document(std::string_view) const override { return nullptr; }
  std::optional<std::string> side_file(std::string_view) const override { return std::nullopt; }

 private:
  void open_first();
  void open_splits(int64_t own, int64_t count);
  void add(MappedFile map, GgufFile file);

  std::string path_;
  std::vector<std::string> files_;
  std::vector<MappedFile> maps_;
  int64_t total_bytes_ = 0;
  Metadata metadata_;
  std::vector<TensorInfo> tensors_;
  TensorIndex index_;
};

void GgufCheckpoint::add(MappedFile map, GgufFile file) {
  files_.push_back(map.path());
  total_bytes_ += static_cast<int64_t>(map.bytes().size());
  maps_.push_back(std::move(map));
  tensors_.insert(tensors_.end(), std::make_move_iterator(file.tensors.begin()),
                  std::make_move_iterator(file.tensors.end()));
  if (maps_.size() == 1) metadata_ = std::move(file.metadata);
}

void GgufCheckpoint::open_first() {
  MappedFile map(path_);
  if (!looks_like_gguf(map.bytes()) && path_.ends_with(".safetensors")) {
    fail(ErrorCode::kUnsupported, "{} is one file of a Hugging Face model; name its folder instead",
         path_);
  }
  GgufFile file = read_gguf(map.bytes(), path_);
  const int64_t count = whole_number(file, "split.count", path_).value_or(0);
  if (count <= 1) return add(std::move(map), std::move(file));
  const std::optional<int64_t> own = whole_number(file, "split.no", path_);
  if (count > kMaxSplits || !own || *own >= count) {
    fail(ErrorCode::kCorrupt, "{}: keys \"split.no\" and \"split.count\" make no sense", path_);
  }
  open_splits(*own, count);
}

// Opens all files, the named one (number `own`, from 0) once more: that costs little and keeps them
// in order.
void GgufCheckpoint::open_splits(int64_t own, int64_t count) {
  const std::string own_suffix = split_suffix(own, count);
  if (!path_.ends_with(own_suffix)) {
    fail(ErrorCode::kInvalidArgument,
         "{} is part {} of a model in {} files; its name must end in {} so that the others are "
         "found",
         path_, own + 1, count, own_suffix);
  }
  const std::string prefix = path_.substr(0, path_.size() - own_suffix.size());
  std::optional<int64_t> expected_tensors;
  for (int64_t i = 0; i < count; ++i) {
    const std::string name = prefix + split_suffix(i, count);
    if (!std::filesystem::exists(name)) {
      fail(ErrorCode::kNotFound, "{} is part {} of a model in {} files, but {} is missing", path_,
           own + 1, count, name);
    }
    MappedFile map(name);
    GgufFile file = read_gguf(map.bytes(), name);
    if (whole_number(file, "split.no", name) != i ||
        whole_number(file, "split.count", name) != count) {
      fail(ErrorCode::kCorrupt, "{} does not say that it is part {} of {}", name, i + 1, count);
    }
    if (i == 0) expected_tensors = whole_number(file, "split.tensors.count", name);
    add(std::move(map), std::move(file));
  }
  const auto have = static_cast<int64_t>(tensors_.size());
  if (expected_tensors && *expected_tensors != have) {
    fail(ErrorCode::kCorrupt,
         "{}: the parts hold {} tensors, but key \"split.tensors.count\" says {}", files_.front(),
         have, *expected_tensors);
  }
}

}  // namespace

std::unique_ptr<Checkpoint> open_gguf(const std::string& path) {
  return std::make_unique<GgufCheckpoint>(path);
}

}  // namespace clover
