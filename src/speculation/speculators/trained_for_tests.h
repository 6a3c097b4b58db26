// SPDX-License-Identifier: Apache-2.0
#pragma once

// Helpers for tests of trained speculators: tiny targets, packages with weights that matter, and a
// target pass that never runs: every hidden state is computed beforehand, which row independence
// allows.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "model/model.h"
#include "model/weights.h"
#include "speculation/speculators/init.h"
#include "speculation/speculators/package.h"

namespace clover::testing_support {

struct Target {
  std::unique_ptr<Checkpoint> checkpoint;
  std::shared_ptr<const Model> model;

  explicit Target(const std::string& name, int threads = 1) {
    const std::string path = std::string(CLOVER_SOURCE_DIR) + "/tests/data/tiny/" + name;
    checkpoint = open_checkpoint(name.starts_with("gguf_") ? path + ".gguf" : path);
    model = Model::load(*checkpoint, make_cpu_backend({.threads = threads, .isa = "auto"}));
  }
  explicit Target(std::unique_ptr<Checkpoint> opened, int threads = 2)
      : checkpoint(std::move(opened)),
        model(Model::load(*checkpoint, make_cpu_backend({.threads = threads, .isa = "auto"}))) {}
};

inline std::vector<int32_t> random_tokens(uint64_t seed, int64_t count, int64_t vocab) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<int32_t>(random_bits(seed, static_cast<uint64_t>(i)) %
                                          static_cast<uint64_t>(vocab)));
  return tokens;
}

// An untrained package whose every tensor was changed, so that none could be left out unseen.
inline Package shaken_package(const Target& target, const InitOptions& options, float size = 0.1f) {
  Package package = init_package(*target.checkpoint, options);
  uint64_t stream = 0;
  for (PackageTensor& tensor : package.tensors) {
    const uint64_t key = stream_key(options.seed + 77, stream++);
    for (size_t i = 0; i < tensor.values.size(); ++i)
      tensor.values[i] += size * static_cast<float>(2 * random_uniform(key, i) - 1);
  }
  return package;
}

// A folder that disappears with its owner.
class Folder {
 public:
  Folder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "clover_speculator_test.XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline SpeculatorFactory open_written(const Target& target, const Package& package) {
  const Folder folder;
  write_package(folder / "package", package);
  return open_package(folder / "package", *target.checkpoint, target.model).front();
}

// A sequence whose tokens and hidden states are known to the end.
struct Script {
  std::vector<int32_t> tokens;
  Tensor hidden;                // [tokens]
  std::vector<int32_t> blocks;  // of the speculator's store

  Script(const Target& target, std::vector<int32_t> ids, int32_t first_block)
      : tokens(std::move(ids)) {
    const auto rows = static_cast<int64_t>(tokens.size());
    const int64_t count = (rows + 64) / kKvBlockTokens + 1;
    std::vector<int32_t> own(static_cast<size_t>(count));
    std::iota(own.begin(), own.end(), 0);
    Batch batch;
    batch.tokens = tokens;
    batch.parents.resize(tokens.size());
    std::iota(batch.parents.begin(), batch.parents.end(), -1);
    batch.wants_logits.assign(tokens.size(), 0);
    batch.sequences.push_back({own, 0, 0, rows});
    const auto kv =
        target.model->backend().make_kv_store(target.model->kv_shape(count, DType::kF32));
    hidden = target.model->forward(batch, *kv).hidden;
    // Blocks in an order that is not that of their ids.
    for (int32_t block : own)
      blocks.push_back(first_block + static_cast<int32_t>(count) - 1 - block);
  }
};

// A part of a pass: `count` tokens of a script from `first` on were stored.
struct Stored {
  int64_t id;
  const Script* script;
  int64_t first;
  int64_t count;
};

// Reports one target pass over the parts, with rows of rejected drafts between them.
inline void observe(Speculator& speculator, const Target& target, std::span<const Stored> parts) {
  Backend& backend = target.model->backend();
  const int64_t hidden = target.model->config().hidden;
  std::vector<float> values;
  std::vector<int32_t> tokens;
  std::vector<std::vector<int32_t>> rows;
  const auto add = [&](const float* from, int32_t token) {
    values.insert(values.end(), from, from + hidden);
    tokens.push_back(token);
    return static_cast<int32_t>(tokens.size()) - 1;
  };
  const std::vector<float> rejected(static_cast<size_t>(hidden), 7.0f);
  for (const Stored& part : parts) {
    rows.emplace_back();
    for (int64_t i = part.first; i < part.first + part.count; ++i) {
      add(rejected.data(), 0);
      rows.back().push_back(
          add(part.script->hidden.row(i), part.script->tokens[static_cast<size_t>(i)]));
    }
  }
  std::vector<ObservedSequence> sequences;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto known = static_cast<size_t>(parts[i].first + parts[i].count) + 1;
    sequences.push_back({parts[i].id, std::span(parts[i].script->tokens).first(known),
                         parts[i].script->blocks, parts[i].first, rows[i]});
  }
  const Tensor batch =
      backend.from_host(static_cast<int64_t>(tokens.size()), hidden, values.data());
  const std::vector<int32_t> parents(tokens.size(), -1);
  speculator.observe({batch, tokens, parents, {}, {}, sequences});
}

// A sequence of which the first `known` tokens are committed, the last of them the root.
inline DraftSequence drafting(int64_t id, const Script& script, int64_t known,
                              int64_t draft_slots = 32) {
  return {id, std::span(script.tokens).first(static_cast<size_t>(known)), script.blocks,
          draft_slots};
}

using Candidates = std::vector<std::vector<Candidate>>;

// Candidates along a chain of drafts behind the root of sequence `index`, depth by depth. The round
// has been started and has no nodes yet.
inline Candidates draft_chain(Speculator& speculator, int32_t index, int32_t root,
                              std::span<const int32_t> drafts, int32_t width) {
  Candidates all;
  Candidates out;
  int32_t token = root;
  for (size_t depth = 0; depth <= drafts.size(); ++depth) {
    const DraftNode node{index, static_cast<int32_t>(depth) - 1, token};
    speculator.expand({&node, 1}, width, out);
    all.push_back(out.at(0));
    if (depth < drafts.size()) token = drafts[depth];
  }
  return all;
}

inline ::testing::AssertionResult same_candidates(std::span<const Candidate> a,
                                                  std::span<const Candidate> b) {
  if (a.size() != b.size())
    return ::testing::AssertionFailure() << a.size() << " candidates against " << b.size();
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].token != b[i].token || a[i].probability != b[i].probability || a[i].bin != b[i].bin)
      return ::testing::AssertionFailure()
             << "candidate " << i << ": " << a[i].token << " at " << a[i].probability << " and "
             << b[i].token << " at " << b[i].probability;
  }
  return ::testing::AssertionSuccess();
}

inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline SpeculatorHost host_of(const Target& target, int64_t blocks = 64) {
  return {target.model, blocks, DType::kF32};
}

}  // namespace clover::testing_support
