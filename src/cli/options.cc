// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <limits>

#include "base/error.h"

namespace clover {
namespace {

constexpr int kMaxThreads = 1024;

std::pair<int32_t, float> parse_bias(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos)
    throw CLI::ValidationError("--logit-bias", "needs ID=VALUE, not '" + text + "'");
  return {parse_number<int32_t>("--logit-bias", std::string_view(text).substr(0, equals)),
          parse_number<float>("--logit-bias", std::string_view(text).substr(equals + 1))};
}

// As the library checks them, but before anything is loaded.
void check_sampling(const SamplingParams& sampling) {
  try {
    validate(sampling, std::numeric_limits<int32_t>::max());
  } catch (const Error& error) {
    throw CLI::ValidationError(error.what());
  }
}

void add_float(CLI::App& verb, const std::string& name, float& value,
               const std::string& description, const SamplingParams& sampling) {
  verb.add_option_function<std::string>(
          name,
          [name, &value, &sampling](const std::string& text) {
            value = parse_number<float>(name, text);
            check_sampling(sampling);
          },
          description)
      ->type_name("X");
}

}  // namespace

CLI::Option* add_list(CLI::App& verb, const std::string& name, std::vector<std::string>& values,
                      const std::string& description) {
  return verb.add_option(name, values, description)->allow_extra_args(false);
}

void add_model_option(CLI::App& verb, CommonOptions& options) {
  verb.add_option("-m,--model", options.model,
                  "GGUF file or Hugging Face folder (default: the SmolLM2 of scripts/demo.sh)")
      ->type_name("PATH");
}

void add_engine_options(CLI::App& verb, CommonOptions& options) {
  add_number<int>(verb, "-t,--threads", options.threads,
                  "threads (default 0: the cores that this process is granted)", 0, kMaxThreads);
  add_number<int64_t>(verb, "-c,--context", options.context,
                      "tokens of prompt and answer together (default 0: the model's own)", 0);
  verb.add_option("--device", options.device, "cpu, or cuda through libtorch (default cpu)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  verb.add_option("--isa", options.isa,
                  "instruction set: auto, avx512, avx2 or reference; or torch: libtorch's kernels "
                  "(default auto)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "avx512", "avx2", "reference", "torch"}));
  verb.add_option("--kv-type", options.kv_type, "keys and values as f16 or f32 (default f16)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"f16", "f32"}));
}

CLI::Option* add_json_option(CLI::App& verb, CommonOptions& options) {
  return verb.add_option("--json", options.json, "write the result to FILE as JSON")
      ->type_name("FILE");
}

void add_quiet_option(CLI::App& verb, CommonOptions& options) {
  verb.add_flag("--quiet", options.quiet, "no progress, no statistics");
}

void add_question_options(CLI::App& verb, QuestionOptions& options) {
  verb.add_option("--questions", options.path,
                  "JSON lines with turns (as Spec-Bench) or prompt: a file, or a folder of them "
                  "(default: bench/questions)")
      ->type_name("PATH");
  add_number<int64_t>(verb, "--per-category", options.per_category,
                      "only the first N questions of each category (default 0: all)", 0);
  add_number<int64_t>(verb, "--turns", options.turns,
                      "only the first N turns of each question (default 0: all)", 0);
}

void add_sampling_options(CLI::App& verb, SamplingParams& sampling) {
  add_float(verb, "--temp", sampling.temperature, "temperature (default 0: the likeliest token)",
            sampling);
  add_number<int32_t>(verb, "--top-k", sampling.top_k,
                      "draw among the K likeliest tokens (default 0: all)", 0);
  add_float(verb, "--top-p", sampling.top_p,
            "draw among the likeliest tokens that reach this share together (default 1: all)",
            sampling);
  add_float(verb, "--min-p", sampling.min_p,
            "draw among tokens at least this likely, relative to the likeliest (default 0)",
            sampling);
  add_float(verb, "--repeat-penalty", sampling.repetition_penalty,
            "weaken tokens of prompt and answer by this factor (default 1: off)", sampling);
  add_float(verb, "--presence-penalty", sampling.presence_penalty,
            "take this from the logit of tokens in the answer (default 0)", sampling);
  add_float(verb, "--frequency-penalty", sampling.frequency_penalty,
            "take this from the logit for every time a token is in the answer (default 0)",
            sampling);
  verb.add_option_function<std::vector<std::string>>(
          "--logit-bias",
          [&sampling](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) sampling.logit_bias.push_back(parse_bias(text));
            check_sampling(sampling);
          },
          "add VALUE to the logit of token ID; -inf forbids it (repeatable)")
      ->type_name("ID=VALUE")
      ->allow_extra_args(false);
  add_number<uint64_t>(verb, "--seed", sampling.seed,
                       "same seed, same text (default 0; matters above temperature 0)");
}

}  // namespace clover
