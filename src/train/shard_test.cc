// SPDX-License-Identifier: Apache-2.0
#include "train/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "train/train_fixtures.h"

namespace clover {
namespace {

using ::testing::HasSubstr;
using train_testing::made_up;
using train_testing::same_sample;

std::vector<DistilledSample> samples() {
  std::vector<DistilledSample> all = {made_up(0, {1, 2, 3}, {4, 5}), made_up(2, {9}, {8}),
                                      made_up(2, {7, 7}, {6, 6, 6}), made_up(3, {5}, {1, 2})};
  all[1].self_drawn = true;
  all[2].first_turn = 1;
  all[2].turns = 3;
  all[3].ids.push_back(3);  // a second question without an answer behind the first
  all[3].mask.push_back(0);
  return all;
}

ShardHeader header(uint32_t vocab = 100) {
  ShardHeader h;
  h.fingerprint = train_testing::kFingerprint;
  h.vocab = vocab;
  h.first_task = 512;
  h.tasks = 4;
  h.dropped = {.duplicate = 1, .excluded = 2, .unusable = 3, .failed = 4};
  return h;
}

ShardView view(const std::string& bytes) { return ShardView(as_bytes(bytes), "shard"); }

TEST(Shard, ComesBackAsItWasWritten) {
  for (const uint32_t vocab : {10u, 65536u, 65537u, 1000000u}) {
    const std::string bytes = shard_bytes(header(vocab), samples());
    const ShardView shard = view(bytes);
    check_shard_digest(as_bytes(bytes), "shard");
    ASSERT_EQ(shard.size(), 4u);
    for (size_t i = 0; i < 4; ++i)
      EXPECT_TRUE(same_sample(shard.sample(i), samples()[i])) << vocab << " " << i;
    EXPECT_EQ(shard.header().tokens, 16u);
    EXPECT_EQ(shard.header().response_tokens, 8u);
    EXPECT_EQ(shard.header().fingerprint, train_testing::kFingerprint);
    EXPECT_EQ(shard.header().dropped, header().dropped);
    EXPECT_EQ(shard.header().first_task, 512u);
    EXPECT_EQ(bytes.size(), 128 + 4 * 40 + 16 * (vocab <= 65536 ? 2 : 4) + 2 + 32);
  }
}

TEST(Shard, MayBeEmpty) {
  const std::string bytes = shard_bytes(header(), {});
  EXPECT_EQ(view(bytes).size(), 0u);
  EXPECT_EQ(view(bytes).header().tasks, 4u);
}

// H2: the ids that may carry loss are those that the target drew, and never the first.
TEST(Shard, RefusesSamplesThatBreakTheRules) {
  const auto refused = [](auto&& change) {
    std::vector<DistilledSample> all = samples();
    change(all[2]);
    error_text([&] { shard_bytes(header(), all); }, ErrorCode::kInvalidArgument);
  };
  refused([](DistilledSample& s) { s.mask.assign(s.mask.size(), 0); });
  refused([](DistilledSample& s) { s.mask[0] = 1; });
  refused([](DistilledSample& s) { s.mask.pop_back(); });
  refused([](DistilledSample& s) { s.ids[1] = 100; });
  refused([](DistilledSample& s) { s.ids[1] = -1; });
  refused([](DistilledSample& s) { s.temperature = std::nanf(""); });
  refused([](DistilledSample& s) { s.task = 4; });
  ShardHeader unnamed = header();
  unnamed.fingerprint = "abc";
  error_text([&] { shard_bytes(unnamed, samples()); }, ErrorCode::kInvalidArgument);
}

TEST(Shard, EveryTruncationIsFound) {
  const std::string bytes = shard_bytes(header(), samples());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string cut = bytes.substr(0, size);
    EXPECT_THAT(error_text([&] { view(cut); }), HasSubstr("shard: ")) << size;
  }
  EXPECT_THAT(error_text([&] { view(bytes + "x"); }), HasSubstr("too many"));
}

TEST(Shard, EveryChangedByteIsFound) {
  const std::string bytes = shard_bytes(header(), samples());
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int flip : {1, 0x80, 0xff}) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      EXPECT_THROW(
          {
            view(changed);
            check_shard_digest(as_bytes(changed), "shard");
          },
          Error)
          << at;
    }
  }
}

