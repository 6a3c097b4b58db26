// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sampling/sampling.h"

namespace clover {

// Options that several verbs share. Each add_… function offers a group of them.
struct CommonOptions {
  std::string model;  // empty: the default model
  int threads = 0;    // 0: the cores that the process is granted
  int64_t context = 0;
  std::string device = "cpu";
  std::string isa = "auto";
  std::string kv_type = "f16";
  std::string json;  // file for the machine-readable result; empty: none
  bool quiet = false;
};

void add_model_option(CLI::App& verb, CommonOptions& options);    // -m
void add_engine_options(CLI::App& verb, CommonOptions& options);  // -t -c --device --isa --kv-type
CLI::Option* add_json_option(CLI::App& verb, CommonOptions& options);
void add_quiet_option(CLI::App& verb, CommonOptions& options);

// Which questions a measurement asks.
struct QuestionOptions {
  std::string path;          // empty: the repository's own under bench/questions
  int64_t per_category = 0;  // 0: all
  int64_t turns = 0;         // of a question; 0: all
};
void add_question_options(CLI::App& verb, QuestionOptions& options);

// --seed and the sampling parameters; they are range-checked while parsing, except that the ids of
// --logit-bias need a vocabulary.
void add_sampling_options(CLI::App& verb, SamplingParams& sampling);

// The whole of `text` as a decimal number; CLI::ValidationError naming `option` otherwise. Stricter
// than CLI11, which reads "010" as 8, wraps "-1" for unsigned types and saturates silently.
template <typename T>
T parse_number(const std::string& option, std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end) return value;
  const char* kind = std::is_floating_point_v<T> ? "a number"
                     : std::is_unsigned_v<T>     ? "a whole number from 0 up"
                                                 : "a whole number";
  throw CLI::ValidationError(
      option, "needs " + std::string(kind) + ", not '" + std::string(text) +
                  (error == std::errc::result_out_of_range ? "' (too large or too small)" : "'"));
}

// An option that takes one number from `low` to `high`.
template <typename T>
CLI::Option* add_number(CLI::App& verb, const std::string& name, T& value,
                        const std::string& description, T low = std::numeric_limits<T>::lowest(),
                        T high = std::numeric_limits<T>::max()) {
  CLI::Option* option = verb.add_option_function<std::string>(
      name,
      [name, &value, low, high](const std::string& text) {
        value = parse_number<T>(name, text);
        if (value < low || value > high)
          throw CLI::ValidationError(name, "must be from " + std::to_string(low) + " to " +
                                               std::to_string(high) + ", not " + text);
      },
      description);
  return option->type_name("N");
}

// An option that may be given several times, one value each.
CLI::Option* add_list(CLI::App& verb, const std::string& name, std::vector<std::string>& values,
                      const std::string& description);

}  // namespace clover
