// SPDX-License-Identifier: Apache-2.0
#pragma once

// Helpers shared by the tests of the model room: the tiny models of tests/data/tiny (made by
// tools/make_tiny_models.py), checkpoints that can be edited in memory, and one-line passes.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "tensor/quant.h"

namespace clover::testing_support {

inline std::string tiny_path(const std::string& name) {
  return std::string(CLOVER_SOURCE_DIR) + "/tests/data/tiny/" + name;
}

// Opens NAME/ or, for names that begin with "gguf_", NAME.gguf.
inline std::unique_ptr<Checkpoint> open_tiny(const std::string& name) {
  return open_checkpoint(tiny_path(name.starts_with("gguf_") ? name + ".gguf" : name));
}

// What the reference computed (NAME.expected).
struct Expected {
  int64_t tokens_count = 0, hidden_size = 0, vocab = 0, half = 0;
  std::vector<int32_t> tokens;     // [T]
  std::vector<int32_t> rows;       // [N] the rows below
  std::vector<int32_t> positions;  // [P] of the angles
  std::vector<float> hidden;       // [N][D] before the final norm
  std::vector<float> logits;       // [N][V]
  std::vector<float> cos, sin;     // [P][half]
};

inline Expected read_expected(const std::string& name) {
  std::ifstream file(tiny_path(name + ".expected"), std::ios::binary);
  const auto read = [&](auto& out, int64_t count) {
    out.resize(static_cast<size_t>(count));
    file.read(reinterpret_cast<char*>(out.data()),
              static_cast<std::streamsize>(out.size() * sizeof(out[0])));
    if (!file) throw std::runtime_error(name + ".expected is missing or truncated");
  };
  std::vector<int32_t> head;
  read(head, 7);
  if (head[0] != 0x31584C43) throw std::runtime_error(name + ".expected is of another kind");
  Expected e{.tokens_count = head[1],
             .hidden_size = head[2],
             .vocab = head[3],
             .half = head[6],
             .tokens = {},
             .rows = {},
             .positions = {},
             .hidden = {},
             .logits = {},
             .cos = {},
             .sin = {}};
  read(e.tokens, head[1]);
  read(e.rows, head[4]);
  read(e.positions, head[5]);
  read(e.hidden, int64_t{head[4]} * head[2]);
  read(e.logits, int64_t{head[4]} * head[3]);
  read(e.cos, int64_t{head[5]} * head[6]);
  read(e.sin, int64_t{head[5]} * head[6]);
  return e;
}

// A checkpoint in memory that starts as a copy of another (which must outlive it) and can be
// edited, to make broken and converted files.
class EditedCheckpoint : public Checkpoint {
 public:
  explicit EditedCheckpoint(const Checkpoint& base)
      : format_(base.format()),
        path_(base.path()),
        files_(base.files()),
        tensors_(base.tensors()),
        metadata_(base.metadata()) {
    if (const Json* config = base.document("config.json")) config_ = *config;
  }

  Format format() const override { return format_; }
  const std::string& path() const override { return path_; }
  const std::vector<std::string>& files() const override { return files_; }
  int64_t total_bytes() const override { return 0; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override {
    for (const TensorInfo& t : tensors_) {
      if (t.name == name) return &t;
    }
    return nullptr;
  }
  const std::vector<std::pair<std::string, MetaValue>>& metadata() const override {
    return metadata_;
  }
  const Json* document(std::string_view name) const override {
    return name == "config.json" && !config_.is_null() ? &config_ : nullptr;
  }
  std::optional<std::string> side_file(std::string_view) const override { return std::nullopt; }

  Json& config() { return config_; }
  void set_meta(const std::string& key, MetaValue value) {
    erase_meta(key);
    metadata_.emplace_back(key, std::move(value));
  }
  void erase_meta(const std::string& key) {
    std::erase_if(metadata_, [&](const auto& entry) { return entry.first == key; });
  }
  TensorInfo& tensor(const std::string& name) {
    for (TensorInfo& t : tensors_) {
      if (t.name == name) return t;
    }
    throw std::runtime_error("no tensor " + name);
  }
  void erase(const std::string& name) {
    std::erase_if(tensors_, [&](const TensorInfo& t) { return t.name == name; });
  }
  void add(const std::string& name, std::vector<int64_t> shape, const std::vector<float>& values) {
    tensors_.push_back({name, DType::kF32, std::move(shape), {}});
    store(tensors_.back(), values);
  }
  std::vector<float> values(const std::string& name) { return decode(tensor(name)); }
  // Decodes one tensor, or all, to float32: the weights that a reference sees.
  void to_float32(const std::string& name) { store(tensor(name), decode(tensor(name))); }
  void to_float32() {
    for (TensorInfo& t : tensors_) store(t, decode(t));
  }

 private:
  static std::vector<float> decode(const TensorInfo& t) {
    const int64_t count =
        std::accumulate(t.shape.begin(), t.shape.end(), int64_t{1}, std::multiplies<>());
    std::vector<float> out(static_cast<size_t>(count));
    dequantise(t.type, t.data.data(), count, out.data());
    return out;
  }
  void store(TensorInfo& t, const std::vector<float>& values) {
    owned_.emplace_back(values.size() * sizeof(float));
    std::memcpy(owned_.back().data(), values.data(), owned_.back().size());
    t.type = DType::kF32;
    t.data = owned_.back();
  }

  Format format_;
  std::string path_;
  std::vector<std::string> files_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::pair<std::string, MetaValue>> metadata_;
  Json config_;
  std::deque<std::vector<std::byte>> owned_;
};

// Hidden states and logits of a pass, on the host; logits only of the rows that wanted them.
struct PassRows {
  int64_t hidden_size = 0, vocab = 0;
  std::vector<float> hidden;
  std::vector<float> logits;
  std::span<const float> hidden_row(int64_t r) const { return row(hidden, r, hidden_size); }
  std::span<const float> logits_row(int64_t r) const { return row(logits, r, vocab); }