// Structure alone, as a forger would leave it: the field is named.
TEST(Shard, WrongFieldsAreNamed) {
  const std::string bytes = shard_bytes(header(), samples());
  const auto fault = [&](size_t at, const std::string& with, ErrorCode code = ErrorCode::kCorrupt) {
    std::string changed = bytes;
    changed.replace(at, with.size(), with);
    return error_text([&] { view(changed); }, code);
  };
  const size_t record = 128 + 40;  // the second sample's
  EXPECT_THAT(fault(0, "GGUF"), HasSubstr("magic"));
  EXPECT_THAT(fault(8, raw<uint32_t>(2), ErrorCode::kUnsupported), HasSubstr("version"));
  EXPECT_THAT(fault(12, raw<uint32_t>(4)), HasSubstr("token_bytes"));
  EXPECT_THAT(fault(16, raw<uint32_t>(0)), HasSubstr("vocab"));
  EXPECT_THAT(fault(16, raw<uint32_t>(9)), HasSubstr("ids: 9 is outside"));
  EXPECT_THAT(fault(20, raw<uint32_t>(UINT32_MAX)), HasSubstr("samples"));
  EXPECT_THAT(fault(24, raw<uint64_t>(UINT64_MAX)), HasSubstr("first_task"));
  EXPECT_THAT(fault(32, raw<uint32_t>(3)), HasSubstr("sample 3: task"));
  EXPECT_THAT(fault(52, raw<uint32_t>(1)), HasSubstr("reserved"));
  EXPECT_THAT(fault(56, raw<uint64_t>(UINT64_MAX)), HasSubstr("too few"));
  EXPECT_THAT(fault(56, raw<uint64_t>(uint64_t{1} << 63)), HasSubstr("too few"));
  EXPECT_THAT(fault(56, raw<uint64_t>(15)), HasSubstr("too many"));
  EXPECT_THAT(fault(64, raw<uint64_t>(9)), HasSubstr("response_tokens"));
  EXPECT_THAT(fault(127, "x"), HasSubstr("reserved"));
  EXPECT_THAT(fault(record + 8, raw<uint64_t>(4)), HasSubstr("sample 1: first_token"));
  EXPECT_THAT(fault(record + 16, raw<uint32_t>(UINT32_MAX)), HasSubstr("sample 1: tokens"));
  EXPECT_THAT(fault(record + 16, raw<uint32_t>(1)), HasSubstr("sample 1: tokens"));
  EXPECT_THAT(fault(record + 20, raw<uint32_t>(2)), HasSubstr("sample 1: response_tokens"));
  EXPECT_THAT(fault(record + 24, raw<float>(-1)), HasSubstr("sample 1: temperature"));
  EXPECT_THAT(fault(record + 24, raw<float>(std::nanf(""))), HasSubstr("sample 1: temperature"));
  EXPECT_THAT(fault(record + 28, raw<uint32_t>(3)), HasSubstr("sample 2: task"));
  EXPECT_THAT(fault(record + 32, raw<uint32_t>(4)), HasSubstr("sample 1: flags"));
  EXPECT_THAT(fault(128 + 160 + 32, "\x01"), HasSubstr("sample 0: mask"));
}

TEST(Shard, BitsBehindTheLastTokenAreAnError) {
  const std::string bytes = shard_bytes(header(), std::vector{made_up(0, {1, 2}, {3})});
  std::string changed = bytes;
  changed[128 + 40 + 6] = static_cast<char>(changed[128 + 40 + 6] | 0x10);
  EXPECT_THAT(error_text([&] { view(changed); }), HasSubstr("mask: bits behind"));
}

}  // namespace
}  // namespace clover
