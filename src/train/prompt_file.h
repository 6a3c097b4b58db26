// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace clover {

// What a user said in one conversation: the texts of the user's turns, in order. Empty where the
// file's record has none.
using UserTurns = std::vector<std::string>;

// Called with each record; `where` names it ("FILE, line 7", "FILE, item 7").
using PromptSink = std::function<void(UserTurns turns, const std::string& where)>;

struct PromptFileCounts {
  int64_t records = 0;  // good ones
  int64_t bad = 0;      // skipped ones
};

// Reads the prompts of a file, plain or gzip's: JSON lines, or one JSON list. A record is
// {"prompt": text}, {"turns": [text]} (Spec-Bench), {"conversations": [{"from", "value"}]}
// (ShareGPT; the turns of "human" or "user") or {"messages": [{"role", "content"}]} (the turns of
// "user"). Turns of white space only are left out. A bad record is an Error(kCorrupt) naming the
// file, the line or item, and the field; with `skip_bad` it is counted instead. Always errors: a
// file without a record, broken gzip data, a list that is not closed.
PromptFileCounts read_prompts(const std::string& path, bool skip_bad, const PromptSink& sink);

}  // namespace clover
