// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace clover {

// A value inside a result file together with its place, so that every error names the file and the
// key: "x.json: results[3].batch is no number". Refers to the file's Json, which must outlive it.
// All reading functions throw Error(kCorrupt).
class ResultField {
 public:
  ResultField(const std::string& file, const Json& value) : file_(file), value_(&value) {}

  // A member that has to be there.
  ResultField operator[](std::string_view key) const;
  // Whether a member is there and is not null.
  bool has(std::string_view key) const;
  // The elements of a list, the members of an object in the file's order.
  std::vector<ResultField> list() const;
  std::vector<std::pair<std::string, ResultField>> members() const;

  std::string text() const;
  bool flag() const;
  // A whole number of at least `least`.
  int64_t count(int64_t least = 0) const;
  // A number, or not a number where the file has null: JSON lacks what is not finite.
  double measurement() const;

  // The value as JSON text.
  std::string dump() const { return value_->dump(); }

  const std::string& file() const { return file_; }
  // "file: the.key", for errors about the value.
  std::string place() const;

 private:
  ResultField(std::string file, std::string path, const Json& value)
      : file_(std::move(file)), path_(std::move(path)), value_(&value) {}

  std::string file_;
  std::string path_;
  const Json* value_;
};

}  // namespace clover
