// SPDX-License-Identifier: Apache-2.0
#include "train/task_run.h"

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace clover {
namespace {

constexpr int64_t kMaxDrawnPrompt = 256;  // tokens; longer drafts of a prompt rarely end at all
constexpr std::string_view kSpace = " \t\r\n";

// Lanes of a task's random numbers; turn t draws its answer with lane kAnswers + t.
constexpr uint64_t kGreedyLane = 0;
constexpr uint64_t kAnswers = 1;
// Keeps the seeds of prompts that are drawn apart from those of answers, which are keyed by hash.
constexpr uint64_t kPromptStream = 0x70726f6d7074ULL;

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace

TaskRun::TaskRun(const DistillTask& task, const PromptList& prompts,
                 const DistillSettings& settings, std::function<bool(uint64_t)> known)
    : task_(task),
      prompts_(prompts),
      settings_(settings),
      known_(std::move(known)),
      turns_(task.turns),
      hash_(task.hash) {}

Request TaskRun::draw_request() const {
  Request request;
  request.prompt = prompts_.maker().user_prefix();
  request.sampling.temperature = 1.0f;
  request.sampling.seed = random_bits(stream_key(settings_.seed, kPromptStream),
                                      static_cast<uint64_t>(task_.self_index));
  request.max_tokens = std::min(kMaxDrawnPrompt, prompts_.max_prompt_tokens());
  return request;
}

Request TaskRun::request() {
  if (drawing_prompt()) return draw_request();
  if (prompt_.empty()) prompt_ = prompts_.maker().prompt(std::span(turns_).first(1), {});
  if (key_ == 0) {
    key_ = stream_key(settings_.seed, hash_);
    const bool greedy = random_uniform(key_, kGreedyLane) < settings_.greedy_share;
    temperature_ = greedy ? 0.0f : static_cast<float>(settings_.temperature);
  }
  Request request;
  request.prompt = prompt_;
  request.sampling.temperature = temperature_;
  request.sampling.seed = random_bits(key_, kAnswers + answers_.size());
  request.max_tokens = settings_.max_tokens;
  return request;
}

TaskRun::End TaskRun::take_prompt(const TaskAnswer& answer) {
  std::string text = trimmed(answer.text);
  if (answer.finish != FinishReason::kStop || text.empty()) return End::kUnusable;
  if (prompts_.exclusion().matches(text)) return End::kExcluded;
  turns_.push_back(std::move(text));
  prompt_ = prompts_.maker().prompt(turns_, {});
  if (std::ssize(prompt_) > prompts_.max_prompt_tokens()) return End::kUnusable;
  hash_ = prompt_hash(prompt_, turns_);
  return prompts_.contains(hash_) || known_(hash_) ? End::kDuplicate : End::kNone;
}

// A turn's prompt is the conversation so far, encoded anew, as it will be in use. Where it begins
// with just the ids of the turns before it, the sample goes on; where the text was encoded in
// another way than it was drawn, the mask would claim what the target never drew: a new one begins.
void TaskRun::add_to_sample(const TaskAnswer& answer) {
  const bool goes_on =
      !samples_.empty() && prompt_.size() >= samples_.back().ids.size() &&
      std::equal(samples_.back().ids.begin(), samples_.back().ids.end(), prompt_.begin());
  if (!goes_on) {
    DistilledSample sample;
    sample.prompt_hash = hash_;
    sample.temperature = temperature_;
    sample.self_drawn = self_drawn();
    sample.first_turn = static_cast<uint16_t>(answers_.size());
    samples_.push_back(std::move(sample));
  }
  DistilledSample& sample = samples_.back();
  sample.ids.insert(sample.ids.end(), prompt_.begin() + std::ssize(sample.ids), prompt_.end());
  sample.mask.resize(sample.ids.size(), 0);
  sample.ids.insert(sample.ids.end(), answer.ids.begin(), answer.ids.end());
  sample.mask.resize(sample.ids.size(), 1);
  sample.ended = answer.finish == FinishReason::kStop;
  ++sample.turns;
}

TaskRun::End TaskRun::take(const TaskAnswer& answer) {
  if (answer.finish == FinishReason::kError) return samples_.empty() ? End::kFailed : End::kDone;
  if (drawing_prompt()) return take_prompt(answer);
  if (answer.ids.empty()) return samples_.empty() ? End::kFailed : End::kDone;
  add_to_sample(answer);
  answers_.push_back(answer.text);
  if (answers_.size() == turns_.size()) return End::kDone;
  prompt_ = prompts_.maker().prompt(std::span(turns_).first(answers_.size() + 1), answers_);
  // A conversation that outgrows the context ends with the turn before.
  return std::ssize(prompt_) > prompts_.max_prompt_tokens() ? End::kDone : End::kNone;
}

}  // namespace clover
