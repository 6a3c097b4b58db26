// SPDX-License-Identifier: Apache-2.0
#include "train/prompt_list.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace clover {

uint64_t prompt_hash(std::span<const TokenId> first, std::span<const std::string> turns) {
  uint64_t hash = mix_all(mix64(first.size()), first);
  for (size_t i = 1; i < turns.size(); ++i)
    hash = mix_all(mix64(hash ^ turns[i].size()), std::span<const char>(turns[i]));
  return std::max<uint64_t>(hash, 1);
}

PromptList::PromptList(const PromptMaker& maker, const ExclusionSet& exclusion,
                       PromptListOptions options)
    : maker_(maker), exclusion_(exclusion), options_(options) {}

void PromptList::add_file(const std::string& path) {
  if (self_drawn_ > 0)
    fail(ErrorCode::kInvalidArgument, "prompts of files come before self-drawn ones");
  const PromptFileCounts counts =
      read_prompts(path, options_.skip_bad, [&](UserTurns turns, const std::string& where) {
        try {
          add(std::move(turns));
        } catch (const Error& error) {
          fail(error.code(), "{}: {}", where, error.what());
        }
      });
  counts_.records += counts.records;
  counts_.bad += counts.bad;
}

void PromptList::add(UserTurns turns) {
  if (turns.empty()) {
    ++counts_.empty;
    return;
  }
  const auto excluded = [&](const std::string& turn) { return exclusion_.matches(turn); };
  if (std::any_of(turns.begin(), turns.end(), excluded)) {
    ++counts_.excluded;
    return;
  }
  const bool cut = turns.size() > 1 && !maker_.has_template();
  if (cut) turns.resize(1);
  const std::vector<TokenId> ids = maker_.prompt(std::span(turns).first(1), {});
  const auto tokens = static_cast<int64_t>(ids.size());
  if (tokens == 0) {
    ++counts_.empty;
  } else if (tokens > options_.max_prompt_tokens) {
    ++counts_.too_long;
  } else if (const uint64_t hash = prompt_hash(ids, turns); !hashes_.insert(hash).second) {
    ++counts_.duplicate;
  } else {
    tasks_.push_back({std::move(turns), hash, 0});
    ++counts_.kept;
    counts_.cut += cut ? 1 : 0;
    counts_.prompt_tokens += tokens;
  }
}

void PromptList::add_self_drawn(int64_t count) {
  for (int64_t i = 0; i < count; ++i) tasks_.push_back({{}, 0, self_drawn_++});
}

}  // namespace clover
