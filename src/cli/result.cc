// SPDX-License-Identifier: Apache-2.0
#include "cli/result.h"

namespace clover {

void Answer::add(const Output& output) {
  text += output.text;
  tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
  finish = output.finish;
  error = output.error;
}

}  // namespace clover
