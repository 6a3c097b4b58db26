// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "tensor/dtype.h"

namespace clover {

// A named tensor inside a mapped file. Shape is outermost first (row-major), so a weight matrix of
// `out` outputs and `in` inputs is {out, in}; GGUF's reversed order is undone at load.
struct TensorInfo {
  std::string name;
  DType type = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> data;  // exactly byte_size(type, product of shape) bytes
};

// One GGUF metadata value. Arrays are homogeneous and hold numbers, booleans or strings.
struct MetaValue {
  using Scalar = std::variant<bool, int64_t, uint64_t, double, std::string>;
  std::variant<Scalar, std::vector<bool>, std::vector<int64_t>, std::vector<uint64_t>,
               std::vector<double>, std::vector<std::string>>
      value;
};

// Read-only view of a model's files: a GGUF file (all its splits) or a Hugging Face folder.
// Knows names, shapes and bytes; interprets no model configuration. Tensors stay valid as long as
// the checkpoint lives (the files are mapped).
class Checkpoint {
 public:
  enum class Format { kGguf, kHuggingFace };
  virtual ~Checkpoint() = default;

  virtual Format format() const = 0;
  virtual const std::string& path() const = 0;
  // All files that hold tensors, in order, and their total size in bytes.
  virtual const std::vector<std::string>& files() const = 0;
  virtual int64_t total_bytes() const = 0;

  virtual const std::vector<TensorInfo>& tensors() const = 0;
  // Null when there is no tensor of that name.
  virtual const TensorInfo* find(std::string_view name) const = 0;
  // Error(kNotFound) naming the tensor and the file when it is missing.
  const TensorInfo& at(std::string_view name) const;
  // Says that a tensor's bytes have been used: they leave this process's memory until they are read
  // again. No effect on tensors that are not of this checkpoint.
  virtual void release(const TensorInfo&) const {}

  // GGUF metadata, in file order of the first split; empty for Hugging Face folders.
  virtual const std::vector<std::pair<std::string, MetaValue>>& metadata() const = 0;
  const MetaValue* find_meta(std::string_view key) const;
  // Typed access: nothing when the key is missing, Error(kCorrupt) naming the key when its type
  // does not convert without loss.
  std::optional<int64_t> meta_int(std::string_view key) const;
  std::optional<double> meta_float(std::string_view key) const;
  std::optional<bool> meta_bool(std::string_view key) const;
  std::optional<std::string> meta_string(std::string_view key) const;
  // Null when missing; Error(kCorrupt) when it is not an array of that kind.
  const std::vector<std::string>* meta_strings(std::string_view key) const;
  std::optional<std::vector<int64_t>> meta_ints(std::string_view key) const;
  std::optional<std::vector<double>> meta_floats(std::string_view key) const;

  // A JSON side file of a Hugging Face folder ("config.json", "tokenizer.json", …), parsed once;
  // null when the folder has none (always null for GGUF). Error(kCorrupt) when it does not parse.
  virtual const Json* document(std::string_view file_name) const = 0;
  // Absolute path of a side file of a Hugging Face folder, or nothing when there is none.
  virtual std::optional<std::string> side_file(std::string_view file_name) const = 0;
};

// Opens a GGUF file (any split of a split model) or a folder with safetensors and config.json.
// Errors: kNotFound, kCorrupt (with key or tensor and offset), kUnsupported (type, version).
std::unique_ptr<Checkpoint> open_checkpoint(const std::string& path);

// Lower-case hexadecimal SHA-256 over the bytes of the files in order. Errors as MappedFile.
std::string files_sha256(std::span<const std::string> paths);

}  // namespace clover
