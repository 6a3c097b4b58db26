// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include "base/error.h"

namespace clover {

TrainResult train(const TrainOptions&, const TrainTarget&, const TrainHooks&) {
  fail(ErrorCode::kUnsupported, "this program has no libtorch, which training needs");
}

}  // namespace clover
