// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/json.h"
#include "constraint/constraint.h"
#include "tokenizer/tokenizer.h"

namespace clover {

// Constraints for one model. Keeps the last ones, since clients ask with the same schema again and
// again, and what a constraint has learnt of its masks stays with it. Thread-safe.
class ConstraintCache {
 public:
  // The tokenizer must outlive the cache. `vocab`: ids of the model.
  ConstraintCache(const Tokenizer& tokenizer, int32_t vocab)
      : tokenizer_(tokenizer), vocab_(vocab) {}

  // Error as compile_json_schema.
  std::shared_ptr<const Constraint> find(const Json& schema);

 private:
  const Tokenizer& tokenizer_;
  int32_t vocab_;
  std::mutex mutex_;
  std::shared_ptr<const TokenWords> words_;  // made when first needed
  std::list<std::pair<std::string, std::shared_ptr<const Constraint>>> recent_;
};

}  // namespace clover
