// SPDX-License-Identifier: Apache-2.0
// What trained speculators keep of a sequence follows its committed tokens, bit for bit, however
// they came.
#include <gtest/gtest.h>

#include "backend/cpu/kv_memory.h"
#include "speculation/speculators/clover.h"
#include "speculation/speculators/trained_for_tests.h"

namespace clover {
namespace {

using namespace testing_support;

constexpr int32_t kWidth = 6;

const Target& tiny() {
  static const Target target("gguf_qwen3_q4_0");
  return target;
}

std::vector<std::string> types() {
  return {"clover2", "clover1", "medusa", "combo-rb", "combo-ab", "combo-ra", "eagle"};
}

SpeculatorFactory factory(const std::string& type, DType weights = DType::kQ8_0) {
  InitOptions options = {.type = type, .draft_vocab = 60, .seed = 3, .weights = weights};
  return open_written(tiny(), shaken_package(tiny(), options));
}

const FeatureSpeculator& features(const Speculator& speculator) {
  return dynamic_cast<const FeatureSpeculator&>(speculator);
}

// Keys and values of slots `first` to `end` - 1, element by element.
std::vector<float> stored(const Speculator& speculator, const Script& script, int64_t first,
                          int64_t end) {
  std::vector<float> all;
  const KvStore* kv = features(speculator).kv();
  if (kv == nullptr) return all;
  const auto& store = dynamic_cast<const CpuKvStore&>(*kv);
  const KvShape& shape = store.shape();
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    for (int64_t g = 0; g < shape.kv_heads; ++g) {
      const KvHeadView head = store.head(layer, g, script.blocks.data());
      for (int64_t s = first; s < end; ++s) {
        const int64_t block = script.blocks[static_cast<size_t>(s / kKvBlockTokens)];
        const int64_t lane = s % kKvBlockTokens;
        const auto* keys = reinterpret_cast<const float*>(head.keys + block * head.block_bytes_k);
        const auto* values =
            reinterpret_cast<const float*>(head.values + block * head.block_bytes_v);
        for (int64_t i = 0; i < head.head_dim; ++i) {
          all.push_back(keys[i * kKvBlockTokens + lane]);
          all.push_back(values[lane * head.value_stride + i]);
        }
      }
    }
  }
  return all;
}

// Drafts a small tree of random tokens: what is rejected must leave nothing behind.
void draft_something(Speculator& speculator, int32_t index, int32_t root, uint64_t seed) {
  Candidates out;
  std::vector<DraftNode> nodes = {{index, -1, root}};
  int32_t first = 0;
  for (int32_t depth = 0; depth < 3; ++depth) {
    speculator.expand(nodes, kWidth, out);
    std::vector<DraftNode> next;
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (uint64_t child = 0; child < 2; ++child)
        next.push_back({index, first + static_cast<int32_t>(i),
                        static_cast<int32_t>(random_bits(seed, child + next.size()) % 64)});
    }
    first += static_cast<int32_t>(nodes.size());
    nodes = std::move(next);
  }
}

// The speculator after one pass over the first `known` tokens, and its drafts.
struct Fresh {
  std::unique_ptr<Speculator> speculator;
  Candidates drafts;
  Fresh(const SpeculatorFactory& make, const Script& script, int64_t known,
        std::span<const int32_t> chain)
      : speculator(make(host_of(tiny()))) {
    speculator->begin(9);
    const Stored part{9, &script, 0, known - 1};
    observe(*speculator, tiny(), {&part, 1});
    const std::vector<DraftSequence> round = {drafting(9, script, known)};
    speculator->start(round);
    drafts =
        draft_chain(*speculator, 0, script.tokens[static_cast<size_t>(known) - 1], chain, kWidth);
  }
};

void expect_same(const Candidates& got, const Candidates& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t d = 0; d < got.size(); ++d)
    ASSERT_TRUE(same_candidates(got[d], want[d])) << what << ", depth " << d;
}

