// SPDX-License-Identifier: Apache-2.0
#include "train/distiller.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace clover {
namespace {

constexpr uint64_t kReserve = uint64_t{64} << 20;  // a disk should not be filled to the last byte
constexpr uint64_t kMeanDrawnPrompt = 128;         // tokens, for the estimate: on the safe side

double mib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

// A shard to be written, and what its tasks have given so far.
struct Distiller::Shard {
  uint64_t first = 0;
  uint32_t tasks = 0;
  uint32_t begun = 0;
  uint32_t done = 0;
  DroppedTasks dropped;
  struct Result {
    uint64_t hash = 0;
    bool self_drawn = false;
    std::vector<DistilledSample> samples;
  };
  std::vector<Result> results;  // by task, once the first has begun
};

struct Distiller::Active {
  size_t shard;
  uint32_t task;
  TaskRun run;
  TaskAnswer answer;
};

Distiller::Distiller(Engine& engine, const PromptList& prompts, DistilledFolder& folder,
                     int64_t batch, int64_t shard_tasks)
    : engine_(engine), prompts_(prompts), folder_(folder), batch_(batch) {
  check_finished();
  for (const auto& [task, finished] : folder_.finished())
    if (finished.self_drawn) known_.insert(finished.hash);
  plan(std::clamp<int64_t>(shard_tasks, 1, 1 << 20));
  limit_ = shards_.size();
  progress_.tasks = std::ssize(prompts_.tasks());
  progress_.done = progress_.tasks;
  for (const Shard& shard : shards_) progress_.done -= shard.tasks;
  progress_.started = progress_.done;
}

Distiller::~Distiller() = default;

void Distiller::check_finished() const {
  const auto tasks = prompts_.tasks();
  for (const auto& [task, finished] : folder_.finished()) {
    if (task >= tasks.size()) continue;  // fewer are asked for than are there
    const DistillTask& wanted = tasks[task];
    if (finished.self_drawn != wanted.turns.empty() ||
        (!finished.self_drawn && finished.hash != wanted.hash))
      fail(ErrorCode::kInvalidArgument,
           "{} holds answers to other prompts (prompt {} is another one now); give the same prompt "
           "and exclusion files, new ones behind them, or another folder",
           folder_.path(), task + 1);
  }
}

// The tasks that no shard of the folder covers, cut at the same places in every run.
void Distiller::plan(int64_t shard_tasks) {
  const auto total = static_cast<uint64_t>(prompts_.tasks().size());
  const auto per_shard = static_cast<uint64_t>(shard_tasks);
  auto finished = folder_.shards().begin();
  for (uint64_t first = 0; first < total;) {
    if (finished != folder_.shards().end() && finished->first <= first) {
      first = std::max(first, finished->first + finished->second.header.tasks);
      ++finished;
      continue;
    }
    uint64_t end = std::min(total, first + per_shard);
    if (finished != folder_.shards().end()) end = std::min(end, finished->first);
    Shard shard;
    shard.first = first;
    shard.tasks = static_cast<uint32_t>(end - first);
    shards_.push_back(std::move(shard));
    first = end;
  }
}

uint64_t Distiller::estimated_bytes() const {
  const auto answer = static_cast<uint64_t>(folder_.settings().max_tokens);
  const PromptCounts& counts = prompts_.counts();
  const uint64_t mean =
      counts.kept > 0 ? static_cast<uint64_t>(counts.prompt_tokens / counts.kept) : 0;
  uint64_t tokens = 0;
  uint64_t samples = 0;
  for (const Shard& shard : shards_) {
    for (uint64_t task = shard.first; task < shard.first + shard.tasks; ++task) {
      const uint64_t turns = std::max<size_t>(1, prompts_.tasks()[task].turns.size());
      tokens += turns * (std::max(mean, kMeanDrawnPrompt) + answer);
      samples += turns;
    }
  }
  return shard_token_bytes(tokens, static_cast<uint32_t>(folder_.settings().vocab)) +
         samples * kShardRecordBytes + shards_.size() * 512;
}

bool Distiller::next_task(size_t& shard, uint32_t& task) {
  while (next_shard_ < limit_ && shards_[next_shard_].begun == shards_[next_shard_].tasks)
    ++next_shard_;
  if (next_shard_ >= limit_) return false;
  shard = next_shard_;
  task = shards_[shard].begun++;
  if (task == 0) shards_[shard].results.resize(shards_[shard].tasks);
  return true;
}

void Distiller::fill() {
  size_t shard = 0;
  uint32_t task = 0;
  while (std::ssize(active_) < batch_ && next_task(shard, task)) {
    const auto known = [this](uint64_t hash) { return known_.contains(hash); };
    const DistillTask& wanted = prompts_.tasks()[shards_[shard].first + task];
    submit(std::make_unique<Active>(
        Active{shard, task, TaskRun(wanted, prompts_, folder_.settings(), known), {}}));
  }
}

void Distiller::submit(std::unique_ptr<Active> active) {
  active->answer = {};
  Request request = active->run.request();
  progress_.prompt_tokens += std::ssize(request.prompt);
  // The id is known once the request is in; its output comes later.
  auto id = std::make_shared<int64_t>(0);
  TaskAnswer* answer = &active->answer;
  request.on_output = [this, answer, id](const Output& output) {
    answer->text += output.text;
    for (const OutputToken& token : output.tokens) answer->ids.push_back(token.id);
    progress_.response_tokens += std::ssize(output.tokens);
    if (output.finish == FinishReason::kNone) return;
    answer->finish = output.finish;
    ended_.push_back(*id);
  };
  *id = engine_.submit(std::move(request));
  active_.emplace(*id, std::move(active));
}

void Distiller::collect() {
  for (const int64_t id : std::exchange(ended_, {})) {
    auto node = active_.extract(id);
    engine_.forget(id);
    if (node.empty() || node.mapped()->answer.finish == FinishReason::kCancelled) continue;
    std::unique_ptr<Active> active = std::move(node.mapped());
    if (active->shard >= limit_) continue;
    const TaskRun::End end = active->run.take(active->answer);
    if (end == TaskRun::End::kNone)
      submit(std::move(active));
    else
      complete(*active, end);
  }
}

void Distiller::complete(Active& active, TaskRun::End end) {
  Shard& shard = shards_[active.shard];
  ++shard.done;
  ++progress_.done;
  shard.dropped.duplicate += end == TaskRun::End::kDuplicate ? 1 : 0;
  shard.dropped.excluded += end == TaskRun::End::kExcluded ? 1 : 0;
  shard.dropped.unusable += end == TaskRun::End::kUnusable ? 1 : 0;
  shard.dropped.failed += end == TaskRun::End::kFailed ? 1 : 0;
  if (end != TaskRun::End::kDone) return;
  shard.results[active.task] = {active.run.hash(), active.run.self_drawn(),
                                std::move(active.run.samples())};
}

// Writes the shards that are complete, in order: of two equal self-drawn prompts the earlier one
// stays, however long its answer took.
void Distiller::seal() {
  for (; sealed_ < shards_.size() && shards_[sealed_].done == shards_[sealed_].tasks; ++sealed_) {
    Shard& shard = shards_[sealed_];
    std::vector<DistilledSample> samples;
    for (uint32_t task = 0; task < shard.tasks; ++task) {
      Shard::Result& result = shard.results[task];
      if (result.samples.empty()) continue;
      if (result.self_drawn && !known_.insert(result.hash).second) {
        ++shard.dropped.duplicate;
        continue;
      }
      for (DistilledSample& sample : result.samples) {
        sample.task = task;
        samples.push_back(std::move(sample));
      }
    }
    ShardHeader header;
    header.fingerprint = folder_.settings().fingerprint;
    header.vocab = static_cast<uint32_t>(folder_.settings().vocab);
    header.first_task = shard.first;
    header.tasks = shard.tasks;
    header.dropped = shard.dropped;
    folder_.write(header, samples);
    shard.results = {};
  }
}

void Distiller::stop() {
  progress_.stopping = true;
  limit_ = std::min(limit_, sealed_ + 1);
  for (const auto& [id, active] : active_)
    if (active->shard >= limit_) engine_.cancel(id);
}

bool Distiller::run(const std::function<bool(const DistillProgress&)>& watch) {
  for (fill(); !active_.empty(); fill()) {
    const auto begin = Clock::now();
    engine_.step();
    progress_.step_ms += ms_since(begin);
    collect();
    seal();
    if (!watch(progress_) && !progress_.stopping) stop();
  }
  return sealed_ == shards_.size();
}

void check_disk(const std::string& folder, uint64_t needed, uint64_t available) {
  if (available >= kReserve && needed <= available - kReserve) return;
  fail(ErrorCode::kExhausted,
       "{} has {:.1f} MiB free, but the data may need {:.1f} MiB (and {:.0f} MiB stay in reserve)",
       folder, mib(available), mib(needed), mib(kReserve));
}

}  // namespace clover
