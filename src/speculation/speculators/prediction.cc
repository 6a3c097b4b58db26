// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/prediction.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace clover {
namespace {

constexpr int32_t kLongest = 32;  // of a match that is looked for
// A single token that comes back says little unless it does so about where it was due.
constexpr int32_t kNear = 48;
// Deviations longer than that are given up until the text comes back.
constexpr int32_t kMostLost = 16;

// How sure the next predicted token is, by how long the text has agreed: from the prediction's
// first token (nothing to go by yet) to more than 32 in a row. Where to start from; what happens is
// learnt from there on.
constexpr float kAgreed[] = {0.6f, 0.55f, 0.7f, 0.8f, 0.88f, 0.93f, 0.96f, 0.98f};
constexpr int32_t kAgreedBins = std::size(kAgreed);
// Behind a deviation of one token, and of more: as many tokens were replaced as came, or they were
// put in.
constexpr float kReplaced[] = {0.3f, 0.15f};
constexpr float kInserted[] = {0.15f, 0.08f};
constexpr int32_t kBins = kAgreedBins + 4;

Candidate agreed_candidate(int32_t token, int32_t agreed) {
  const int32_t bin = agreed == 0
                          ? 0
                          : std::min<int32_t>(std::bit_width(static_cast<uint32_t>(agreed - 1)) + 1,
                                              kAgreedBins - 1);
  return {token, kAgreed[bin], bin};
}

}  // namespace

PredictionCursor::PredictionCursor(std::span<const int32_t> predicted)
    : predicted_(predicted.begin(), predicted.end()), was_said_(predicted.size()) {}

bool PredictionCursor::advance(PredictionPlace& place, int32_t token) const {
  const auto size = static_cast<int32_t>(predicted_.size());
  const auto is = [&](int32_t index) {
    return index < size && predicted_[static_cast<size_t>(index)] == token;
  };
  if (place.lost > 0 && is(place.next + place.lost))
    place = {place.next + place.lost + 1, 1, 0};
  else if (is(place.next))
    place = {place.next + 1, place.lost > 0 ? 1 : place.agreed + 1, 0};
  else
    return false;
  return true;
}

void PredictionCursor::say(int32_t index) {
  const auto i = static_cast<size_t>(index);
  said_ += was_said_[i] ? 0 : 1;
  was_said_[i] = true;
}

// The longest match of the text's end; among equals the one nearest to where it was due.
bool PredictionCursor::find_again(std::span<const int32_t> text) {
  const auto size = static_cast<int32_t>(predicted_.size());
  const int32_t due = place_.next + place_.lost;
  int32_t best = -1, best_length = 0;
  for (int32_t i = 0; i < size; ++i) {
    if (predicted_[static_cast<size_t>(i)] != text.back()) continue;
    const auto most = std::min({kLongest, i + 1, static_cast<int32_t>(text.size())});
    int32_t length = 1;
    while (length < most && predicted_[static_cast<size_t>(i - length)] ==
                                text[text.size() - 1 - static_cast<size_t>(length)])
      ++length;
    const int32_t distance = std::abs(i - due);
    if (length == 1 && (distance > kNear || i < place_.next)) continue;
    if (length > best_length || (length == best_length && distance < std::abs(best - due))) {
      best = i;
      best_length = length;
    }
  }
  if (best < 0) return false;
  say(best);
  place_ = {best + 1, best_length, 0};
  return true;
}

void PredictionCursor::follow(std::span<const int32_t> text) {
  const bool on_the_way = place_.lost == 0;
  if (on_the_way && advance(place_, text.back())) {
    say(place_.next - 1);
    return;
  }
  if (find_again(text)) return;
  place_.agreed = 0;
  ++place_.lost;
}

int64_t predicted_said(std::span<const int32_t> predicted, std::span<const int32_t> text) {
  if (predicted.empty()) return 0;
  PredictionCursor cursor(predicted);
  for (size_t end = 1; end <= text.size(); ++end) cursor.follow(text.first(end));
  return cursor.said();
}

int32_t PredictionSpeculator::bins() const { return kBins; }

void PredictionSpeculator::end(int64_t sequence) {
  drafting_.clear();  // may point to it
  places_.clear();
  followed_.erase(sequence);
}

void PredictionSpeculator::start(std::span<const DraftSequence> sequences) {
  round_.start(sequences.size());
  drafting_.clear();
  places_.clear();
  for (const DraftSequence& sequence : sequences) {
    if (sequence.predicted.empty()) {
      drafting_.push_back(nullptr);
      continue;
    }
    const auto begin = static_cast<size_t>(sequence.answer_begin);
    const auto [found, fresh] =
        followed_.try_emplace(sequence.id, Followed{PredictionCursor(sequence.predicted), begin});
    Followed& followed = found->second;
    for (; followed.seen < sequence.tokens.size(); ++followed.seen)
      followed.cursor.follow(sequence.tokens.subspan(begin, followed.seen + 1 - begin));
    drafting_.push_back(&followed.cursor);
  }
}

PredictionSpeculator::NodePlace PredictionSpeculator::place_of(const DraftNode& node) const {
  if (node.parent < 0) {
    const PredictionCursor* cursor = drafting_[static_cast<size_t>(node.sequence)];
    if (cursor == nullptr) return {};
    return {cursor, cursor->place()};
  }
  NodePlace place = places_[static_cast<size_t>(node.parent)];
  if (place.cursor != nullptr && !place.cursor->advance(place.place, node.token)) return {};
  return place;
}

void PredictionSpeculator::expand(std::span<const DraftNode> nodes, int32_t width,
                                  std::vector<std::vector<Candidate>>& out) {
  round_.add(nodes);
  out.assign(nodes.size(), {});
  for (size_t i = 0; i < nodes.size(); ++i) {
    places_.push_back(place_of(nodes[i]));
    const auto& [cursor, place] = places_.back();
    if (cursor == nullptr) continue;
    const std::vector<int32_t>& predicted = cursor->predicted();
    const auto next = static_cast<size_t>(place.next);
    const auto replaced = next + static_cast<size_t>(place.lost);
    if (place.lost == 0) {
      if (next < predicted.size())
        out[i].push_back(agreed_candidate(predicted[next], place.agreed));
    } else if (place.lost <= kMostLost) {
      const int32_t more = place.lost > 1 ? 1 : 0;
      if (replaced < predicted.size())
        out[i].push_back({predicted[replaced], kReplaced[more], kAgreedBins + more});
      if (next < predicted.size() &&
          (replaced >= predicted.size() || predicted[next] != predicted[replaced]))
        out[i].push_back({predicted[next], kInserted[more], kAgreedBins + 2 + more});
    }
    if (static_cast<int32_t>(out[i].size()) > width) out[i].resize(static_cast<size_t>(width));
  }
}

}  // namespace clover