TEST(TrainedState, AfterRandomAcceptCountsEqualsOnePassOverTheCommittedTokens) {
  for (const std::string& type : types()) {
    const SpeculatorFactory make = factory(type);
    const auto speculator = make(host_of(tiny()));
    const Script script(tiny(), random_tokens(1, 400, 64), 2);
    speculator->begin(9);
    const uint64_t key = stream_key(11, 0);
    int64_t known = 1;
    for (uint64_t step = 0; known + 6 < 400; ++step) {
      const auto count = 1 + static_cast<int64_t>(random_bits(key, step) % 5);
      const Stored part{9, &script, known - 1, count};
      observe(*speculator, tiny(), {&part, 1});
      known += count;
      if (random_bits(key, step + 1000) % 3 == 0) continue;  // rounds may be skipped
      const std::vector<DraftSequence> round = {drafting(9, script, known)};
      speculator->start(round);
      const int32_t root = script.tokens[static_cast<size_t>(known) - 1];
      draft_something(*speculator, 0, root, step);
      if (step % 20 != 0) continue;
      const std::vector<int32_t> chain = random_tokens(step, 2, 64);
      const Fresh fresh(make, script, known, chain);
      speculator->start(round);
      expect_same(draft_chain(*speculator, 0, root, chain, kWidth), fresh.drafts, type);
      ASSERT_EQ(stored(*speculator, script, 0, known - 1),
                stored(*fresh.speculator, script, 0, known - 1))
          << type << " after " << known;
      ASSERT_TRUE(
          std::ranges::equal(features(*speculator).base(9), features(*fresh.speculator).base(9)));
    }
  }
}

// What the 10,000 steps below share: tokens, and what one pass over all of them stores (a slot's
// keys and values depend on no later token).
struct Committed {
  Script script{tiny(), random_tokens(21, 500, 64), 0};
  Fresh all;
  explicit Committed(const SpeculatorFactory& make) : all(make, script, 500, {}) {}
  std::vector<float> slots(int64_t first, int64_t end) const {
    return stored(*all.speculator, script, first, end);
  }
};

// One sequence from its first token to its last, with random accept counts and rejected drafts:
// after each step the slots that it brought, at the end all of them. Returns the steps.
uint64_t run_sequence(const SpeculatorFactory& make, const Committed& committed, uint64_t key) {
  const auto speculator = make(host_of(tiny()));
  speculator->begin(9);
  int64_t known = 1;
  uint64_t step = 0;
  for (; known + 5 < 500; ++step) {
    const auto count = 1 + static_cast<int64_t>(random_bits(key, step) % 5);
    const Stored part{9, &committed.script, known - 1, count};
    observe(*speculator, tiny(), {&part, 1});
    known += count;
    const std::vector<DraftSequence> round = {drafting(9, committed.script, known)};
    speculator->start(round);
    draft_something(*speculator, 0, committed.script.tokens[static_cast<size_t>(known) - 1], step);
    if (features(*speculator).kv() == nullptr) continue;
    const int64_t first = known - 1 - count;
    if (stored(*speculator, committed.script, first, known - 1) !=
        committed.slots(first, known - 1)) {
      ADD_FAILURE() << "slots " << first << " to " << known - 2 << " in step " << step;
      return step;
    }
  }
  EXPECT_EQ(stored(*speculator, committed.script, 0, known - 1), committed.slots(0, known - 1));
  return step;
}

TEST(TrainedState, KeysAndValuesAfterEachOfTenThousandSteps) {
  for (const char* type : {"clover2", "clover1", "eagle"}) {
    const SpeculatorFactory make = factory(type);
    const Committed committed(make);
    uint64_t steps = 0;
    for (uint64_t round = 0; steps < 10000; ++round) {
      steps += run_sequence(make, committed, stream_key(31, round));
      ASSERT_FALSE(HasFailure()) << type << ", sequence " << round;
    }
  }
}

