// SPDX-License-Identifier: Apache-2.0
#include "train/distilled_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"

namespace clover {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "clover-distilled";
constexpr int kVersion = 1;
constexpr const char* kPrefix = "shard-";
constexpr const char* kSuffix = ".bin";
constexpr size_t kDigits = 12;
constexpr size_t kMaxManifest = size_t{64} << 20;

std::string shard_name(uint64_t first_task) {
  return fmt::format("{}{:0{}}{}", kPrefix, first_task, kDigits, kSuffix);
}

bool is_shard_name(const std::string& name) {
  const size_t prefix = std::string(kPrefix).size();
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  if (name.size() != shard_name(0).size()) return false;
  return name.substr(prefix, kDigits).find_first_not_of("0123456789") == std::string::npos;
}

// A field of the manifest; Error(kCorrupt) when it is not there or of another type.
template <typename T>
T field(const Json& object, const char* name, const std::string& path) {
  try {
    const auto& value = object.at(name);
    if constexpr (std::is_same_v<T, std::string>) return value.get<std::string>();
    if (!value.is_number()) throw std::invalid_argument("no number");
    return value.get<T>();
  } catch (const std::exception&) {
    fail(ErrorCode::kCorrupt, "{}: {} is missing or of another type", path, name);
  }
}

Json shard_json(const ShardEntry& shard) {
  const ShardHeader& h = shard.header;
  return {{"file", shard.file},  {"first_task", h.first_task},
          {"tasks", h.tasks},    {"samples", h.samples},
          {"tokens", h.tokens},  {"response_tokens", h.response_tokens},
          {"bytes", shard.bytes}};
}

Json counts_json(const DistilledCounts& c) {
  return {{"shards", c.shards},
          {"tasks", c.tasks},
          {"samples", c.samples},
          {"tokens", c.tokens},
          {"response_tokens", c.response_tokens},
          {"bytes", c.bytes},
          {"dropped", dropped_json(c.dropped)}};
}

}  // namespace

Json target_json(const DistillSettings& s) {
  return {{"name", s.target}, {"fingerprint", s.fingerprint}, {"vocab_size", s.vocab}};
}

Json settings_json(const DistillSettings& s) {
  return {{"seed", s.seed},
          {"max_tokens", s.max_tokens},
          {"greedy_share", s.greedy_share},
          {"temperature", s.temperature},
          {"context", s.context}};
}

Json dropped_json(const DroppedTasks& dropped) {
  return {{"duplicate", dropped.duplicate},
          {"excluded", dropped.excluded},
          {"unusable", dropped.unusable},
          {"failed", dropped.failed}};
}

bool is_distilled(const std::string& folder) {
  std::error_code ignored;
  const fs::path manifest = fs::path(folder) / kManifestName;
  if (!fs::is_regular_file(manifest, ignored)) return false;
  try {
    const Json json = parse_json(read_file(manifest.string(), kMaxManifest), manifest.string());
    return json.is_object() && json.contains("format") && json["format"] == kFormat;
  } catch (const Error&) {
    return false;
  }
}

DistillSettings read_manifest(const std::string& folder) {
  const std::string path = (fs::path(folder) / kManifestName).string();
  const Json json = parse_json(read_file(path, kMaxManifest), path);
  if (!json.is_object() || field<std::string>(json, "format", path) != kFormat)
    fail(ErrorCode::kCorrupt, "{}: format: this is no manifest of distilled data", path);
  const auto version = field<int64_t>(json, "version", path);
  if (version != kVersion)
    fail(ErrorCode::kUnsupported, "{}: version {} is unknown, {} is supported", path, version,
         kVersion);
  const auto object = [&](const char* name) -> const Json& {
    if (!json.contains(name) || !json[name].is_object())
      fail(ErrorCode::kCorrupt, "{}: {} is missing or no object", path, name);
    return json[name];
  };
  const Json& target = object("target");
  const Json& made = object("settings");
  return {.target = field<std::string>(target, "name", path),
          .fingerprint = field<std::string>(target, "fingerprint", path),
          .vocab = field<int64_t>(target, "vocab_size", path),
          .seed = field<uint64_t>(made, "seed", path),
          .max_tokens = field<int64_t>(made, "max_tokens", path),
          .greedy_share = field<double>(made, "greedy_share", path),
          .temperature = field<double>(made, "temperature", path),
          .context = field<int64_t>(made, "context", path)};
}

std::vector<std::string> shard_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (is_shard_name(name)) names.push_back(name);
  }
  if (error) fail(ErrorCode::kIo, "cannot read the folder {}: {}", folder, error.message());
  std::sort(names.begin(), names.end());
  return names;
}

DistilledCounts count_shards(const std::vector<ShardEntry>& shards) {
  DistilledCounts c;
  for (const ShardEntry& shard : shards) {
    const ShardHeader& h = shard.header;
    ++c.shards;
    c.tasks += h.tasks;
    c.samples += h.samples;
    c.tokens += static_cast<int64_t>(h.tokens);
    c.response_tokens += static_cast<int64_t>(h.response_tokens);
    c.bytes += static_cast<int64_t>(shard.bytes);
    c.dropped.duplicate += h.dropped.duplicate;
    c.dropped.excluded += h.dropped.excluded;
    c.dropped.unusable += h.dropped.unusable;
    c.dropped.failed += h.dropped.failed;
  }
  return c;
}

