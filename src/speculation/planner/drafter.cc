// SPDX-License-Identifier: Apache-2.0
#include "speculation/planner/drafter.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/clock.h"

namespace clover {
namespace {

// Candidates that one source may name below a node.
constexpr int32_t kWidth = 8;
// Siblings are alternatives: together they cannot be more certain than this.
constexpr float kMostCertain = 0.98f;
// Rows that drafts of all sequences together may add to a step.
constexpr int64_t kMaxRows = 256;

std::vector<int32_t> bins_of(const std::vector<std::unique_ptr<Speculator>>& speculators) {
  std::vector<int32_t> bins;
  bins.reserve(speculators.size());
  for (const auto& speculator : speculators) bins.push_back(speculator->bins());
  return bins;
}

void add_vote(DraftPool& pool, int32_t parent, const Candidate& candidate, int32_t source) {
  int32_t child = pool.child(parent, candidate.token);
  if (child < 0) {
    child = pool.size();
    DraftPool::Entry entry;
    entry.parent = parent;
    entry.token = candidate.token;
    entry.depth = pool[parent].depth + 1;
    pool.entries.push_back(entry);
    ++pool[parent].children;
  }
  DraftPool::Entry& entry = pool[child];
  entry.vote[static_cast<size_t>(entry.vote_count++)] = {source, candidate.bin,
                                                         candidate.probability};
}

// Whether the request lets `token` follow a node of its tree.
bool may_follow(const DraftRequest& request, const TokenTree& tree, int32_t node, int32_t token) {
  if (!request.may_follow) return true;
  std::vector<int32_t> drafts;
  for (; node > 0; node = tree.parents[static_cast<size_t>(node)])
    drafts.push_back(tree.tokens[static_cast<size_t>(node)]);
  std::reverse(drafts.begin(), drafts.end());
  return request.may_follow(drafts, token);
}

// Joint probabilities and ranks of the children of `parent`, whose own probabilities are set.
void finish_children(DraftPool& pool, int32_t parent) {
  const DraftPool::Entry family = pool[parent];
  const int32_t end = family.first_child + family.children;
  float sum = 0.0f;
  for (int32_t c = family.first_child; c < end; ++c) sum += pool[c].probability;
  const float factor = sum > kMostCertain ? kMostCertain / sum : 1.0f;
  for (int32_t c = family.first_child; c < end; ++c) {
    DraftPool::Entry& child = pool[c];
    child.probability *= factor;
    child.joint = family.joint * child.probability;
    child.rank = 0;
    for (int32_t o = family.first_child; o < c; ++o) {
      DraftPool::Entry& other = pool[o];
      ++(other.probability >= child.probability ? child.rank : other.rank);
    }
  }
}

}  // namespace

Drafter::Drafter(std::vector<std::unique_ptr<Speculator>> speculators, const TreePolicy& policy,
                 CostCurve cost)
    : policy_(policy), cost_(std::move(cost)), calibration_(bins_of(speculators)) {
  for (auto& speculator : speculators) sources_.emplace_back().speculator = std::move(speculator);
}

Drafter::~Drafter() = default;

SpeculatorNeeds Drafter::needs() const {
  SpeculatorNeeds all;
  for (const Source& source : sources_) {
    const SpeculatorNeeds needs = source.speculator->needs();
    all.hidden |= needs.hidden;
    all.top_k = std::max(all.top_k, needs.top_k);
  }
  return all;
}

int64_t Drafter::known_prefix(std::span<const int32_t> tokens,
                              std::span<const int32_t> blocks) const {
  int64_t known = std::ssize(blocks) * kKvBlockTokens;
  for (const Source& source : sources_)
    known = std::min(known, source.speculator->known_prefix(tokens, blocks));
  return known;
}

void Drafter::begin(int64_t sequence) {
  for (Source& source : sources_) source.speculator->begin(sequence);
}

void Drafter::end(int64_t sequence) {
  for (Source& source : sources_) source.speculator->end(sequence);
}

void Drafter::observe(const ObservedPass& pass) {
  for (Source& source : sources_) source.speculator->observe(pass);
}

void Drafter::timed(int64_t rows, double pass_ms, double other_ms) {
  cost_.refine(rows, pass_ms);
  double costly = 0.0;
  for (const Source& source : sources_)
    if (source.active) costly += source.round_ms;
  other_ms_ += 0.05 * (std::max(0.0, other_ms - costly) - other_ms_);
}

void Drafter::start_round(std::span<const DraftRequest> requests) {
  std::vector<DraftSequence> sequences;
  pools_.resize(requests.size());
  chosen_.assign(requests.size(), {});
  for (size_t s = 0; s < requests.size(); ++s) {
    sequences.push_back(requests[s].sequence);
    pools_[s].reset(requests[s].sequence.tokens.back());
  }
  for (Source& source : sources_) {
    const bool costly = source.speculator->costly();
    // A policy of the user's asks every source; the planner's own may leave one out.
    source.active = !costly || policy_.kind != TreePolicy::Kind::kAuto || source.gate.open();
    source.round_ms = 0.0;
    source.expanded = 0;
    if (!source.active) {
      source.gate.skipped();
      continue;
    }
    source.number.assign(requests.size(), {});
    const auto begin = Clock::now();
    source.speculator->start(sequences);
    if (costly) source.round_ms += ms_since(begin);
  }
}

Drafter::Sayings Drafter::ask(Source& source, std::span<const Frontier> frontier) {
  std::vector<DraftNode> nodes;
  std::vector<size_t> asked;
  for (size_t i = 0; i < frontier.size(); ++i) {
    const Frontier& at = frontier[i];
    const DraftPool& pool = pools_[static_cast<size_t>(at.sequence)];
    auto& numbers = source.number[static_cast<size_t>(at.sequence)];
    numbers.resize(static_cast<size_t>(pool.size()), -1);
    const int32_t parent = pool[at.entry].parent;
    const int32_t number = parent < 0 ? -1 : numbers[static_cast<size_t>(parent)];
    if (parent >= 0 && number < 0) continue;
    numbers[static_cast<size_t>(at.entry)] = source.expanded++;
    nodes.push_back({at.sequence, number, pool[at.entry].token});
    asked.push_back(i);
  }
  Sayings said(frontier.size());
  if (nodes.empty()) return said;
  const auto begin = Clock::now();
  Sayings answers;
  source.speculator->expand(nodes, kWidth, answers);
  if (source.speculator->costly()) source.round_ms += ms_since(begin);
  for (size_t i = 0; i < asked.size(); ++i) said[asked[i]] = std::move(answers[i]);
  return said;
}

void Drafter::add_children(std::span<const Frontier> frontier, std::span<const Sayings> said) {
  for (size_t i = 0; i < frontier.size(); ++i) {
    DraftPool& pool = pools_[static_cast<size_t>(frontier[i].sequence)];
    const int32_t parent = frontier[i].entry;
    pool[parent].first_child = pool.size();
    for (size_t s = 0; s < said.size(); ++s)
      for (const Candidate& candidate : said[s][i])
        add_vote(pool, parent, candidate, static_cast<int32_t>(s));
    for (int32_t c = pool[parent].first_child; c < pool.size(); ++c)
      pool[c].probability = calibration_.probability(pool[c].votes());
    finish_children(pool, parent);
  }
}

// No node below this joint probability can raise the tokens per millisecond: the price of the
// cheapest further row against the worst rate that the step can have.
float Drafter::least_useful(int64_t sequences, int64_t other_rows) const {
  if (policy_.kind != TreePolicy::Kind::kAuto) return 0.0f;
  const double alone = step_ms(sequences, other_rows, 0);
  double cheapest = alone;
  for (int64_t rows = 2; rows <= 64; rows *= 2)
    cheapest = std::min(cheapest,
                        (step_ms(sequences, other_rows, rows) - alone) / static_cast<double>(rows));
  return static_cast<float>(cheapest * static_cast<double>(sequences) / alone);
}

// What a step costs the sequences: without drafts as if nothing else were in the pass, and for
// every draft what it adds to the pass as it is. Prompt rows beside them are work that has to be
// done in any case: a draft that saves less time than it takes from them does not pay, however long
// the step.
double Drafter::step_ms(int64_t sequences, int64_t other_rows, int64_t drafts) const {
  const int64_t base = other_rows + sequences;
  return cost_.ms(sequences) + other_ms_ + cost_.ms(base + drafts) - cost_.ms(base);
}

std::vector<Drafter::Frontier> Drafter::next_frontier(std::span<const DraftRequest> requests,
                                                      std::span<const int32_t> level_begin,
                                                      float least) const {
  std::vector<Frontier> frontier;
  std::vector<float> joints;
  for (size_t s = 0; s < pools_.size(); ++s) {
    const DraftPool& pool = pools_[s];
    const int32_t begin = level_begin[s];
    const int64_t deepest = std::min(requests[s].max_depth, policy_.depth);
    if (begin == pool.size() || pool[begin].depth >= deepest) continue;
    // What is outranked by as many nodes as may be taken cannot get into the tree.
    float outranked = least;
    const auto nodes = static_cast<size_t>(std::min(requests[s].max_nodes, policy_.nodes));
    if (static_cast<size_t>(pool.size()) > nodes + 1 &&
        policy_.kind != TreePolicy::Kind::kFixed25) {
      joints.clear();
      for (int32_t i = 1; i < pool.size(); ++i) joints.push_back(pool[i].joint);
      const auto last = joints.begin() + static_cast<int64_t>(nodes) - 1;
      std::nth_element(joints.begin(), last, joints.end(), std::greater<>());
      outranked = std::max(least, *last);
    }
    for (const int32_t entry : tree_frontier(policy_, pool, begin, pool.size(), outranked))
      frontier.push_back({static_cast<int32_t>(s), entry});
  }
  return frontier;
}

void Drafter::grow(std::span<const DraftRequest> requests, int64_t other_rows) {
  std::vector<Frontier> frontier;
  for (size_t s = 0; s < requests.size(); ++s)
    if (requests[s].max_nodes > 0 && requests[s].max_depth > 0)
      frontier.push_back({static_cast<int32_t>(s), 0});
  const float least = least_useful(std::ssize(requests), other_rows);
  for (int32_t depth = 0; !frontier.empty(); ++depth) {
    std::vector<Sayings> said;
    for (Source& source : sources_) {
      const bool asked = source.active && depth < source.speculator->max_depth();
      said.push_back(asked ? ask(source, frontier) : Sayings(frontier.size()));
    }
    std::vector<int32_t> level_begin;
    for (const DraftPool& pool : pools_) level_begin.push_back(pool.size());
    add_children(frontier, said);
    frontier = next_frontier(requests, level_begin, least);
  }
}

// The likeliest nodes of all sequences together, as many as give the most tokens per millisecond.
Drafter::Plan Drafter::choose_best(std::span<const DraftPool> pools,
                                   std::span<const DraftRequest> requests,
                                   int64_t other_rows) const {
  std::vector<Frontier> all;
  for (size_t s = 0; s < pools.size(); ++s)
    for (int32_t i = 1; i < pools[s].size(); ++i)
      if (pools[s][i].joint > 0.0f) all.push_back({static_cast<int32_t>(s), i});
  const auto joint = [&](const Frontier& at) {
    return pools[static_cast<size_t>(at.sequence)][at.entry].joint;
  };
  // Equal probabilities: by number, so that parents come first.
  std::sort(all.begin(), all.end(), [&](const Frontier& a, const Frontier& b) {
    if (joint(a) != joint(b)) return joint(a) > joint(b);
    return a.sequence != b.sequence ? a.sequence < b.sequence : a.entry < b.entry;
  });
  Plan plan;
  plan.entries.resize(pools.size());
  plan.tokens = static_cast<double>(pools.size());
  plan.ms = step_ms(std::ssize(pools), other_rows, 0);
  std::vector<int64_t> taken(pools.size(), 0);
  std::vector<Frontier> order;
  double tokens = plan.tokens;
  size_t best = 0;
  for (const Frontier& at : all) {
    auto& count = taken[static_cast<size_t>(at.sequence)];
    // A sequence at its limit keeps its likeliest: whatever hangs below is less likely still.
    if (count == requests[static_cast<size_t>(at.sequence)].max_nodes) continue;
    if (std::ssize(order) == kMaxRows) break;
    ++count;
    order.push_back(at);
    tokens += joint(at);
    const double ms = step_ms(std::ssize(pools), other_rows, std::ssize(order));
    if (tokens * plan.ms > plan.tokens * ms) {
      plan.tokens = tokens;
      plan.ms = ms;
      best = order.size();
    }
  }
  for (size_t i = 0; i < best; ++i)
    plan.entries[static_cast<size_t>(order[i].sequence)].push_back(order[i].entry);
  return plan;
}

Drafter::Plan Drafter::choose(std::span<const DraftPool> pools,
                              std::span<const DraftRequest> requests, int64_t other_rows) const {
  if (policy_.kind == TreePolicy::Kind::kAuto) return choose_best(pools, requests, other_rows);
  Plan plan;
  for (size_t s = 0; s < pools.size(); ++s)
    plan.entries.push_back(tree_nodes(policy_, pools[s], requests[s].max_nodes));
  return plan;
}

// The pool as it would be if the source had said nothing.
DraftPool Drafter::without(const DraftPool& pool, int32_t source) const {
  DraftPool rest = pool;
  for (int32_t i = 1; i < rest.size(); ++i) {
    DraftPool::Entry& entry = rest[i];
    const auto end = entry.vote.begin() + entry.vote_count;
    entry.vote_count = static_cast<int32_t>(
        std::remove_if(entry.vote.begin(), end, [&](const Vote& v) { return v.source == source; }) -
        entry.vote.begin());
    entry.probability = entry.vote_count == 0 ? 0.0f : calibration_.probability(entry.votes());
    entry.joint = rest[entry.parent].joint * entry.probability;
  }
  return rest;
}

void Drafter::judge(std::span<const DraftRequest> requests, int64_t other_rows, const Plan& plan) {
  if (policy_.kind != TreePolicy::Kind::kAuto) return;
  for (size_t i = 0; i < sources_.size(); ++i) {
    Source& source = sources_[i];
    if (!source.active || !source.speculator->costly()) continue;
    std::vector<DraftPool> rest;
    for (const DraftPool& pool : pools_) rest.push_back(without(pool, static_cast<int32_t>(i)));
    const Plan alone = choose(rest, requests, other_rows);
    const double with_ms = plan.ms + source.round_ms;
    const double gain = plan.tokens * alone.ms / (alone.tokens * with_ms);
    source.gate.judged(gain, source.round_ms, with_ms);
  }
}

std::vector<TokenTree> Drafter::draft(std::span<const DraftRequest> requests, int64_t other_rows) {
  start_round(requests);
  grow(requests, other_rows);
  const Plan plan = choose(pools_, requests, other_rows);
  judge(requests, other_rows, plan);
  std::vector<TokenTree> trees;
  for (size_t s = 0; s < requests.size(); ++s) {
    const DraftPool& pool = pools_[s];
    TokenTree tree(pool[0].token);
    std::vector<int32_t> node(static_cast<size_t>(pool.size()), -1);
    node[0] = 0;
    chosen_[s] = {0};
    for (const int32_t entry : plan.entries[s]) {
      const int32_t parent = node[static_cast<size_t>(pool[entry].parent)];
      if (parent < 0 || !may_follow(requests[s], tree, parent, pool[entry].token)) continue;
      node[static_cast<size_t>(entry)] = tree.add(parent, pool[entry].token);
      chosen_[s].push_back(entry);
    }
    trees.push_back(std::move(tree));
  }
  return trees;
}

void Drafter::learn(std::span<const DraftOutcome> outcomes) {
  for (size_t s = 0; s < outcomes.size(); ++s) {
    const DraftPool& pool = pools_[s];
    for (size_t i = 0; i < outcomes[s].path.size(); ++i) {
      const int32_t at = chosen_[s][static_cast<size_t>(outcomes[s].path[i])];
      const DraftPool::Entry& entry = pool[at];
      for (int32_t c = entry.first_child; c < entry.first_child + entry.children; ++c)
        calibration_.observe(pool[c].votes(), pool[c].token == outcomes[s].tokens[i]);
      if (entry.first_child == 0) continue;  // no source was asked what follows it
      const int32_t drawn = pool.child(at, outcomes[s].tokens[i]);
      ranks_.add(entry.depth, entry.rank, drawn < 0 ? -1 : pool[drawn].rank);
    }
  }
}

}  // namespace clover
