// SPDX-License-Identifier: Apache-2.0
#pragma once

// The speculators that tests compare with the formulas.

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "speculation/speculators/init.h"

namespace clover::testing_support {

struct TrainedCase {
  std::string name;
  std::string model;
  InitOptions options;
};

inline void PrintTo(const TrainedCase& test, std::ostream* out) { *out << test.name; }

// Every setting of the family, on targets of every kind.
inline std::vector<TrainedCase> trained_cases() {
  std::vector<TrainedCase> all;
  const auto add = [&](std::string name, std::string model, InitOptions options) {
    options.weights = DType::kF32;
    options.draft_vocab = 50;
    options.seed = all.size() + 1;
    std::replace(name.begin(), name.end(), '-', '_');
    all.push_back({std::move(name), std::move(model), std::move(options)});
  };
  std::vector<std::string> types = preset_names();
  types.push_back("eagle");
  for (const std::string& type : types) add(type, "llama3", {.type = type});
  // Targets with q and k norms, biases, adjacent pairs, unlike head sizes, ALiBi, unit head rows.
  for (const char* model : {"qwen3", "qwen2", "gguf_linear", "llama_head80", "baichuan2_13b"}) {
    add(fmt::format("clover2_on_{}", model), model, {.type = "clover2"});
    add(fmt::format("eagle_on_{}", model), model, {.type = "eagle"});
  }
  const auto with = [&](const std::string& name, const auto& change) {
    CloverConfig switches = preset_config("clover2", 4);
    change(switches);
    add(name, "llama3", {.type = "clover", .switches = switches});
  };
  with("mlp_block", [](CloverConfig& c) { c.block = BlockKind::kMlp; });
  with("attention_block", [](CloverConfig& c) { c.block = BlockKind::kAttention; });
  with("mlp_decoder", [](CloverConfig& c) { c.decoder = DecoderKind::kMlp; });
  with("concat_decoder", [](CloverConfig& c) { c.decoder = DecoderKind::kConcat; });
  with("input_norm", [](CloverConfig& c) { c.input_norm = true; });
  with("block_before_decoder", [](CloverConfig& c) { c.decoder_first = false; });
  with("separate_heads", [](CloverConfig& c) { c.shared_heads = false; });
  with("unit_rows", [](CloverConfig& c) { c.embedding = EmbeddingKind::kNormalisedHeadRow; });
  with("no_head_norm", [](CloverConfig& c) { c.head_norm = false; });
  with("one_decoder_head", [](CloverConfig& c) { c.decoder_heads = 1; });
  with("fc_alone", [](CloverConfig& c) {
    c.decoder = DecoderKind::kNone;
    c.decoder_first = false;
  });
  return all;
}

}  // namespace clover::testing_support