DistilledFolder::DistilledFolder(const std::string& folder, const DistillSettings& settings)
    : path_(folder), settings_(settings) {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) fail(ErrorCode::kIo, "cannot make the folder {}: {}", path_, error.message());
  lock_.emplace(path_,
                FolderLock::Words{"cannot write to the folder", "another process is writing to"});
  const bool resumed = fs::exists(fs::path(path_) / kManifestName);
  if (resumed) check_settings();
  if (!resumed && !shard_names(path_).empty())
    fail(ErrorCode::kInvalidArgument, "{} holds shards but no {}; name another folder", path_,
         kManifestName);
  remove_unfinished();
  for (const std::string& name : shard_names(path_)) load(name);
  if (!resumed) write_manifest();
}

void DistilledFolder::remove_unfinished() const {
  std::error_code ignored;
  for (fs::directory_iterator it(path_, ignored), end; !ignored && it != end;
       it.increment(ignored)) {
    const std::string name = it->path().filename().string();
    if (!name.ends_with(".tmp")) continue;
    if (!name.starts_with(kPrefix) && !name.starts_with(kManifestName)) continue;
    std::error_code kept;
    fs::remove(it->path(), kept);
  }
}

void DistilledFolder::check_settings() const {
  const DistillSettings old = read_manifest(path_);
  std::string differences;
  const auto compare = [&](const char* name, const auto& before, const auto& now) {
    if (before != now)
      differences +=
          fmt::format("{}{} {}, not {}", differences.empty() ? "" : "; ", name, before, now);
  };
  compare("target's fingerprint", old.fingerprint, settings_.fingerprint);
  compare("vocabulary", old.vocab, settings_.vocab);
  compare("seed", old.seed, settings_.seed);
  compare("tokens of an answer", old.max_tokens, settings_.max_tokens);
  compare("share of greedy answers", old.greedy_share, settings_.greedy_share);
  compare("temperature", old.temperature, settings_.temperature);
  compare("context", old.context, settings_.context);
  if (!differences.empty())
    fail(ErrorCode::kInvalidArgument,
         "{} was made with other settings ({}); name another folder, or the same settings", path_,
         differences);
}

void DistilledFolder::load(const std::string& name) {
  const MappedFile file((fs::path(path_) / name).string());
  const ShardView shard(file.bytes(), file.path());
  check_shard_digest(file.bytes(), file.path());
  const ShardHeader& header = shard.header();
  if (header.fingerprint != settings_.fingerprint)
    fail(ErrorCode::kCorrupt, "{}: fingerprint: it was made by another target", file.path());
  if (shard_name(header.first_task) != name)
    fail(ErrorCode::kCorrupt, "{}: first_task: {} does not fit the file's name", file.path(),
         header.first_task);
  if (!shards_.empty()) {
    const ShardHeader& last = shards_.rbegin()->second.header;
    if (last.first_task + last.tasks > header.first_task)
      fail(ErrorCode::kCorrupt, "{}: first_task: its tasks are also in {}", file.path(),
           shards_.rbegin()->second.file);
  }
  for (size_t i = 0; i < shard.size(); ++i)
    finished_.insert_or_assign(header.first_task + shard.task(i),
                               Finished{shard.prompt_hash(i), shard.self_drawn(i)});
  shards_[header.first_task] = {name, header, file.bytes().size()};
}

DistilledCounts DistilledFolder::counts() const {
  std::vector<ShardEntry> shards;
  for (const auto& [first, shard] : shards_) shards.push_back(shard);
  return count_shards(shards);
}

void DistilledFolder::write(const ShardHeader& header, std::span<const DistilledSample> samples) {
  const std::string name = shard_name(header.first_task);
  const std::string bytes = shard_bytes(header, samples);
  write_file((fs::path(path_) / name).string(), bytes);
  const ShardView shard(std::as_bytes(std::span(bytes.data(), bytes.size())), name);
  shards_[header.first_task] = {name, shard.header(), bytes.size()};
  for (const DistilledSample& sample : samples)
    finished_.insert_or_assign(header.first_task + sample.task,
                               Finished{sample.prompt_hash, sample.self_drawn});
  write_manifest();
}

void DistilledFolder::write_manifest() const {
  Json list = Json::array();
  for (const auto& [first, shard] : shards_) list.push_back(shard_json(shard));
  const Json manifest = {{"format", kFormat},
                         {"version", kVersion},
                         {"target", target_json(settings_)},
                         {"settings", settings_json(settings_)},
                         {"counts", counts_json(counts())},
                         {"prompts", prompts_},
                         {"shards", std::move(list)}};
  write_file((fs::path(path_) / kManifestName).string(),
             manifest.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace clover
