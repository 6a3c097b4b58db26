// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "model/config.h"

namespace clover {

// Checked access to the numbers of a model configuration, whichever file they come from. A value
// that JSON spells as null counts as missing.
class ConfigSource {
 public:
  virtual ~ConfigSource() = default;

  // Nothing when the key is missing; Error(kCorrupt) naming it when it has another type.
  virtual std::optional<int64_t> find_int(std::string_view key) const = 0;
  virtual std::optional<double> find_float(std::string_view key) const = 0;
  virtual std::optional<bool> find_bool(std::string_view key) const = 0;
  virtual std::optional<std::string> find_string(std::string_view key) const = 0;
  // The key as a person finds it in the file, for errors: "key 'x' of PATH".
  virtual std::string describe(std::string_view key) const = 0;

  // A value in [low, high]; a missing key takes the fallback, or is an error where there is none.
  int64_t int_in(std::string_view key, int64_t low, int64_t high,
                 std::optional<int64_t> fallback = std::nullopt) const;
  double float_in(std::string_view key, double low, double high,
                  std::optional<double> fallback = std::nullopt) const;
};

// GGUF metadata whose keys begin with "ARCHITECTURE.".
class GgufSource : public ConfigSource {
 public:
  GgufSource(const Checkpoint& checkpoint, std::string architecture)
      : checkpoint_(checkpoint), prefix_(std::move(architecture) + ".") {}
  std::optional<int64_t> find_int(std::string_view key) const override;
  std::optional<double> find_float(std::string_view key) const override;
  std::optional<bool> find_bool(std::string_view key) const override;
  std::optional<std::string> find_string(std::string_view key) const override;
  std::string describe(std::string_view key) const override;

 private:
  const Checkpoint& checkpoint_;
  std::string prefix_;
};

// A JSON object of config.json; `name` is its place for errors ("config.json",
// "config.json: rope_scaling").
class JsonSource : public ConfigSource {
 public:
  JsonSource(const Json& object, std::string name) : object_(object), name_(std::move(name)) {}
  std::optional<int64_t> find_int(std::string_view key) const override;
  std::optional<double> find_float(std::string_view key) const override;
  std::optional<bool> find_bool(std::string_view key) const override;
  std::optional<std::string> find_string(std::string_view key) const override;
  std::string describe(std::string_view key) const override;
  // The value, or null when it is missing or JSON null.
  const Json* find(std::string_view key) const;
  const std::string& name() const { return name_; }

 private:
  const Json& object_;
  std::string name_;
};

// The two readers behind read_model_config; neither checks how values fit together.
ModelConfig read_gguf_config(const Checkpoint& checkpoint);
ModelConfig read_hf_config(const Checkpoint& checkpoint);

// Bounds shared by both readers, far above any real model and far below what overflows.
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxWidth = int64_t{1} << 20;
inline constexpr int64_t kMaxHeads = int64_t{1} << 16;
inline constexpr int64_t kMaxVocab = int64_t{1} << 24;
inline constexpr int64_t kMaxContext = (int64_t{1} << 31) - 1;

// Only Baichuan 2 has this vocabulary; its head rows are meant to have unit length.
inline constexpr int64_t kBaichuan2Vocab = 125696;

}  // namespace clover
