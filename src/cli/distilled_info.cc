// SPDX-License-Identifier: Apache-2.0
#include "cli/distilled_info.h"

#include <fmt/format.h>

#include "cli/model_summary.h"
#include "train/dataset.h"

namespace clover {

Json distilled_summary(const std::string& folder) {
  const Dataset data({folder});
  const DistilledCounts c = data.counts();
  const Dataset::Shares shares = data.shares();
  return {{"path", folder},
          {"target", target_json(data.settings())},
          {"settings", settings_json(data.settings())},
          {"shards", c.shards},
          {"bytes", c.bytes},
          {"tasks", c.tasks},
          {"samples", c.samples},
          {"greedy_samples", shares.greedy_samples},
          {"self_drawn_samples", shares.self_drawn_samples},
          {"ended_samples", shares.ended_samples},
          {"samples_of_several_turns", shares.several_turns},
          {"tokens", c.tokens},
          {"response_tokens", c.response_tokens},
          {"dropped", dropped_json(c.dropped)}};
}

std::string distilled_text(const Json& summary) {
  // A name from a file in one line without control characters.
  const std::string name = json_line(summary["target"]["name"]);
  const auto number = [&](const char* key) { return summary[key].get<int64_t>(); };
  const Json& made = summary["settings"];
  const Json& dropped = summary["dropped"];
  const auto row = [](const char* label, const std::string& value) {
    return fmt::format("{:<14} {}\n", label, value);
  };
  return row("distilled data", fmt::format("{} shards, {}", number("shards"),
                                           format_bytes(static_cast<double>(number("bytes"))))) +
         row("target", name.substr(1, name.size() - 2)) +
         row("fingerprint", summary["target"]["fingerprint"].get<std::string>()) +
         row("prompts",
             fmt::format("{} done, {} of them dropped", number("tasks"),
                         dropped["duplicate"].get<int64_t>() + dropped["excluded"].get<int64_t>() +
                             dropped["unusable"].get<int64_t>() +
                             dropped["failed"].get<int64_t>())) +
         row("samples",
             fmt::format("{}: {} greedy, {} at temperature {}; {} self-drawn; {} of several turns; "
                         "{} ended by themselves",
                         number("samples"), number("greedy_samples"),
                         number("samples") - number("greedy_samples"),
                         made["temperature"].get<double>(), number("self_drawn_samples"),
                         number("samples_of_several_turns"), number("ended_samples"))) +
         row("tokens", fmt::format("{}, of them {} of answers", number("tokens"),
                                   number("response_tokens"))) +
         row("settings",
             fmt::format("seed {}, at most {} tokens an answer, context {}",
                         made["seed"].get<uint64_t>(), made["max_tokens"].get<int64_t>(),
                         made["context"].get<int64_t>()));
}

}  // namespace clover
