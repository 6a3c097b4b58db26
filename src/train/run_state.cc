// SPDX-License-Identifier: Apache-2.0
#include "train/run_state.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/writer.h"

namespace clover {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRun = "run";

Json position_json(const RunPosition& p) {
  return {{"step", p.step},           {"epoch", p.epoch},    {"batch", p.batch},
          {"tokens", p.tokens},       {"shards", p.shards},  {"best", p.best},
          {"best_step", p.best_step}, {"seconds", p.seconds}};
}

RunPosition parse_position(const Json& json) {
  RunPosition p;
  json.at("step").get_to(p.step);
  json.at("epoch").get_to(p.epoch);
  json.at("batch").get_to(p.batch);
  json.at("tokens").get_to(p.tokens);
  json.at("shards").get_to(p.shards);
  json.at("best").get_to(p.best);
  json.at("best_step").get_to(p.best_step);
  json.at("seconds").get_to(p.seconds);
  return p;
}

SavedRun parse_run(const SafetensorsFile& file, const std::string& path) {
  for (const auto& [key, value] : file.metadata) {
    if (key != kRun) continue;
    const Json json = parse_json(value, path);
    try {
      SavedRun run{parse_position(json.at("position")), json.at("settings")};
      if (run.position.step >= 0 && run.position.epoch >= 0 && run.position.batch >= 0) return run;
    } catch (const nlohmann::json::exception&) {
    }
    break;
  }
  fail(ErrorCode::kCorrupt, "{} holds no position of a training run", path);
}

}  // namespace

void save_state(const std::string& path, const RunPosition& position, const Json& settings,
                std::span<const StateTensor> tensors) {
  std::vector<TensorInfo> infos;
  infos.reserve(tensors.size());
  for (const StateTensor& tensor : tensors)
    infos.push_back({tensor.name, DType::kF32, tensor.shape, std::as_bytes(tensor.values)});
  const Json run = {{"position", position_json(position)}, {"settings", settings}};
  write_safetensors(path, infos, {{kRun, run.dump()}});
}

SavedRun read_state(const std::string& path) {
  const MappedFile file(path);
  return parse_run(read_safetensors(file.bytes(), path), path);
}

void load_state(const std::string& path, std::span<const StateTensor> tensors) {
  const MappedFile file(path);
  const SafetensorsFile content = read_safetensors(file.bytes(), path);
  for (const StateTensor& tensor : tensors) {
    const auto found =
        std::find_if(content.tensors.begin(), content.tensors.end(),
                     [&](const TensorInfo& info) { return info.name == tensor.name; });
    if (found == content.tensors.end())
      fail(ErrorCode::kCorrupt, "{}: tensor {} is missing", path, tensor.name);
    if (found->type != DType::kF32 || found->shape != tensor.shape ||
        found->data.size() != tensor.values.size_bytes())
      fail(ErrorCode::kCorrupt, "{}: tensor {} has another type or shape", path, tensor.name);
    std::memcpy(tensor.values.data(), found->data.data(), found->data.size());
  }
}

RunFolder::RunFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(ErrorCode::kIo, "cannot make the folder {}: {}", path, error.message());
  lock_.emplace(path, FolderLock::Words{"cannot write in", "another process trains in"});
  std::vector<fs::path> unfinished;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".tmp") || name.starts_with(".last.") || name.starts_with(".best."))
      unfinished.push_back(entry.path());
  }
  for (const fs::path& left : unfinished) fs::remove_all(left, error);
}

void check_settings(const Json& saved, const Json& wanted, const std::string& folder) {
  std::string differing;
  const auto add = [&](const std::string& key, const std::string& was, const std::string& now) {
    differing +=
        fmt::format("{}{} ({} there, {} here)", differing.empty() ? "" : ", ", key, was, now);
  };
  const Json a = saved.flatten();
  const Json b = wanted.flatten();
  for (const auto& [key, value] : b.items()) {
    const std::string was = a.contains(key) ? a.at(key).dump() : "nothing";
    if (was != value.dump()) add(key.substr(1), was, value.dump());
  }
  for (const auto& [key, value] : a.items())
    if (!b.contains(key)) add(key.substr(1), value.dump(), "nothing");
  if (!differing.empty())
    fail(ErrorCode::kInvalidArgument, "{} was trained with other settings: {}", folder, differing);
}

}  // namespace clover