TEST(TrainedState, E3ChunksOfAPromptAndMoreFeaturesThanAreKept) {
  const int64_t known = 1200;  // more than twice what is kept of a sequence
  const Script script(tiny(), random_tokens(2, known, 64), 0);
  const std::vector<int32_t> chain = random_tokens(3, 2, 64);
  for (const std::string& type : types()) {
    const SpeculatorFactory make = factory(type);
    SpeculatorHost host = host_of(tiny(), 128);
    Candidates want;
    for (const int64_t chunk : {int64_t{1199}, int64_t{1}, int64_t{7}, int64_t{64}, int64_t{512}}) {
      const auto speculator = make(host);
      speculator->begin(9);
      for (int64_t first = 0; first < known - 1; first += chunk) {
        const Stored part{9, &script, first, std::min(chunk, known - 1 - first)};
        observe(*speculator, tiny(), {&part, 1});
      }
      const std::vector<DraftSequence> round = {drafting(9, script, known)};
      speculator->start(round);
      const Candidates got = draft_chain(*speculator, 0, script.tokens.back(), chain, kWidth);
      if (want.empty()) want = got;
      ASSERT_FALSE(got[0].empty());
      expect_same(got, want, fmt::format("{}, chunks of {}", type, chunk));
    }
  }
}

TEST(TrainedState, E7OffForFiftyStepsDraftsAsIfNeverOff) {
  const Script script(tiny(), random_tokens(4, 120, 64), 0);
  const std::vector<int32_t> chain = random_tokens(6, 2, 64);
  for (const std::string& type : types()) {
    const SpeculatorFactory make = factory(type);
    const auto paused = make(host_of(tiny()));
    paused->begin(9);
    for (int64_t known = 2; known <= 80; ++known) {
      const Stored part{9, &script, known - 2, 1};
      observe(*paused, tiny(), {&part, 1});
      if (known < 80 && known > 10) continue;
      const std::vector<DraftSequence> round = {drafting(9, script, known)};
      paused->start(round);
      const Candidates got =
          draft_chain(*paused, 0, script.tokens[static_cast<size_t>(known) - 1], chain, kWidth);
      expect_same(got, Fresh(make, script, known, chain).drafts, type);
    }
  }
}

TEST(TrainedState, SeveralSequencesAtOnceDraftAsEachAlone) {
  const std::vector<Script> scripts = {Script(tiny(), random_tokens(7, 90, 64), 0),
                                       Script(tiny(), random_tokens(8, 70, 64), 12),
                                       Script(tiny(), random_tokens(9, 50, 64), 22)};
  const std::vector<int64_t> known = {61, 33, 18};
  for (const std::string& type : types()) {
    const SpeculatorFactory make = factory(type);
    const auto speculator = make(host_of(tiny()));
    std::vector<Stored> parts;
    std::vector<DraftSequence> round;
    for (size_t s = 0; s < scripts.size(); ++s) {
      const auto id = static_cast<int64_t>(s) + 9;
      speculator->begin(id);
      parts.push_back({id, &scripts[s], 0, known[s] - 1});
      round.push_back(drafting(id, scripts[s], known[s]));
    }
    observe(*speculator, tiny(), parts);
    speculator->start(round);
    const std::vector<int32_t> chain = random_tokens(10, 2, 64);
    std::vector<Fresh> alone;
    for (size_t s = 0; s < scripts.size(); ++s)
      alone.emplace_back(make, scripts[s], known[s], chain);
    // All roots, then the drafts of all, the sequences in another order at every depth.
    std::vector<int32_t> numbers = {-1, -1, -1};
    int32_t next = 0;
    for (size_t depth = 0; depth <= chain.size(); ++depth) {
      std::vector<size_t> order = {depth % 3, (depth + 1) % 3, (depth + 2) % 3};
      std::vector<DraftNode> nodes;
      for (const size_t s : order) {
        const int32_t token =
            depth == 0 ? scripts[s].tokens[static_cast<size_t>(known[s]) - 1] : chain[depth - 1];
        nodes.push_back({static_cast<int32_t>(s), numbers[s], token});
      }
      Candidates out;
      speculator->expand(nodes, kWidth, out);
      for (size_t i = 0; i < order.size(); ++i) {
        numbers[order[i]] = next++;
        ASSERT_TRUE(same_candidates(out[i], alone[order[i]].drafts[depth])) << type << " " << depth;
      }
    }
  }
}

