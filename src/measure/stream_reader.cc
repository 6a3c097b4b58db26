// SPDX-License-Identifier: Apache-2.0
#include "measure/stream_reader.h"

#include <algorithm>

#include "base/error.h"

namespace clover {
namespace {

constexpr size_t kLongestEvent = 16 << 20;

const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(name);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string text_member(const Json& object, const char* name) {
  const Json* value = member(object, name);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

int64_t whole_member(const Json& object, const char* name, int64_t otherwise) {
  const Json* value = member(object, name);
  return value != nullptr && value->is_number_integer() ? value->get<int64_t>() : otherwise;
}

}  // namespace

void StreamReader::add(std::string_view bytes, double ms) {
  pending_ += bytes;
  if (pending_.size() > kLongestEvent)
    fail(ErrorCode::kCorrupt, "the server sent an event of more than {} bytes", kLongestEvent);
  size_t begin = 0;
  for (size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::string_view line(pending_.data() + begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.starts_with("data:")) continue;  // comments, empty lines, other fields
    line.remove_prefix(5);
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (line == "[DONE]")
      done_ = true;
    else
      event(line, ms);
  }
  pending_.erase(0, begin);
}

void StreamReader::event(std::string_view data, double ms) {
  const Json chunk = parse_json(data, "an event of the server");
  if (const Json* error = member(chunk, "error")) {
    error_ = text_member(*error, "message");
    if (error_.empty()) error_ = "an error without a message";
  }
  if (const Json* usage = member(chunk, "usage")) {
    completion_tokens_ = whole_member(*usage, "completion_tokens", -1);
    prompt_tokens_ = whole_member(*usage, "prompt_tokens", 0);
  }
  const Json* choices = member(chunk, "choices");
  if (choices == nullptr || !choices->is_array() || choices->empty()) return;
  const Json& choice = choices->front();
  if (const std::string finish = text_member(choice, "finish_reason"); !finish.empty())
    finish_ = finish;
  if (const Json* speculation = member(choice, "speculation")) {
    steps_ = whole_member(*speculation, "target_steps", 0);
    accepted_ = whole_member(*speculation, "accepted", 0);
  }
  std::string news = text_member(choice, "text");
  std::string thought;
  if (const Json* delta = member(choice, "delta")) {
    news += text_member(*delta, "content");
    thought = text_member(*delta, "reasoning_content");
  }
  text_ += news;
  if (news.empty() && thought.empty()) return;
  if (first_ms_ < 0.0)
    first_ms_ = ms;
  else
    longest_gap_ms_ = std::max(longest_gap_ms_, ms - last_ms_);
  last_ms_ = ms;
}

}  // namespace clover
