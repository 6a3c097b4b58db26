// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "engine/sequence.h"
#include "model/batch.h"
#include "speculation/tree/token_tree.h"
#include "speculation/verification/walk.h"

namespace clover {

// The batch of one step, and which rows belong to whom.
struct StepRows {
  struct Part {
    Sequence* sequence = nullptr;
    int64_t committed = 0;  // tokens of the sequence with keys and values, before the step
    int64_t first_row = 0;
    int64_t rows = 0;
    bool prompt = false;  // rows that read a prompt
    bool draws = false;   // tokens are drawn: not after a chunk with more of the prompt to come
    TokenTree tree{0};    // of the last rows, if tokens are drawn; the root alone behind a prompt
    WalkResult walked;    // filled in by the verification
  };
  Batch batch;
  std::vector<Part> parts;
  int64_t prompt_rows = 0;
  int64_t scored_rows = 0;  // of them, those that give the log-probability of a prompt token

  // A chunk of `rows` prompt tokens behind the committed ones.
  void add_prompt(Sequence& sequence, int64_t committed, int64_t rows);
  void add_tree(Sequence& sequence, int64_t committed, TokenTree tree);
};

}  // namespace clover
