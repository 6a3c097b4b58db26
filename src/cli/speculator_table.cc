// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/run_display.h"
#include "cli/session.h"
#include "cli/speculators.h"
#include "cli/verbs.h"
#include "model/fingerprint.h"
#include "speculation/speculators/package.h"
#include "train/ngram_texts.h"

namespace clover {
namespace {

struct SpeculatorTableOptions {
  CommonOptions common;
  std::vector<std::string> data;
  std::string head;
  std::string out;
  int64_t size_kb = 4096;
  int32_t next = NgramTableOptions().best;
};

TrainingData open_data(const SpeculatorTableOptions& options, const std::string& fingerprint) {
  const auto dataset = std::make_shared<const Dataset>(options.data);
  if (dataset->settings().fingerprint != fingerprint)
    fail(ErrorCode::kInvalidArgument, "--data {}: was written by another model ({})",
         options.data.front(), dataset->settings().target);
  return TrainingData(dataset, {});
}

// The package whose head the new one keeps, or one without a head.
Package first_package(const SpeculatorTableOptions& options, const Checkpoint& checkpoint,
                      const Verifier& verifier) {
  if (!options.head.empty()) return read_package(options.head, checkpoint);
  Package package;
  package.config.type = PackageConfig::kTableOnly;
  package.config.verifier = verifier;
  return package;
}

int make_table(const SpeculatorTableOptions& options) {
  check_package_out(options.out);
  const std::string path = model_path(options.common);
  const auto checkpoint = open_checkpoint(path);
  const std::string fingerprint = model_fingerprint(*checkpoint);
  const TrainingData data = open_data(options, fingerprint);
  const Session session = open_session(options.common);
  Package package =
      first_package(options, *checkpoint, describe_target(session.model->config(), fingerprint));
  RunDisplay display("counting", options.common.quiet);
  const InterruptWatch watch;
  NgramCounts counts;
  const auto texts = static_cast<int64_t>(data.training().size());
  const auto progress = [&](int64_t done, int64_t rows) {
    display.show(static_cast<double>(done) / static_cast<double>(texts),
                 fmt::format("{:.0f} tokens/s", static_cast<double>(rows) / display.seconds()),
                 [&] { return fmt::format("{} of {} texts, ", done, texts); });
    return !watch.interrupted();
  };
  if (!count_ngrams(session.model, data, progress, counts)) return kInterrupted;
  package.table = counts.table({.bytes = options.size_kb << 10, .best = options.next});
  package.config.training["ngram_table"] = {{"texts", texts},
                                            {"tokens", counts.rows()},
                                            {"kilobytes", options.size_kb},
                                            {"next", options.next}};
  write_package(options.out, package);
  std::string sizes;
  for (size_t order = 1; order <= NgramTable::kOrders; ++order)
    sizes +=
        fmt::format("{}{}", order == 1 ? "" : " + ", package.table->orders[order - 1].size(order));
  display.say(fmt::format("{} tokens of {} texts gave {} contexts of 1, 2 and 3 tokens: {}",
                          counts.rows(), texts, sizes, options.out));
  return 0;
}

}  // namespace

void add_speculator_table(CLI::App& group, Action& action) {
  CLI::App& verb = *group.add_subcommand(
      "table", "Makes an n-gram table of what a model says in its distilled texts.");
  const auto options = std::make_shared<SpeculatorTableOptions>();
  add_model_option(verb, options->common);
  add_list(verb, "--data", options->data, "folder of distilled data (repeatable)")
      ->required()
      ->type_name("DIR");
  verb.add_option("--head", options->head, "package whose head the new one keeps (default: none)")
      ->type_name("DIR");
  add_number<int64_t>(verb, "--size", options->size_kb,
                      "kilobytes of the table, at most (default 4096)", 1, 1 << 20);
  add_number<int32_t>(verb, "--next", options->next, "next tokens of a context (default 6)", 1,
                      NgramTable::kMostNext);
  verb.add_option("--out", options->out, "folder of the package; a package there is replaced")
      ->required()
      ->type_name("DIR");
  add_engine_options(verb, options->common);
  add_quiet_option(verb, options->common);
  verb.callback([options, &action] { action = [options] { return make_table(*options); }; });
}

}  // namespace clover
