// SPDX-License-Identifier: Apache-2.0
#include "measure/report/scale_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "measure/report/page.h"

namespace clover {
namespace {

using ::testing::HasSubstr;

// Round numbers: 1e9 weights of 2 bytes, 10 layers of 1 ms of launches, 1 TB/s, 1e12 MAC/s.
ScaleModel billion() {
  ScaleModel model;
  model.name = "1B";
  model.weights = 1e9;
  model.layers = 10;
  model.hidden = 1000;
  model.vocab = 100000;  // an LM head of 1e8
  model.kv_bytes_per_token = 1e6;
  return model;
}

ScaleDevice round_device() {
  ScaleDevice device;
  device.name = "round";
  device.bytes_per_s = 1e12;
  device.macs_per_s = 1e12;
  device.layer_s = 1e-3;
  return device;
}

TEST(ScaleModel, APassWaitsForTheSlowerOfReadingAndMultiplying) {
  // One row: 2 ms of reading against 1 ms of arithmetic, 10 ms of launches.
  EXPECT_NEAR(pass_seconds(round_device(), billion(), 1, 1, 0), 12e-3, 1e-12);
  // Four rows: 4 ms of arithmetic.
  EXPECT_NEAR(pass_seconds(round_device(), billion(), 1, 4, 0), 14e-3, 1e-12);
  // Context: 2 sequences x 1000 tokens x 1 MB = 2 GB more to read, 2 x 1000 x 1000 x 10 = 2e7
  // multiply-adds more for each row.
  EXPECT_NEAR(pass_seconds(round_device(), billion(), 2, 2, 1000), 14e-3, 1e-12);
  EXPECT_NEAR(pass_seconds(round_device(), billion(), 2, 100, 1000), 10e-3 + 102e-3, 1e-12);
}

TEST(ScaleModel, SharesAndTheFixedTimeOfAPass) {
  ScaleDevice device = round_device();
  device.read_share = 0.5;
  device.mac_share = 0.25;
  device.step_s = 3e-3;
  EXPECT_NEAR(pass_seconds(device, billion(), 1, 1, 0), 3e-3 + 10e-3 + 4e-3, 1e-12);
  EXPECT_NEAR(pass_seconds(device, billion(), 1, 2, 0), 3e-3 + 10e-3 + 8e-3, 1e-12);
}

TEST(ScaleModel, EightBitWeightsTakeTheirOwnRate) {
  ScaleDevice device = round_device();
  device.macs8_per_s = 2e12;
  ScaleModel model = billion();
  EXPECT_NEAR(pass_seconds(device, model, 1, 10, 0), 20e-3, 1e-12);
  model.bytes_per_weight = 1;
  EXPECT_NEAR(pass_seconds(device, model, 1, 10, 0), 15e-3, 1e-12);
}

TEST(ScaleModel, SeveralDevicesShareTheWorkAndExchange) {
  ScaleDevice device = round_device();
  device.count = 2;
  device.exchange_s = 1e-4;
  device.link_bytes_per_s = 1e9;
  // Half of 2 ms; 2 x 10 exchanges of 0.1 ms and of 2000 bytes x 2 x 1/2 at 1 GB/s: 2 µs.
  EXPECT_NEAR(pass_seconds(device, billion(), 1, 1, 0), 10e-3 + 1e-3 + 20 * 102e-6, 1e-12);
}

TEST(ScaleModel, DraftingAndThroughput) {
  ScaleMethod method{"two heads", 4, 1.5, {1, 2, 5}};
  // Block: a layer of 9e8 / 10 weights over 2.5 rows: 1 ms + max(0.18, 0.225). Head: 5e6 + 1e8
  // weights over 2 rows: 1 ms + max(0.21, 0.21).
  const double draft = 1.225e-3 + 2 * 1.21e-3;
  EXPECT_NEAR(draft_seconds(round_device(), billion(), method, 1), draft, 1e-12);
  // Five rows: 15 ms.
  EXPECT_NEAR(scale_throughput(round_device(), billion(), method, 1, 0), 2.5 / (15e-3 + draft),
              1e-9);
  EXPECT_EQ(draft_seconds(round_device(), billion(), {"lookup", 4, 1.5}, 1), 0);
  EXPECT_NEAR(scale_throughput(round_device(), billion(), {"none"}, 1, 0), 1 / 12e-3, 1e-9);
}

TEST(ScaleModel, WhereDraftingBeginsToLose) {
  // With B sequences: plain 10 ms + max(2, B) ms; four drafts 10 ms + 5 B ms and half a token more.
  // 1.5 (10 + B) < 10 + 5 B from B = 10 / 7 on, so at 2.
  const ScaleMethod method{"lookup", 4, 0.5};
  EXPECT_EQ(crossover_batch(round_device(), billion(), method, 0, 64), 2);
  EXPECT_EQ(crossover_batch(round_device(), billion(), {"all right", 4, 4}, 0, 64), 0);
  EXPECT_EQ(crossover_batch(round_device(), billion(), {"all wrong", 4, 0}, 0, 64), 1);
}

TEST(ScaleModel, PresetsAreTheirPublishedSizes) {
  EXPECT_NEAR(scale_7b().weights, 6.6e9, 0.1e9);  // of 6.74e9 with the embedding
  EXPECT_NEAR(scale_70b().weights, 68.7e9, 0.5e9);
  EXPECT_NEAR(scale_100b().weights, 101e9, 2e9);
  EXPECT_EQ(scale_7b().kv_bytes_per_token, 524288);
  EXPECT_EQ(h200(8).count, 8);
}

// A curve made from a known roofline is found again, exactly.
TEST(ScaleModel, TheCheckFindsAKnownRoofline) {
  KernelResult kernels;
  kernels.read_peak = 20;   // GB/s
  kernels.int8_peak = 500;  // GMAC/s
  // 1 ms fixed; 40 MB at half the peak: 4 ms; 100 MMAC a row at 80 %: 0.25 ms.
  for (const int64_t rows : {1, 2, 4, 8, 16, 32, 64}) {
    const double ms = 1 + std::max(4.0, 0.25 * static_cast<double>(rows));
    KernelCost& cost = kernels.costs.emplace_back();
    cost.type = "step";
    cost.rows = rows;
    cost.ms = {ms, ms, ms, 3};
    cost.gbytes = 0.04 / ms * 1e3;
    cost.gmacs = 0.1 * static_cast<double>(rows) / ms * 1e3;
  }
  // The middle of seven is 8 rows, which is bound by memory: take the others' fourth away.
  std::erase_if(kernels.costs, [](const KernelCost& c) { return c.rows == 8 || c.rows == 4; });
  const ScaleCheck check = check_scale(kernels);
  ASSERT_EQ(check.rows.size(), 5u);
  EXPECT_NEAR(check.device.step_s, 1e-3, 1e-9);
  EXPECT_NEAR(check.device.read_share, 0.5, 1e-9);
  EXPECT_NEAR(check.device.mac_share, 0.8, 1e-9);
  EXPECT_NEAR(check.model.weights, 100e6, 1);
  EXPECT_NEAR(check.fitted_error, 0, 1e-9);
  // From the peaks alone: 2 ms instead of 5 at one row.
  EXPECT_NEAR(check.rows[0].peak_ms, 2, 1e-9);
  EXPECT_GT(check.peak_error, 0.2);
}

TEST(ScaleModel, TheCheckNeedsThreeNumbersOfRows) {
  KernelResult kernels;
  kernels.read_peak = kernels.int8_peak = 1;
  EXPECT_TRUE(check_scale(kernels).rows.empty());
  for (const int64_t rows : {2, 4, 8}) kernels.costs.push_back({"step", rows, {1, 1, 1, 2}});
  for (KernelCost& cost : kernels.costs) cost.gbytes = cost.gmacs = 1;
  EXPECT_TRUE(check_scale(kernels).rows.empty());  // without one row
  kernels.costs.front().rows = 1;
  EXPECT_EQ(check_scale(kernels).rows.size(), 3u);
  kernels.costs.back().gmacs = kNoValue;
  EXPECT_TRUE(check_scale(kernels).rows.empty());
}

TEST(ScaleModel, AStackIsFoundFromItsOwnFigures) {
  // 10 ms + 0.2 ms a row, 1.5 accepted of 4: at 32, 16.4 ms and 42 ms; at 4, 10.8 and 14 ms.
  PublishedFigures figures{32, 32 / 16.4e-3, 32 * 2.5 / 42e-3, 4, 2.5 * 10.8 / 14, 4};
  const ImpliedStack stack = implied_stack(figures);
  ASSERT_TRUE(stack.found);
  EXPECT_NEAR(stack.fixed_s, 10e-3, 1e-8);
  EXPECT_NEAR(stack.row_s, 0.2e-3, 1e-9);
  EXPECT_NEAR(stack.extra, 1.5, 1e-6);
  EXPECT_NEAR(stack.gain(4, 4), 2.5 * 10.8 / 14, 1e-6);
  EXPECT_NEAR(stack.gain(8, 4), 2.5 * 11.6 / 18, 1e-6);
  figures.small_gain = 40;  // no stack is that fast
  EXPECT_FALSE(implied_stack(figures).found);
}

TEST(ScaleDeviceFile, IsReadAndItsFaultsAreNamed) {
  const ScaleDevice device = parse_scale_device(
      R"({"name": "x", "bytes_per_s": 1e12, "flops_per_s": 4e12, "layer_s": 1e-5, "count": 4,
          "link_bytes_per_s": 1e10, "read_share": 0.9})",
      "d.json");
  EXPECT_EQ(device.macs_per_s, 2e12);
  EXPECT_EQ(device.count, 4);
  EXPECT_EQ(device.read_share, 0.9);
  EXPECT_EQ(device.mac_share, 1);
  const std::pair<const char*, const char*> faults[] = {
      {"{", "d.json"},
      {"[]", "d.json"},
      {R"({"bytes_per_s": 1, "flops_per_s": 1})", "name"},
      {R"({"name": "x", "flops_per_s": 1})", "bytes_per_s"},
      {R"({"name": "x", "bytes_per_s": 0, "flops_per_s": 1})", "bytes_per_s"},
      {R"({"name": "x", "bytes_per_s": 1, "flops_per_s": -1})", "flops_per_s"},
      {R"({"name": "x", "bytes_per_s": "1", "flops_per_s": 1})", "bytes_per_s"},
      {R"({"name": "x", "bytes_per_s": 1, "flops_per_s": 1, "layer_s": -1})", "layer_s"},
      {R"({"name": "x", "bytes_per_s": 1, "flops_per_s": 1, "mac_share": 1.5})", "mac_share"},
      {R"({"name": "x", "bytes_per_s": 1, "flops_per_s": 1, "count": 0})", "count"},
      {R"({"name": "x", "bytes_per_s": 1, "flops_per_s": 1, "count": 2})", "link_bytes_per_s"}};
  for (const auto& [text, key] : faults) {
    try {
      parse_scale_device(text, "d.json");
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(key));
      EXPECT_THAT(error.what(), HasSubstr("d.json"));
    }
  }
}

}  // namespace
}  // namespace clover
