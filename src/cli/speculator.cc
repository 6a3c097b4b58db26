// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <string>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/speculators.h"
#include "cli/verbs.h"
#include "speculation/speculators/init.h"

namespace clover {
namespace {

struct SpeculatorInitOptions {
  CommonOptions common;
  InitOptions init;
  std::string weights = "q8_0";
  std::string out;
};

int init_speculator(SpeculatorInitOptions options) {
  check_package_out(options.out);
  const auto checkpoint = open_checkpoint(model_path(options.common));
  options.init.weights = package_weights(options.weights);
  write_package(options.out, init_package(*checkpoint, options.init));
  return 0;
}

void add_speculator_init(CLI::App& group, Action& action) {
  CLI::App& verb = *group.add_subcommand("init", "Makes an untrained speculator for a model.");
  const auto options = std::make_shared<SpeculatorInitOptions>();
  InitOptions& init = options->init;
  std::vector<std::string> types = preset_names();
  types.push_back("eagle");
  add_model_option(verb, options->common);
  verb.add_option("--type", init.type, "what to make (default clover2)")
      ->check(CLI::IsMember(types));
  add_number<int64_t>(verb, "--heads", init.heads, "trained depth (default: the type's)", 1, 64);
  add_number<int64_t>(verb, "--draft-vocab", init.draft_vocab,
                      "tokens it can draft (default 8192, or all)", 1);
  add_number<uint64_t>(verb, "--seed", init.seed, "seed of the noise (default 0)");
  verb.add_option("--weights", options->weights,
                  "how matrices are held while running (default q8_0)")
      ->check(CLI::IsMember(package_weight_names()));
  verb.add_option("--out", options->out, "folder of the package; a package there is replaced")
      ->required()
      ->type_name("DIR");
  verb.callback([options, &action] { action = [options] { return init_speculator(*options); }; });
}

}  // namespace

void add_speculator(CLI::App& program, Action& action) {
  CLI::App& group = *program.add_subcommand("speculator", "Makes speculators.");
  group.require_subcommand(1);
  add_speculator_init(group, action);
  add_speculator_table(group, action);
}

}  // namespace clover
