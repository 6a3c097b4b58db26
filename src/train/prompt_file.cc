// SPDX-License-Identifier: Apache-2.0
#include "train/prompt_file.h"

#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "train/text_source.h"

namespace clover {
namespace {

constexpr size_t kMaxRecord = size_t{16} << 20;
constexpr std::string_view kSpace = " \t\r\n";

bool blank(std::string_view text) { return text.find_first_not_of(kSpace) == text.npos; }

void add_turn(UserTurns& turns, const Json& text, const std::string& where, const char* field) {
  if (!text.is_string()) fail(ErrorCode::kCorrupt, "{}: {} is no string", where, field);
  auto turn = text.get<std::string>();
  if (!blank(turn)) turns.push_back(std::move(turn));
}

// The user's turns of a list of {speaker, text}.
UserTurns spoken_turns(const Json& list, const std::string& where, const char* field,
                       const char* speaker, const char* text) {
  if (!list.is_array()) fail(ErrorCode::kCorrupt, "{}: {} is no list", where, field);
  UserTurns turns;
  for (const Json& turn : list) {
    if (!turn.is_object() || !turn.contains(speaker) || !turn[speaker].is_string())
      fail(ErrorCode::kCorrupt, "{}: {} holds a turn without {}", where, field, speaker);
    const auto who = turn[speaker].get<std::string>();
    if (who != "human" && who != "user") continue;
    if (!turn.contains(text))
      fail(ErrorCode::kCorrupt, "{}: {} holds a turn without {}", where, field, text);
    add_turn(turns, turn[text], where, text);
  }
  return turns;
}

UserTurns record_turns(const Json& record, const std::string& where) {
  if (!record.is_object()) fail(ErrorCode::kCorrupt, "{}: not a JSON object", where);
  UserTurns turns;
  if (record.contains("turns")) {
    if (!record["turns"].is_array()) fail(ErrorCode::kCorrupt, "{}: turns is no list", where);
    for (const Json& turn : record["turns"]) add_turn(turns, turn, where, "a turn of turns");
  } else if (record.contains("conversations")) {
    return spoken_turns(record["conversations"], where, "conversations", "from", "value");
  } else if (record.contains("messages")) {
    return spoken_turns(record["messages"], where, "messages", "role", "content");
  } else if (record.contains("prompt")) {
    add_turn(turns, record["prompt"], where, "prompt");
  } else {
    fail(ErrorCode::kCorrupt, "{}: has none of prompt, turns, conversations and messages", where);
  }
  return turns;
}

class PromptReader {
 public:
  PromptReader(const std::string& path, bool skip_bad, const PromptSink& sink)
      : source_(path), skip_bad_(skip_bad), sink_(sink) {}

  PromptFileCounts read() {
    skip_space();
    if (source_.peek() == '[')
      read_list();
    else
      read_lines();
    if (counts_.records == 0)
      fail(ErrorCode::kCorrupt, "{} holds no prompt{}", source_.path(),
           counts_.bad > 0 ? fmt::format(": all {} records are bad", counts_.bad) : "");
    return counts_;
  }

 private:
  void skip_space() {
    while (source_.peek() >= 0 && kSpace.find(static_cast<char>(source_.peek())) != kSpace.npos)
      if (source_.get() == '\n') ++line_;
  }

  void take(const std::string& text, bool complete, const std::string& where) {
    UserTurns turns;
    try {
      if (!complete)
        fail(ErrorCode::kCorrupt, "{}: more than {} MiB in one record", where, kMaxRecord >> 20);
      turns = record_turns(parse_json(text, where), where);
    } catch (const Error&) {
      if (!skip_bad_) throw;
      ++counts_.bad;
      return;
    }
    ++counts_.records;
    sink_(std::move(turns), where);
  }

  void read_lines() {
    for (std::string text; source_.peek() >= 0; ++line_, text.clear()) {
      bool complete = true;
      for (int c = source_.get(); c >= 0 && c != '\n'; c = source_.get()) {
        complete = complete && text.size() < kMaxRecord;
        if (complete) text += static_cast<char>(c);
      }
      if (complete && blank(text)) continue;
      take(text, complete, fmt::format("{}, line {}", source_.path(), line_));
    }
  }

  // Takes the text up to the comma or bracket that ends a list's item, which stays. False when it
  // is too long.
  bool read_item(std::string& text) {
    bool complete = true;
    bool quoted = false;
    int64_t depth = 0;
    for (int c = source_.peek(); c >= 0; c = source_.peek()) {
      if (!quoted && depth == 0 && (c == ',' || c == ']')) return complete;
      source_.get();
      complete = complete && text.size() + 1 < kMaxRecord;
      if (complete) text += static_cast<char>(c);
      if (quoted && c == '\\') {
        const int escaped = source_.get();
        if (escaped >= 0 && complete) text += static_cast<char>(escaped);
      } else if (c == '"') {
        quoted = !quoted;
      } else if (!quoted && (c == '{' || c == '[')) {
        ++depth;
      } else if (!quoted && (c == '}' || c == ']')) {
        --depth;
      }
    }
    fail(ErrorCode::kCorrupt, "{}: its list is not closed", source_.path());
  }

  void read_list() {
    source_.get();
    skip_space();
    int end = ',';
    if (source_.peek() == ']') end = source_.get();
    for (int64_t item = 1; end == ','; ++item) {
      std::string text;
      const bool complete = read_item(text);
      take(text, complete, fmt::format("{}, item {}", source_.path(), item));
      end = source_.get();
    }
    skip_space();
    if (source_.peek() >= 0)
      fail(ErrorCode::kCorrupt, "{}: something follows its list", source_.path());
  }

  TextSource source_;
  bool skip_bad_;
  const PromptSink& sink_;
  PromptFileCounts counts_;
  int64_t line_ = 1;
};

}  // namespace

PromptFileCounts read_prompts(const std::string& path, bool skip_bad, const PromptSink& sink) {
  return PromptReader(path, skip_bad, sink).read();
}

}  // namespace clover
