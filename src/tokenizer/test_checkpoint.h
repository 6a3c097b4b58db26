// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace clover {

// A checkpoint made in memory for tokenizer tests: GGUF metadata, or documents and side files.
class FakeCheckpoint final : public Checkpoint {
 public:
  explicit FakeCheckpoint(Format format) : format_(format) {}

  void set_text(const std::string& key, const std::string& text) {
    metadata_.emplace_back(key, MetaValue{MetaValue::Scalar(text)});
  }
  void set_int(const std::string& key, int64_t value) {
    metadata_.emplace_back(key, MetaValue{MetaValue::Scalar(value)});
  }
  void set_bool(const std::string& key, bool value) {
    metadata_.emplace_back(key, MetaValue{MetaValue::Scalar(value)});
  }
  template <typename T>
  void set_array(const std::string& key, std::vector<T> values) {
    metadata_.emplace_back(key, MetaValue{std::move(values)});
  }
  void set_document(const std::string& name, const Json& document) { documents_[name] = document; }
  void set_file(const std::string& name, const std::string& file) { files_by_name_[name] = file; }

  Format format() const override { return format_; }
  const std::string& path() const override { return path_; }
  const std::vector<std::string>& files() const override { return files_; }
  int64_t total_bytes() const override { return 0; }
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view) const override { return nullptr; }
  const std::vector<std::pair<std::string, MetaValue>>& metadata() const override {
    return metadata_;
  }
  const Json* document(std::string_view name) const override {
    const auto it = documents_.find(std::string(name));
    return it == documents_.end() ? nullptr : &it->second;
  }
  std::optional<std::string> side_file(std::string_view name) const override {
    const auto it = files_by_name_.find(std::string(name));
    if (it == files_by_name_.end()) return std::nullopt;
    return it->second;
  }

 private:
  Format format_;
  std::string path_ = "fake model";
  std::vector<std::string> files_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::pair<std::string, MetaValue>> metadata_;
  std::map<std::string, Json> documents_;
  std::map<std::string, std::string> files_by_name_;
};

}  // namespace clover
