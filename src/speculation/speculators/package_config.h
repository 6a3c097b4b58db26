// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "model/config.h"
#include "speculation/speculators/clover_config.h"
#include "tensor/dtype.h"

namespace clover {

// The model that a speculator was made for.
struct Verifier {
  std::string name;         // for people
  std::string fingerprint;  // model_fingerprint()
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t vocab = 0;
  bool rope_adjacent = false;  // order of q and k rows in copied layers
};

// config.json of a speculator package (docs/speculator-package.md).
struct PackageConfig {
  static constexpr std::string_view kTableOnly = "ngram_table";

  std::string type;     // a preset's name, "clover" for other switches, "eagle", or kTableOnly
  CloverConfig clover;  // of an EAGLE package only `heads`
  int64_t draft_vocab = 0;
  std::string d2t_sha256;        // of the ids as int32, little-endian; empty: not given
  DType weights = DType::kQ8_0;  // how matrices are held while running: Q8_0, Q4_1, BF16 or F32
  bool ngram_table = false;      // whether the package brings an NgramTable
  Verifier verifier;
  Json training = Json::object();  // a summary for people, kept as it is

  bool eagle() const { return type == "eagle"; }
  // Without a head, all that is said above of heads and weights is left open.
  bool has_head() const { return type != kTableOnly; }
};

// Reads the configuration of an untrusted package; `name` names the file in errors. Errors:
// kCorrupt (missing key, wrong type, number out of range, switches that do not fit together, by
// key), kUnsupported (another type, format version or feature convention).
PackageConfig parse_package_config(const Json& json, const std::string& name);
Json package_config_json(const PackageConfig& config);

// Error(kInvalidArgument) naming every field in which the package's target differs from `target`.
void check_verifier(const Verifier& wanted, const Verifier& target, const std::string& package);
Verifier describe_target(const ModelConfig& config, std::string fingerprint);

}  // namespace clover