TEST(TrainedState, ATreeDraftsAsItsChains) {
  const Script script(tiny(), random_tokens(12, 60, 64), 0);
  const int64_t known = 31;
  const int32_t root = script.tokens[30];
  for (const std::string& type : types()) {
    const SpeculatorFactory make = factory(type);
    const auto speculator = make(host_of(tiny()));
    speculator->begin(9);
    const Stored part{9, &script, 0, known - 1};
    observe(*speculator, tiny(), {&part, 1});
    const std::vector<DraftSequence> round = {drafting(9, script, known)};
    speculator->start(round);
    Candidates out;
    const DraftNode start{0, -1, root};
    speculator->expand({&start, 1}, kWidth, out);
    const std::vector<DraftNode> children = {{0, 0, 5}, {0, 0, 17}, {0, 0, 40}};
    speculator->expand(children, kWidth, out);
    const std::vector<DraftNode> grandchildren = {{0, 3, 1}, {0, 1, 2}, {0, 3, 3}, {0, 2, 4}};
    Candidates deep;
    speculator->expand(grandchildren, kWidth, deep);
    for (size_t i = 0; i < grandchildren.size(); ++i) {
      const std::vector<int32_t> chain = {
          children[static_cast<size_t>(grandchildren[i].parent) - 1].token, grandchildren[i].token};
      const Fresh fresh(make, script, known, chain);
      ASSERT_TRUE(same_candidates(deep[i], fresh.drafts[2])) << type << " " << i;
      ASSERT_TRUE(
          same_candidates(out[static_cast<size_t>(grandchildren[i].parent) - 1], fresh.drafts[1]));
    }
  }
}

// A preempted sequence is read again from its start, into other blocks.
TEST(TrainedState, E11ReadAnewFromTheStartAndFromTheMiddle) {
  const std::vector<int32_t> tokens = random_tokens(13, 80, 64);
  const Script script(tiny(), tokens, 0);
  const Script moved(tiny(), tokens, 20);
  const std::vector<int32_t> chain = random_tokens(14, 2, 64);
  for (const std::string& type : types()) {
    const SpeculatorFactory make = factory(type);
    const auto speculator = make(host_of(tiny()));
    speculator->begin(9);
    const std::vector<Stored> passes = {{9, &script, 0, 30},
                                        {9, &script, 30, 5},
                                        {9, &moved, 0, 33},
                                        {9, &moved, 33, 10},
                                        {9, &moved, 40, 8}};
    for (size_t i = 0; i < passes.size(); ++i) {
      observe(*speculator, tiny(), {&passes[i], 1});
      if (i == 1) {
        const std::vector<DraftSequence> round = {drafting(9, script, 36)};
        speculator->start(round);
      }
    }
    const std::vector<DraftSequence> round = {drafting(9, moved, 49)};
    speculator->start(round);
    expect_same(draft_chain(*speculator, 0, tokens[48], chain, kWidth),
                Fresh(make, moved, 49, chain).drafts, type);
  }
}

TEST(TrainedState, NoCandidatesWithoutFeaturesOrForUnknownSequences) {
  const Script script(tiny(), random_tokens(15, 40, 64), 0);
  for (const std::string& type : types()) {
    const auto speculator = factory(type)(host_of(tiny()));
    speculator->begin(9);
    Candidates out;
    const std::vector<DraftSequence> round = {drafting(9, script, 20), drafting(77, script, 20)};
    speculator->start(round);
    const std::vector<DraftNode> roots = {{0, -1, 3}, {1, -1, 3}};
    speculator->expand(roots, kWidth, out);
    EXPECT_TRUE(out.at(0).empty() && out.at(1).empty()) << type;
    const std::vector<DraftNode> children = {{0, 0, 3}};
    speculator->expand(children, kWidth, out);
    EXPECT_TRUE(out.at(0).empty()) << type;
    // Features up to an earlier token are not enough either.
    const Stored part{9, &script, 0, 15};
    observe(*speculator, tiny(), {&part, 1});
    speculator->start(round);
    speculator->expand(roots, kWidth, out);
    EXPECT_TRUE(out.at(0).empty()) << type;
    speculator->end(9);
    observe(*speculator, tiny(), {&part, 1});
    speculator->start(round);
    speculator->expand(roots, kWidth, out);
    EXPECT_TRUE(out.at(0).empty()) << type;
  }
}

