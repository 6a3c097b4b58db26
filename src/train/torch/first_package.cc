// SPDX-License-Identifier: Apache-2.0
#include "train/torch/first_package.h"

#include <algorithm>

#include "base/error.h"
#include "speculation/speculators/init.h"
#include "train/draft_vocab.h"

namespace clover {

Package first_package(const TrainOptions& options, const TrainTarget& target,
                      const TrainingData& data,
                      const std::function<void(const std::string&)>& note) {
  if (!options.init.empty()) {
    Package package = read_package(options.init, target.checkpoint);
    if (!package.config.has_head())
      fail(ErrorCode::kInvalidArgument, "--init {}: has no head to train", options.init);
    return package;
  }
  InitOptions init;
  init.type = options.recipe.type;
  init.switches = options.recipe.switches;
  init.heads = options.recipe.heads;
  init.seed = options.seed;
  init.weights = options.weights;
  init.noise = options.recipe.noise;
  init.fresh_layers = options.recipe.fresh_layers;
  const int64_t size = std::min(options.draft_vocab, target.model->config().vocab);
  const DraftVocab vocab = choose_draft_vocab(data, size);
  init.draft_tokens = vocab.tokens;
  if (note)
    note(fmt::format("drafts {} tokens, which are {:.2f} % of the answers", size,
                     100 * vocab.coverage));
  return init_package(target.checkpoint, init);
}

}  // namespace clover
