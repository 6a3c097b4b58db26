// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"

namespace clover {
namespace {

// Builds the document itself instead of leaving that to the library, for three reasons: the depth
// is bounded while reading; keys are appended, where the library searches all earlier keys of an
// ordered object first (a vocabulary of 100,000 entries would take a minute); and a key given twice
// is refused, since readers disagree on which one counts.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view what, int max_depth) : what_(what), max_depth_(max_depth) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& value) override { return add(std::move(value)); }

  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool key(string_t& value) override {
    key_ = std::move(value);
    return true;
  }
  bool end_object() override {
    refuse_double_keys(open_.back()->get_ref<const Json::object_t&>());
    open_.pop_back();
    return true;
  }
  bool end_array() override {
    open_.pop_back();
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // The library's text begins with its own tag in brackets.
    const std::string_view text = error.what();
    const size_t tag = text.find("] ");
    fail(ErrorCode::kCorrupt, "{} is not valid JSON at byte {}: {}", what_, position,
         text.substr(tag == std::string_view::npos ? 0 : tag + 2));
  }

 private:
  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json container) {
    if (static_cast<int>(open_.size()) >= max_depth_) {
      fail(ErrorCode::kCorrupt, "{} nests arrays and objects more than {} deep", what_, max_depth_);
    }
    open_.push_back(place(std::move(container)));
    return true;
  }

  // The address stays right while the value is open: only the innermost container grows.
  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      auto& array = parent.get_ref<Json::array_t&>();
      array.push_back(std::move(value));
      return &array.back();
    }
    auto& object = parent.get_ref<Json::object_t&>();
    object.emplace_back(std::move(key_), std::move(value));
    return &object.back().second;
  }

  void refuse_double_keys(const Json::object_t& object) {
    keys_.clear();
    for (const auto& member : object) keys_.push_back(member.first);
    std::sort(keys_.begin(), keys_.end());
    const auto twice = std::adjacent_find(keys_.begin(), keys_.end());
    if (twice == keys_.end()) return;
    fail(ErrorCode::kCorrupt, "{} gives the key {} twice in one object", what_,
         json_line(std::string(twice->substr(0, 100))));
  }

  std::string what_;
  int max_depth_;
  Json root_;
  std::vector<Json*> open_;
  std::string key_;
  std::vector<std::string_view> keys_;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view what, int max_depth) {
  Builder builder(what, max_depth);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string json_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace clover
