// SPDX-License-Identifier: Apache-2.0
#include "measure/report/result_field.h"

#include <utility>

#include "base/error.h"
#include "plot/plot.h"

namespace clover {

std::string ResultField::place() const {
  return path_.empty() ? file_ + ": the file's content" : file_ + ": " + path_;
}

ResultField ResultField::operator[](std::string_view key) const {
  if (!value_->is_object()) fail(ErrorCode::kCorrupt, "{} is no object", place());
  const std::string path = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  const auto found = value_->find(key);
  if (found == value_->end()) fail(ErrorCode::kCorrupt, "{}: the key {} is missing", file_, path);
  return {file_, path, *found};
}

bool ResultField::has(std::string_view key) const {
  if (!value_->is_object()) return false;
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

std::vector<ResultField> ResultField::list() const {
  if (!value_->is_array()) fail(ErrorCode::kCorrupt, "{} is no list", place());
  std::vector<ResultField> fields;
  for (size_t i = 0; i < value_->size(); ++i)
    fields.push_back({file_, fmt::format("{}[{}]", path_, i), (*value_)[i]});
  return fields;
}

std::vector<std::pair<std::string, ResultField>> ResultField::members() const {
  if (!value_->is_object()) fail(ErrorCode::kCorrupt, "{} is no object", place());
  std::vector<std::pair<std::string, ResultField>> fields;
  for (const auto& [key, value] : value_->items())
    fields.emplace_back(
        key, ResultField(file_, path_.empty() ? key : fmt::format("{}.{}", path_, key), value));
  return fields;
}

std::string ResultField::text() const {
  if (!value_->is_string()) fail(ErrorCode::kCorrupt, "{} is no text", place());
  return value_->get<std::string>();
}

bool ResultField::flag() const {
  if (!value_->is_boolean()) fail(ErrorCode::kCorrupt, "{} is neither true nor false", place());
  return value_->get<bool>();
}

int64_t ResultField::count(int64_t least) const {
  constexpr int64_t kMost = int64_t{1} << 53;
  if (!value_->is_number_integer() ||
      (value_->is_number_unsigned() && value_->get<uint64_t>() > static_cast<uint64_t>(kMost)))
    fail(ErrorCode::kCorrupt, "{} is no whole number", place());
  const auto count = value_->get<int64_t>();
  if (count < least)
    fail(ErrorCode::kCorrupt, "{} is {} and must be at least {}", place(), count, least);
  return count;
}

double ResultField::measurement() const {
  if (value_->is_null()) return kNoValue;
  if (!value_->is_number()) fail(ErrorCode::kCorrupt, "{} is no number", place());
  return value_->get<double>();
}

}  // namespace clover