 private:
  static std::span<const float> row(const std::vector<float>& v, int64_t r, int64_t cols) {
    return std::span(v).subspan(static_cast<size_t>(r * cols), static_cast<size_t>(cols));
  }
};

inline PassRows run_pass(const Model& model, KvStore& kv, const Batch& batch) {
  const ForwardResult result = model.forward(batch, kv);
  PassRows rows{.hidden_size = result.hidden.cols(),
                .vocab = model.config().vocab,
                .hidden = {},
                .logits = {}};
  rows.hidden.resize(static_cast<size_t>(result.hidden.rows() * result.hidden.cols()));
  model.backend().to_host(result.hidden, rows.hidden.data());
  if (!result.logits.empty()) {
    rows.logits.resize(static_cast<size_t>(result.logits.rows() * result.logits.cols()));
    model.backend().to_host(result.logits, rows.logits.data());
  }
  return rows;
}

// Adds a sequence's rows to a batch; parents are relative to the sequence's first row. Every row
// wants logits.
inline void add_sequence(Batch& batch, std::span<const int32_t> blocks, int64_t committed,
                         std::span<const int32_t> tokens, std::span<const int32_t> parents) {
  const int32_t first = static_cast<int32_t>(batch.rows());
  batch.sequences.push_back({blocks, committed, first, static_cast<int64_t>(tokens.size())});
  for (size_t i = 0; i < tokens.size(); ++i) {
    batch.tokens.push_back(tokens[i]);
    batch.parents.push_back(parents[i] < 0 ? -1 : parents[i] + first);
    batch.wants_logits.push_back(1);
  }
}

inline void add_chain(Batch& batch, std::span<const int32_t> blocks, int64_t committed,
                      std::span<const int32_t> tokens) {
  std::vector<int32_t> parents(tokens.size());
  std::iota(parents.begin(), parents.end(), -1);
  add_sequence(batch, blocks, committed, tokens, parents);
}

// Blocks first … first + count - 1, last first: so that block order is not slot order.
inline std::vector<int32_t> descending_blocks(int32_t first, int32_t count) {
  std::vector<int32_t> blocks(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) blocks[static_cast<size_t>(i)] = first + count - 1 - i;
  return blocks;
}

inline int32_t blocks_for(int64_t tokens) {
  return static_cast<int32_t>((tokens + kKvBlockTokens - 1) / kKvBlockTokens);
}

// Runs tokens from an empty cache in chunks of the given size.
inline PassRows run_prompt(const Model& model, std::span<const int32_t> tokens, DType kv_type,
                           int64_t chunk) {
  const int32_t count = blocks_for(static_cast<int64_t>(tokens.size()));
  const std::unique_ptr<KvStore> kv = model.backend().make_kv_store(model.kv_shape(count, kv_type));
  const std::vector<int32_t> blocks = descending_blocks(0, count);
  PassRows all;
  for (size_t at = 0; at < tokens.size(); at += static_cast<size_t>(chunk)) {
    const size_t size = std::min(static_cast<size_t>(chunk), tokens.size() - at);
    Batch batch;
    add_chain(batch, blocks, static_cast<int64_t>(at), tokens.subspan(at, size));
    const PassRows part = run_pass(model, *kv, batch);
    all.hidden_size = part.hidden_size;
    all.vocab = part.vocab;
    all.hidden.insert(all.hidden.end(), part.hidden.begin(), part.hidden.end());
    all.logits.insert(all.logits.end(), part.logits.begin(), part.logits.end());
  }
  return all;
}

inline std::shared_ptr<Backend> backend_for(const std::string& isa, int threads = 1) {
  return make_cpu_backend({.threads = threads, .isa = isa});
}

// |a - b| / |b| in the Euclidean norm.
inline double relative_error(std::span<const float> a, std::span<const float> b) {
  double difference = 0.0, size = 0.0;
  for (size_t i = 0; i < b.size(); ++i) {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    size += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(difference / size);
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace clover::testing_support
