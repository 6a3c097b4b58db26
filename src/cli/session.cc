// SPDX-License-Identifier: Apache-2.0
#include "cli/session.h"

#include <ctime>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "checkpoint/checkpoint.h"
#include "cli/commit.h"
#include "cli/torch_build.h"

namespace clover {
namespace {

constexpr const char* kDefaultModel = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
constexpr const char* kQuestions = "bench/questions";

}  // namespace

std::filesystem::path beside_program(const std::string& relative) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : program.parent_path().parent_path() / relative;
}

std::string repository_path(const std::string& relative) {
  std::error_code ignored;
  if (std::filesystem::exists(relative, ignored)) return relative;
  const auto beside = beside_program(relative);
  return std::filesystem::exists(beside, ignored) ? beside.string() : "";
}

std::string model_path(const CommonOptions& options) {
  if (!options.model.empty()) return options.model;
  std::string path = repository_path(kDefaultModel);
  if (!path.empty()) return path;
  fail(ErrorCode::kNotFound,
       "no model: name one with -m, or run scripts/demo.sh, which fetches the default {}",
       kDefaultModel);
}

std::shared_ptr<Backend> make_backend(const CommonOptions& options) {
  if (options.device != "cpu" || options.isa == "torch")
    return make_linked_torch_backend(options.device, options.threads);
  return make_cpu_backend({options.threads, options.isa});
}

namespace {

// Nothing stays mapped of the files: what the session needs of them is copied or repacked.
void load_model(const CommonOptions& options, Session& session) {
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(model_path(options));
  session.files = checkpoint->files();
  session.tokenizer = load_tokenizer(*checkpoint);
  ProgressBar bar("loading", options.quiet);
  session.model = Model::load(*checkpoint, session.backend, ProgressBar::callback, &bar);
}

}  // namespace

SpeculatorTarget speculator_target(const CommonOptions& options, const Session& session) {
  return {model_path(options), session.model, session.tokenizer.get(), session.backend};
}

EngineOptions engine_options(const CommonOptions& options) {
  return {.context = options.context,
          .kv_type = options.kv_type == "f32" ? DType::kF32 : DType::kF16};
}

Session open_session(const CommonOptions& options, const SpeculationOptions& speculation,
                     const std::function<void(const Model&, EngineOptions&)>& adjust) {
  const auto begin = Clock::now();
  check_speculators(speculation.speculators);
  Session session;
  session.backend = make_backend(options);
  session.isa = options.isa == "auto" ? cpu_isas().front() : options.isa;
  load_model(options, session);
  const SpeculatorTarget target = speculator_target(options, session);
  session.speculators = resolve_speculators(speculation.speculators, target);
  EngineOptions engine = engine_options(options);
  engine.speculators = open_speculators(session.speculators, target);
  engine.tree = TreePolicy::parse(speculation.tree);
  if (adjust) adjust(*session.model, engine);
  session.engine = std::make_unique<Engine>(session.model, *session.tokenizer, engine);
  session.load_ms = ms_since(begin);
  return session;
}

std::vector<Question> open_questions(const QuestionOptions& options) {
  const std::string path = options.path.empty() ? repository_path(kQuestions) : options.path;
  if (path.empty())
    fail(ErrorCode::kNotFound, "no questions: name a file or folder of them with --questions");
  return first_turns(first_of_each_category(read_questions(path), options.per_category),
                     options.turns);
}

Json questions_json(const QuestionOptions& options) {
  const std::filesystem::path path = options.path.empty() ? kQuestions : options.path;
  // A path may end in '/'.
  const auto name = path.has_filename() ? path.filename() : path.parent_path().filename();
  return {{"set", name.string()}, {"per_category", options.per_category}, {"turns", options.turns}};
}

void add_origin(Json& result, const Session& session) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
  result["date"] = date;
  result["commit"] = build_commit();
  result["machine"] = machine_json(session);
  result["model"] = model_json(session);
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line)) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

Json machine_json(const Session& session) {
  return {
      {"cpu", cpu_name()}, {"isa", session.isa}, {"threads", session.model->backend().threads()}};
}

Json model_json(const Session& session) {
  return {{"name", session.model->config().name}, {"sha256", files_sha256(session.files)}};
}

std::string json_text(const Json& result) {
  return result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void write_json(const std::string& path, const Json& result) {
  write_file(path, json_text(result));
}

}  // namespace clover
