// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/package.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/digest.h"
#include "checkpoint/writer.h"
#include "model/fingerprint.h"
#include "speculation/speculators/clover.h"
#include "speculation/speculators/eagle.h"
#include "speculation/speculators/int8_matrix.h"
#include "speculation/speculators/ngram_tensors.h"
#include "speculation/speculators/package_reader.h"
#include "speculation/speculators/table_speculator.h"
#include "tensor/quantise.h"

namespace clover {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";
constexpr size_t kMaxConfig = 1 << 20;

Json read_config_json(const std::string& path) {
  const std::string file = (fs::path(path) / kConfig).string();
  return parse_json(read_file(file, kMaxConfig), file);
}

// A folder beside `path` that disappears with its owner unless it was moved away.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const fs::path& path) {
    const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
    std::string pattern = (parent / ("." + path.filename().string() + ".XXXXXX")).string();
    if (!mkdtemp(pattern.data()))
      fail(ErrorCode::kIo, "cannot make a folder in {}: {}", parent.string(), std::strerror(errno));
    path_ = pattern;
    fs::permissions(path_, fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec |
                               fs::perms::others_read | fs::perms::others_exec);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void sync_folder(const fs::path& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool good = descriptor >= 0 && fsync(descriptor) == 0;
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (!good) fail(ErrorCode::kIo, "cannot sync {}: {}", path.string(), std::strerror(error));
}

// Puts `from` where `to` is or will be; what was there lies at `from` afterwards.
void put_in_place(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  const bool there = fs::exists(fs::symlink_status(to, ignored));
  if (there && !is_package(to.string()))
    fail(ErrorCode::kInvalidArgument, "{} exists and is no speculator package", to.string());
  const unsigned flags = there ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) != 0)
    fail(ErrorCode::kIo, "cannot put {} in place: {}", to.string(), std::strerror(errno));
}

// The tensors of a package as its file has them.
class StoredTensors {
 public:
  // `weights` is what matrices run as. Error(kInvalidArgument) naming a tensor with values that are
  // not finite, where it is stored in 8 bits.
  void add(const PackageTensor& tensor, DType weights) {
    const bool runs_wide = weights == DType::kF32 || weights == DType::kBF16;
    if (!runs_wide && fits_int8(tensor.shape)) {
      Int8Matrix matrix = narrow(tensor);
      put({tensor.name, DType::kI8, tensor.shape, {}}, std::move(matrix.integers));
      put({scales_name(tensor.name), DType::kF16, scales_shape(tensor.shape), {}},
          std::move(matrix.scales));
      return;
    }
    const bool vector = tensor.shape.size() == 1;
    const DType type = vector || weights == DType::kF32 ? DType::kF32 : DType::kBF16;
    put({tensor.name, type, tensor.shape, {}},
        quantise(type, tensor.values.data(), static_cast<int64_t>(tensor.values.size())));
  }
  // They look into this object.
  const std::vector<TensorInfo>& infos() const { return infos_; }

 private:
  static Int8Matrix narrow(const PackageTensor& tensor) {
    try {
      return to_int8(tensor.values);
    } catch (const Error& error) {
      fail(error.code(), "tensor {}: {}", tensor.name, error.what());
    }
  }
  void put(TensorInfo info, std::vector<std::byte> bytes) {
    bytes_.push_back(std::move(bytes));
    info.data = bytes_.back();
    infos_.push_back(std::move(info));
  }

  std::vector<std::vector<std::byte>> bytes_;
  std::vector<TensorInfo> infos_;
};

}  // namespace

bool is_package(const std::string& path) {
  try {
    const Json json = read_config_json(path);
    return json.is_object() && json.contains("speculators_model_type");
  } catch (const Error&) {
    return false;
  }
}

PackageConfig read_package_config(const std::string& path) {
  return parse_package_config(read_config_json(path), (fs::path(path) / kConfig).string());
}

