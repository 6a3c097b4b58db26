// SPDX-License-Identifier: Apache-2.0
#pragma once

// Speculators for the engine's tests, on the tiny model.

#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine_fixtures.h"
#include "speculation/speculators/draft_model.h"
#include "speculation/speculators/init.h"
#include "speculation/speculators/ngram.h"
#include "speculation/speculators/package.h"
#include "speculation/speculators/recycling.h"
#include "speculation/speculators/scripted_for_tests.h"

namespace clover::engine_testing {

inline SpeculatorFactory ngram() {
  return [](const SpeculatorHost&) { return std::make_unique<NgramSpeculator>(); };
}

inline SpeculatorFactory recycling() {
  return [](const SpeculatorHost&) { return std::make_unique<RecyclingSpeculator>(); };
}

// Another tiny model with the same vocabulary.
inline SpeculatorFactory draft_model() {
  return [](const SpeculatorHost& host) {
    static const std::shared_ptr<const Model> model = load_tiny("gguf_llama_q8_0");
    return std::make_unique<DraftModelSpeculator>(model, host);
  };
}

inline SpeculatorFactory scripted(ScriptedSpeculator::Script script,
                                  std::vector<std::string>* faults) {
  return [script = std::move(script), faults](const SpeculatorHost&) {
    return std::make_unique<ScriptedSpeculator>(script, faults);
  };
}

// An untrained package of a type for a tiny model.
inline SpeculatorFactory untrained(const std::string& type,
                                   const std::shared_ptr<const Model>& model,
                                   const std::string& name = "gguf_qwen3_q4_0") {
  const auto checkpoint =
      open_checkpoint(std::string(CLOVER_SOURCE_DIR) + "/tests/data/tiny/" + name + ".gguf");
  InitOptions options;
  options.type = type;
  options.seed = 5;
  options.draft_vocab = 64;
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("clover-{}-{}-{}", type, name, getpid());
  write_package(folder.string(), init_package(*checkpoint, options));
  SpeculatorFactory factory = open_package(folder.string(), *checkpoint, model).front();
  std::filesystem::remove_all(folder);
  return factory;
}

// The whole of a request's text: prompt and the answer that it gets without speculation.
inline std::vector<int32_t> whole_text(const Request& request, const Answer& answer) {
  std::vector<int32_t> text = request.prompt;
  text.insert(text.end(), answer.ids.begin(), answer.ids.end());
  return text;
}

}  // namespace clover::engine_testing
