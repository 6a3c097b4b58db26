// SPDX-License-Identifier: Apache-2.0
#include "cli/speculators.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "speculation/speculators/ngram.h"
#include "speculation/speculators/recycling.h"

namespace clover {
namespace {

SpeculatorFactory open_one(const std::string& name) {
  if (name == "ngram")
    return [](const SpeculatorHost&) { return std::make_unique<NgramSpeculator>(); };
  if (name == "recycle")
    return [](const SpeculatorHost&) { return std::make_unique<RecyclingSpeculator>(); };
  fail(ErrorCode::kInvalidArgument, "-s {}: not a speculator; known are ngram, recycle and none",
       name);
}

}  // namespace

void add_speculation_options(CLI::App& verb, SpeculationOptions& options) {
  verb.add_option("-s,--speculator", options.speculators,
                  "what drafts: ngram, recycle or none, joined by + (default ngram+recycle)")
      ->type_name("NAME");
  verb.add_option_function<std::string>(
          "--tree",
          [&options](const std::string& text) {
            try {
              TreePolicy::parse(text);
            } catch (const Error& error) {
              throw CLI::ValidationError("--tree", error.what());
            }
            options.tree = text;
          },
          "drafts of a step: auto, a number of nodes, chainN, fixed25 or clover1 (default auto)")
      ->type_name("TREE");
}

std::vector<SpeculatorFactory> open_speculators(const std::string& text) {
  std::vector<SpeculatorFactory> speculators;
  if (text == "none") return speculators;
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('+', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    if (std::count(names.begin(), names.end(), names.back()) > 1)
      fail(ErrorCode::kInvalidArgument, "-s {}: '{}' is given twice", text, names.back());
    speculators.push_back(open_one(names.back()));
    begin = end + 1;
  }
  return speculators;
}

}  // namespace clover
