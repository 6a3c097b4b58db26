// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "measure/report/results.h"

namespace clover {

// Throughput by batch and size of model, from how many drafts are accepted and from a roofline: a
// pass takes a fixed time and then as long as the slower of reading its bytes and multiplying.

// A machine, or several equal ones that share every matrix.
struct ScaleDevice {
  std::string name;
  double bytes_per_s = 0;       // of memory, of one device
  double macs_per_s = 0;        // multiply-adds of 16-bit values, of one device
  double macs8_per_s = 0;       // of 8-bit values
  double layer_s = 0;           // launching a layer's kernels
  double step_s = 0;            // of a pass beside its layers
  int64_t count = 1;            // devices
  double exchange_s = 0;        // one sum over all devices, however short
  double link_bytes_per_s = 0;  // of one device to the others; needed for count > 1
  double read_share = 1;        // of bytes_per_s that passes reach
  double mac_share = 1;
};

// A decoder as a load.
struct ScaleModel {
  std::string name;
  double weights = 0;  // multiplied by every row: all matrices with the LM head
  double bytes_per_weight = 2;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t vocab = 0;
  double kv_bytes_per_token = 0;
};

// What drafting costs, in parts of the target. Nothing for lookups.
struct ScaleDrafting {
  int64_t block_layers = 0;  // decoder layers over the committed tokens
  int64_t heads = 0;         // one after the other
  double head_weights = 0;   // of one head, times hidden²; the LM head comes on top
};

// One way of decoding.
struct ScaleMethod {
  std::string name;
  double nodes = 0;  // drafts of a sequence that a pass checks
  double extra = 0;  // of them, accepted in the mean
  ScaleDrafting drafting = {};
};

// Seconds of a pass over `rows` rows of `sequences` sequences with `context` tokens each.
double pass_seconds(const ScaleDevice& device, const ScaleModel& model, double sequences,
                    double rows, double context);
// Seconds of drafting for one pass.
double draft_seconds(const ScaleDevice& device, const ScaleModel& model, const ScaleMethod& method,
                     double sequences);
// Tokens per second of all sequences together.
double scale_throughput(const ScaleDevice& device, const ScaleModel& model,
                        const ScaleMethod& method, double sequences, double context);
// The first batch of 1, 2, … `most` with which the method is slower than decoding plainly; 0: none.
int64_t crossover_batch(const ScaleDevice& device, const ScaleModel& model,
                        const ScaleMethod& method, double context, int64_t most);

// NVIDIA H200, published: 4.8 TB/s, 989 TFLOP/s in 16 bits, 1979 in 8; `count` of them over NVLink,
// 450 GB/s each way. Assumed: 80 % of the bandwidth and 70 % of the arithmetic are reached, 25 µs a
// layer, 10 µs an exchange.
ScaleDevice h200(int64_t count = 1);
// Shapes of Llama-2-7B (16 bits), Llama-2-70B (8 bits: one H200 holds it) and of 100 billion
// parameters (16 bits, full attention).
ScaleModel scale_7b();
ScaleModel scale_70b();
ScaleModel scale_100b();
// The drafting of Clover-2: two layers, five heads (arXiv 2408.00264).
ScaleDrafting clover2_drafting();

// A device from JSON text {"name", "bytes_per_s", "flops_per_s", "flops8_per_s"?, "layer_s"?,
// "step_s"?, "count"?, "exchange_s"?, "link_bytes_per_s"?, "read_share"?, "mac_share"?}; a
// multiply-add is two FLOP. Error(kCorrupt) naming the file and the key.
ScaleDevice parse_scale_device(std::string_view text, const std::string& name);

// This machine and the model that it ran, from the costs of whole steps.
struct ScaleCheck {
  struct Row {
    int64_t rows = 1;
    double measured_ms = 0;
    double peak_ms = 0;    // from the measured peaks alone
    double fitted_ms = 0;  // with fixed time and shares from the least, middle and most rows
    bool used = false;     // for the fit
  };
  std::vector<Row> rows;
  double peak_error = 0;    // mean of |predicted / measured − 1|
  double fitted_error = 0;  // over the rows that the fit didn't use
  ScaleDevice device;       // fitted
  ScaleModel model;
};
// Needs whole steps at one row and at two more numbers of rows at least; without them `rows` is
// empty.
ScaleCheck check_scale(const KernelResult& kernels);

// A pass of a + b · rows seconds, and the accepted drafts, that a paper's figures imply: the speed
// of plain decoding and of trees of `nodes` at a large batch, and the gain at a small one.
struct ImpliedStack {
  double fixed_s = 0;
  double row_s = 0;
  double extra = 0;
  bool found = false;
  double gain(double batch, double nodes) const;  // over plain decoding
};
struct PublishedFigures {
  double batch = 0;          // the large one
  double plain_per_s = 0;    // tokens
  double drafted_per_s = 0;  // tokens
  double small_batch = 0;
  double small_gain = 0;  // ratio over plain decoding
  double nodes = 0;
};
ImpliedStack implied_stack(const PublishedFigures& figures);

}  // namespace clover
