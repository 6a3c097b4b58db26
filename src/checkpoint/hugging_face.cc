// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/hugging_face.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/names.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_index.h"

namespace clover {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr size_t kMaxDocument = 256 << 20;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

// F5: whether a shard's file, all links followed, lies in the folder or in the store of the
// Hugging Face cache that the folder is a snapshot of.
bool stays_inside(const fs::path& folder, const fs::path& file) {
  std::error_code error;
  const fs::path target = fs::canonical(file, error);
  if (error) return true;  // does not exist; reported as missing when it is opened
  const fs::path home = fs::canonical(folder, error);
  if (error) return false;
  const fs::path parent = target.parent_path();
  if (parent == home) return true;
  const fs::path snapshots = home.parent_path();
  return snapshots.filename() == "snapshots" && parent == snapshots.parent_path() / "blobs";
}

// Says as exactly as possible why a folder without the expected files cannot be opened.
[[noreturn]] void explain_missing_weights(const std::string& path) {
  std::set<std::string> ggufs;
  std::string torch_file;
  std::string other_safetensors;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".gguf")) ggufs.insert(name);
    if (name.ends_with(".bin") || name.ends_with(".pth") || name.ends_with(".bin.index.json")) {
      torch_file = name;
    }
    if (name.ends_with(".safetensors")) other_safetensors = name;
  }
  if (!ggufs.empty()) {
    fail(ErrorCode::kInvalidArgument,
         "{} is a folder with GGUF files; name one of them, such as {}", path,
         (fs::path(path) / *ggufs.begin()).string());
  }
  if (!other_safetensors.empty()) {
    fail(ErrorCode::kNotFound, "{} holds {}, but neither {} nor {}", path, other_safetensors,
         kSingle, kIndex);
  }
  if (!torch_file.empty()) {
    fail(ErrorCode::kUnsupported,
         "{} holds its weights only as {} (a Python pickle); convert them to safetensors first",
         path, torch_file);
  }
  fail(ErrorCode::kNotFound, "the folder {} has no {}, {} or GGUF file", path, kSingle, kIndex);
}

class HuggingFaceCheckpoint final : public Checkpoint {
 public:
  explicit HuggingFaceCheckpoint(const std::string& path) : path_(path) {
    if (is_file(file(kSingle))) {
      add(kSingle, nullptr);
    } else if (is_file(file(kIndex))) {
      open_shards();
    } else {
      explain_missing_weights(path_);
    }
    index_ = TensorIndex(tensors_, path_);
    refuse_missing();
  }

  Format format() const override { return Format::kHuggingFace; }
  const std::string& path() const override { return path_; }
  const std::vector<std::string>& files() const override { return files_; }
  int64_t total_bytes() const override { return total_bytes_; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override { return index_.find(name); }
  void release(const TensorInfo& tensor) const override {
    for (const MappedFile& map : maps_) map.release(tensor.data);
  }
  const std::vector<std::pair<std::string, MetaValue>>& metadata() const override {
    return metadata_;
  }
  const Json* document(std::string_view file_name) const override;
  std::optional<std::string> side_file(std::string_view file_name) const override;

 private:
  using WeightMap = std::map<std::string, std::string, std::less<>>;  // tensor -> shard

  std::string file(std::string_view name) const { return (fs::path(path_) / name).string(); }
  void open_shards();
  void add(const std::string& name, const WeightMap* weight_map);
  void refuse_missing() const;

  std::string path_;
  std::vector<std::string> files_;
  std::vector<MappedFile> maps_;
  int64_t total_bytes_ = 0;
  std::vector<TensorInfo> tensors_;
  TensorIndex index_;
  WeightMap weight_map_;
  std::vector<std::pair<std::string, MetaValue>> metadata_;  // a folder has none
  mutable std::mutex mutex_;                                 // guards documents_
  mutable std::map<std::string, std::unique_ptr<Json>, std::less<>> documents_;
};

// With a map, only the tensors that the map places in this shard count: it decides between copies.
void HuggingFaceCheckpoint::add(const std::string& name, const WeightMap* weight_map) {
  MappedFile map(file(name));
  SafetensorsFile content = read_safetensors(map.bytes(), map.path());
  for (TensorInfo& tensor : content.tensors) {
    if (weight_map != nullptr) {
      const auto entry = weight_map->find(tensor.name);
      if (entry == weight_map->end() || entry->second != name) continue;
    }
    tensors_.push_back(std::move(tensor));
  }
  files_.push_back(map.path());
  total_bytes_ += static_cast<int64_t>(map.bytes().size());
  maps_.push_back(std::move(map));
}

void HuggingFaceCheckpoint::open_shards() {
  const std::string index_path = file(kIndex);
  const Json index = parse_json(read_file(index_path, kMaxDocument), index_path);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object() || map->empty()) {
    fail(ErrorCode::kCorrupt, "{} has no \"weight_map\" object with tensors", index_path);
  }
  std::set<std::string> shards;
  for (const auto& [tensor, value] : map->items()) {
    const std::string shard = value.is_string() ? value.get<std::string>() : "";
    if (!is_plain_name(shard) || !shard.ends_with(".safetensors")) {
      fail(ErrorCode::kCorrupt,
           "{} places tensor {} in {}, which is not the plain name of a safetensors file",
           index_path, quote_name(tensor), quote_name(value.is_string() ? shard : value.dump()));
    }
    shards.insert(shard);
    weight_map_.emplace(tensor, shard);
  }
  for (const std::string& shard : shards) {
    if (!stays_inside(path_, file(shard))) {
      fail(ErrorCode::kCorrupt, "{} names {}, a link that leaves the folder", index_path,
           quote_name(shard));
    }
    if (!is_file(file(shard))) {
      fail(ErrorCode::kNotFound, "{} names {}, but that file is missing", index_path,
           quote_name(shard));
    }
    add(shard, &weight_map_);
  }
}

void HuggingFaceCheckpoint::refuse_missing() const {
  for (const auto& [tensor, shard] : weight_map_) {
    if (find(tensor) == nullptr) {
      fail(ErrorCode::kCorrupt, "{} places tensor {} in {}, which does not hold it", file(kIndex),
           quote_name(tensor), quote_name(shard));
    }
  }
}

std::optional<std::string> HuggingFaceCheckpoint::side_file(std::string_view file_name) const {
  if (!is_plain_name(file_name) || !is_file(file(file_name))) return std::nullopt;
  return fs::absolute(file(file_name)).string();
}

const Json* HuggingFaceCheckpoint::document(std::string_view file_name) const {
  const std::lock_guard lock(mutex_);
  const auto found = documents_.find(file_name);
  if (found != documents_.end()) return found->second.get();
  const std::optional<std::string> path = side_file(file_name);
  if (!path) return nullptr;
  auto document = std::make_unique<Json>(parse_json(read_file(*path, kMaxDocument), *path));
  return documents_.emplace(file_name, std::move(document)).first->second.get();
}

}  // namespace

std::unique_ptr<Checkpoint> open_hugging_face_folder(const std::string& path) {
  return std::make_unique<HuggingFaceCheckpoint>(path);
}

}  // namespace clover
