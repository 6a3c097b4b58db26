// SPDX-License-Identifier: Apache-2.0
#include "cli/speculators.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "cli/session.h"
#include "model/fingerprint.h"
#include "speculation/speculators/draft_model.h"
#include "speculation/speculators/ngram.h"
#include "speculation/speculators/package.h"
#include "speculation/speculators/recycling.h"

namespace clover {
namespace {

namespace fs = std::filesystem;

// Drafts are token ids, so both models must mean the same by every one.
void check_vocabulary(const std::string& path, const Tokenizer& draft, const Tokenizer& target) {
  if (draft.vocab_size() != target.vocab_size())
    fail(ErrorCode::kInvalidArgument, "-s {}: its vocabulary has {} tokens, the model's {}", path,
         draft.vocab_size(), target.vocab_size());
  for (TokenId id = 0; id < target.vocab_size(); ++id)
    if (draft.token_bytes(id) != target.token_bytes(id))
      fail(ErrorCode::kInvalidArgument,
           "-s {}: its vocabulary is another one than the model's (token {} is '{}', not '{}')",
           path, id, draft.token_bytes(id), target.token_bytes(id));
}

SpeculatorFactory open_draft_model(const std::string& path, const SpeculatorTarget& target) {
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(path);
  check_vocabulary(path, *load_tokenizer(*checkpoint), *target.tokenizer);
  std::shared_ptr<const Model> model = Model::load(*checkpoint, target.backend);
  return [model](const SpeculatorHost& host) {
    return std::make_unique<DraftModelSpeculator>(model, host);
  };
}

std::vector<SpeculatorFactory> open_named(const std::string& name, const SpeculatorTarget& target) {
  if (name == "ngram")
    return {[](const SpeculatorHost&) { return std::make_unique<NgramSpeculator>(); }};
  if (name == "recycle")
    return {[](const SpeculatorHost&) { return std::make_unique<RecyclingSpeculator>(); }};
  if (is_package(name)) return open_package(name, *open_checkpoint(target.path), target.model);
  return {open_draft_model(name, target)};
}

// Folders in which packages may lie, best first.
std::vector<fs::path> package_folders(const std::string& model) {
  std::error_code ignored;
  std::vector<fs::path> folders;
  if (fs::is_directory(model, ignored)) folders.push_back(fs::path(model) / "speculators");
  folders.push_back(fs::path(model).parent_path() / "speculators");
  folders.push_back(beside_program("models/speculators"));
  return folders;
}

// A package in `folder` that was made for the target; empty when there is none. What cannot be
// read is no package: nobody asked for it by name.
std::string fitting_package(const fs::path& folder, const SpeculatorTarget& target) {
  std::error_code ignored;
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (is_package(entry.path().string())) paths.push_back(entry.path().string());
  if (paths.empty()) return {};
  std::sort(paths.begin(), paths.end());
  const Verifier wanted =
      describe_target(target.model->config(), model_fingerprint(*open_checkpoint(target.path)));
  for (const std::string& path : paths) {
    try {
      check_verifier(read_package_config(path).verifier, wanted, path);
      return path;
    } catch (const Error&) {
    }
  }
  return {};
}

}  // namespace

void add_speculation_options(CLI::App& verb, SpeculationOptions& options) {
  verb.add_option("-s,--speculator", options.speculators,
                  "what drafts, joined by +: ngram, recycle, a speculator's folder, a smaller "
                  "model; or none (default: the one that ships for the model, if any, and "
                  "ngram+recycle)")
      ->type_name("NAME|PATH");
  verb.add_option_function<std::string>(
          "--tree",
          [&options](const std::string& text) {
            try {
              TreePolicy::parse(text);
            } catch (const Error& error) {
              throw CLI::ValidationError("--tree", error.what());
            }
            options.tree = text;
          },
          "drafts of a step: auto, a number of nodes, NxD, chainN, fixed25 or clover1 (default "
          "auto)")
      ->type_name("TREE");
}

std::vector<std::string> split_speculators(const std::string& text) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('+', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

std::vector<std::string> package_weight_names() { return {"q8_0", "q4_1", "bf16", "f32"}; }

DType package_weights(const std::string& name) {
  if (name == "q4_1") return DType::kQ4_1;
  if (name == "bf16") return DType::kBF16;
  return name == "f32" ? DType::kF32 : DType::kQ8_0;
}

void check_package_out(const std::string& out) {
  if (fs::exists(out) && !is_package(out))
    fail(ErrorCode::kInvalidArgument, "--out {}: exists and is no speculator package", out);
}

void check_speculators(const std::string& text) {
  if (text == "none" || text == kDefaultSpeculators) return;
  const std::vector<std::string> names = split_speculators(text);
  for (const std::string& name : names) {
    if (std::count(names.begin(), names.end(), name) > 1)
      fail(ErrorCode::kInvalidArgument, "-s {}: '{}' is given twice", text, name);
    std::error_code ignored;
    if (name != "ngram" && name != "recycle" && !std::filesystem::exists(name, ignored))
      fail(ErrorCode::kNotFound,
           "-s {}: there is no speculator and no file '{}' (known: ngram, recycle; none alone)",
           text, name);
  }
}

std::string resolve_speculators(const std::string& text, const SpeculatorTarget& target) {
  if (text != kDefaultSpeculators) return text;
  for (const fs::path& folder : package_folders(target.path)) {
    const std::string path = fitting_package(folder, target);
    if (!path.empty()) return path + "+ngram+recycle";
  }
  return "ngram+recycle";
}

std::vector<SpeculatorFactory> open_speculators(const std::string& text,
                                                const SpeculatorTarget& target) {
  std::vector<SpeculatorFactory> speculators;
  if (text == "none") return speculators;
  check_speculators(text);
  for (const std::string& name : split_speculators(resolve_speculators(text, target)))
    for (SpeculatorFactory& factory : open_named(name, target))
      speculators.push_back(std::move(factory));
  return speculators;
}

}  // namespace clover
