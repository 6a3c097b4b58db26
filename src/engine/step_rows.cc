// SPDX-License-Identifier: Apache-2.0
#include "engine/step_rows.h"

#include <utility>

namespace clover {

void StepRows::add_prompt(Sequence& sequence, int64_t committed, int64_t rows) {
  Part part;
  part.sequence = &sequence;
  part.committed = committed;
  part.first_row = batch.rows();
  part.rows = rows;
  part.prompt = true;
  part.draws = sequence.unread() == rows && sequence.remaining() > 0;
  for (int64_t i = 0; i < rows; ++i) {
    batch.tokens.push_back(sequence.tokens()[static_cast<size_t>(committed + i)]);
    batch.parents.push_back(static_cast<int32_t>(i == 0 ? -1 : part.first_row + i - 1));
    const bool scored = sequence.wants_score(committed + i);
    scored_rows += scored ? 1 : 0;
    batch.wants_logits.push_back(scored || (part.draws && i == rows - 1) ? 1 : 0);
  }
  part.tree = TokenTree(batch.tokens.back());
  prompt_rows += rows;
  parts.push_back(std::move(part));
}

void StepRows::add_tree(Sequence& sequence, int64_t committed, TokenTree tree) {
  Part part;
  part.sequence = &sequence;
  part.committed = committed;
  part.first_row = batch.rows();
  part.rows = tree.size();
  part.draws = true;
  for (int32_t node = 0; node < tree.size(); ++node) {
    const auto i = static_cast<size_t>(node);
    batch.tokens.push_back(tree.tokens[i]);
    batch.parents.push_back(node == 0 ? -1
                                      : static_cast<int32_t>(part.first_row) + tree.parents[i]);
    batch.wants_logits.push_back(1);
  }
  part.tree = std::move(tree);
  parts.push_back(std::move(part));
}

}  // namespace clover