TEST(TrainedState, DeepestDraftsAndZeroWidth) {
  const Script script(tiny(), random_tokens(16, 40, 64), 0);
  for (const std::string& type : types()) {
    const auto speculator = factory(type)(host_of(tiny()));
    speculator->begin(9);
    const Stored part{9, &script, 0, 10};
    observe(*speculator, tiny(), {&part, 1});
    const std::vector<DraftSequence> round = {drafting(9, script, 11)};
    speculator->start(round);
    const auto deepest = static_cast<size_t>(speculator->max_depth());
    const Candidates got =
        draft_chain(*speculator, 0, script.tokens[10], std::vector<int32_t>(deepest, 1), kWidth);
    for (size_t d = 0; d < deepest; ++d) EXPECT_EQ(got[d].size(), size_t{kWidth}) << type << d;
    EXPECT_TRUE(got[deepest].empty()) << type;
    Candidates out;
    speculator->start(round);
    const DraftNode root{0, -1, script.tokens[10]};
    speculator->expand({&root, 1}, 0, out);
    EXPECT_TRUE(out.at(0).empty()) << type;
  }
}

// E9: an EAGLE layer stores drafted tokens; what has no slot is not drafted from.
TEST(TrainedState, E9EagleDraftsFromNoMoreNodesThanItHasSlots) {
  const Script script(tiny(), random_tokens(17, 60, 64), 0);
  const SpeculatorFactory make = factory("eagle");
  for (const int64_t known : {15, 16, 17}) {
    for (const int64_t slots : {0, 1, 2, 3}) {
      const auto speculator = make(host_of(tiny()));
      speculator->begin(9);
      const Stored part{9, &script, 0, known - 1};
      observe(*speculator, tiny(), {&part, 1});
      DraftSequence sequence = drafting(9, script, known, slots);
      const int64_t blocks = (known + slots + kKvBlockTokens - 1) / kKvBlockTokens;
      sequence.blocks = sequence.blocks.first(static_cast<size_t>(blocks));
      speculator->start({&sequence, 1});
      Candidates out;
      const DraftNode root{0, -1, script.tokens[static_cast<size_t>(known) - 1]};
      speculator->expand({&root, 1}, kWidth, out);
      EXPECT_FALSE(out[0].empty());
      const std::vector<DraftNode> children = {{0, 0, 5}, {0, 0, 17}, {0, 0, 40}};
      speculator->expand(children, kWidth, out);
      for (int64_t i = 0; i < 3; ++i)
        EXPECT_EQ(out[static_cast<size_t>(i)].empty(), i >= slots) << known << " " << slots;
      // The tables name a block too few.
      sequence.blocks = sequence.blocks.first(static_cast<size_t>(blocks - 1));
      EXPECT_THROW(speculator->start({&sequence, 1}), Error);
    }
  }
}

TEST(TrainedState, ThreadsChangeNothing) {
  const Target two("gguf_qwen3_q4_0", 2);
  const Script script(tiny(), random_tokens(18, 60, 64), 0);
  const std::vector<int32_t> chain = random_tokens(19, 2, 64);
  for (const std::string& type : types()) {
    const Package package = shaken_package(tiny(), {.type = type, .draft_vocab = 60, .seed = 3});
    const Fresh one(open_written(tiny(), package), script, 50, chain);
    const auto speculator = open_written(two, package)(host_of(two));
    speculator->begin(9);
    const Stored part{9, &script, 0, 49};
    observe(*speculator, two, {&part, 1});
    const std::vector<DraftSequence> round = {drafting(9, script, 50)};
    speculator->start(round);
    expect_same(draft_chain(*speculator, 0, script.tokens[49], chain, kWidth), one.drafts, type);
  }
}

}  // namespace
}  // namespace clover