std::vector<SpeculatorFactory> open_package(const std::string& path, const Checkpoint& checkpoint,
                                            const std::shared_ptr<const Model>& target) {
  const PackageConfig config = read_package_config(path);
  const ModelTensors tensors = map_tensors(checkpoint, target->config());
  check_verifier(
      config.verifier,
      describe_target(target->config(), model_fingerprint(target->config(), tensors, checkpoint)),
      path);
  const std::unique_ptr<Checkpoint> files = open_checkpoint(path);
  const PackageFiles checked(*files, config, target->config());
  const PackageReader reader(checked, config, {*target, tensors});
  const auto check_host = [path, target](const SpeculatorHost& host) {
    if (host.target != target)
      fail(ErrorCode::kInvalidArgument, "the speculator {} was opened for another model", path);
  };
  std::vector<SpeculatorFactory> factories;
  if (config.eagle()) {
    factories.push_back([weights = reader.eagle(), check_host](const SpeculatorHost& host) {
      check_host(host);
      return std::make_unique<EagleSpeculator>(weights, host);
    });
  } else if (config.has_head()) {
    factories.push_back(
        [weights = reader.clover(), name = config.type, check_host](const SpeculatorHost& host) {
          check_host(host);
          return std::make_unique<CloverSpeculator>(name, weights, host);
        });
  }
  if (config.ngram_table) {
    const auto table =
        std::make_shared<const NgramTable>(read_ngram_table(*files), target->config().vocab, path);
    factories.push_back([table, check_host](const SpeculatorHost& host) {
      check_host(host);
      return std::make_unique<TableSpeculator>(table);
    });
  }
  return factories;
}

Package read_package(const std::string& path, const Checkpoint& checkpoint) {
  const ModelConfig model = read_model_config(checkpoint);
  Package package;
  package.config = read_package_config(path);
  const ModelTensors tensors = map_tensors(checkpoint, model);
  check_verifier(package.config.verifier,
                 describe_target(model, model_fingerprint(model, tensors, checkpoint)), path);
  const std::unique_ptr<Checkpoint> files = open_checkpoint(path);
  const PackageFiles checked(*files, package.config, model);
  if (package.config.ngram_table) {
    package.table = read_ngram_table(*files);
    NgramTable(*package.table, model.vocab, path);  // checks it
  }
  if (!package.config.has_head()) return package;
  for (const TensorLayout& tensor : package_layout(package.config, model))
    package.tensors.push_back({tensor.name, tensor.shape, checked.values(tensor.name)});
  if (checked.has_own_head()) {
    const std::string name(PackageFiles::kOwnHead);
    package.tensors.push_back({name, checked.at(name).shape, checked.values(name)});
  }
  package.d2t = checked.draft_tokens();
  return package;
}

void write_package(const std::string& path, const Package& package) {
  fs::path target(path);
  if (!target.has_filename()) target = target.parent_path();  // "name/"
  StoredTensors stored;
  for (const PackageTensor& tensor : package.tensors) stored.add(tensor, package.config.weights);
  std::vector<TensorInfo> infos = stored.infos();
  if (!package.d2t.empty())
    infos.push_back({"d2t",
                     DType::kI32,
                     {static_cast<int64_t>(package.d2t.size())},
                     std::as_bytes(std::span(package.d2t))});
  if (package.table) append_ngram_tensors(*package.table, infos);
  const TemporaryFolder folder(target);
  write_safetensors((folder.path() / "model.safetensors").string(), infos, {});
  PackageConfig config = package.config;
  config.d2t_sha256 = package.d2t.empty() ? "" : sha256_hex(std::as_bytes(std::span(package.d2t)));
  config.ngram_table = package.table.has_value();
  write_file((folder.path() / kConfig).string(), package_config_json(config).dump(2) + "\n");
  sync_folder(folder.path());
  put_in_place(folder.path(), target);
  sync_folder(target.has_parent_path() ? target.parent_path() : fs::path("."));
}

}  // namespace clover
