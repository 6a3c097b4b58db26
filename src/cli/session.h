// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/options.h"
#include "cli/speculators.h"
#include "engine/engine.h"
#include "measure/questions.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// A loaded model with what belongs to it. Members are destroyed in reverse order, the engine first.
struct Session {
  std::vector<std::string> files;  // of the weights; closed once the model is loaded
  std::shared_ptr<Backend> backend;
  std::unique_ptr<Tokenizer> tokenizer;
  std::shared_ptr<const Model> model;
  std::unique_ptr<Engine> engine;
  std::string isa;          // the instruction set in use
  std::string speculators;  // as -s names them
  double load_ms = 0;       // from opening the files to an engine that is ready
};

// A path relative to the folder above the program's; "" when the program's is not known.
std::filesystem::path beside_program(const std::string& relative);

// A file or folder of the repository, relative to the working folder or, if it isn't there, beside
// the folder of the program; "" where neither has it.
std::string repository_path(const std::string& relative);

// Path of the model that the options name: as given, or the default model under models/ in the
// working folder or beside the folder of the program. Error(kNotFound) when there is none.
std::string model_path(const CommonOptions& options);

// Backend that the options ask for. Error(kUnsupported) for a device that is not built in.
std::shared_ptr<Backend> make_backend(const CommonOptions& options);

// Opens the model, its tokenizer, what drafts, and an engine for one sequence, with a progress bar
// on a terminal.
// `adjust`, if given, may change the options of the engine once the model is known.
Session open_session(const CommonOptions& options, const SpeculationOptions& speculation = {"none"},
                     const std::function<void(const Model&, EngineOptions&)>& adjust = {});
// The options of an engine that the command line gives: context and KV type.
EngineOptions engine_options(const CommonOptions& options);
// What speculators for the session's model are opened with.
SpeculatorTarget speculator_target(const CommonOptions& options, const Session& session);

// The questions that the options name. Errors as read_questions().
std::vector<Question> open_questions(const QuestionOptions& options);

// Which questions they were, for a result file: {"set", "per_category"}.
Json questions_json(const QuestionOptions& options);

// Adds to a result what says where it comes from: date, commit, machine and model.
void add_origin(Json& result, const Session& session);

// The parts of a result file that every verb has: {cpu, isa, threads} and {name, sha256}. Hashing
// reads the whole model.
Json machine_json(const Session& session);
Json model_json(const Session& session);

// Name of the processor as the system gives it, "unknown" where it does not.
std::string cpu_name();

// A result as indented JSON text; bytes that are not UTF-8 become U+FFFD.
std::string json_text(const Json& result);

// Writes a result atomically.
void write_json(const std::string& path, const Json& result);

}  // namespace clover
