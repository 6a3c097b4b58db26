// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/pre_tokenizer.h"

#include "tokenizer/json_fields.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/utf8.h"

namespace clover {

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

struct Segment {
  TextRange range;
  bool match = false;
};

// Matches and the text between them; empty text between matches is left out, empty matches are kept
// because they separate.
void segment(std::string_view text, const PreTokenizer::Split& step,
             std::vector<TextRange>& matches, std::vector<Segment>& segments) {
  matches.clear();
  segments.clear();
  step.pattern.find_all(text, matches);
  size_t done = 0;
  for (const TextRange& match : matches) {
    if (done != match.begin) segments.push_back({{done, match.begin}, step.invert});
    segments.push_back({match, !step.invert});
    done = match.end;
  }
  if (done != text.size()) segments.push_back({{done, text.size()}, step.invert});
}

// Applies a behaviour to the segments of one text; ranges are moved by `offset`.
void emit(const std::vector<Segment>& segments, SplitBehavior behavior, size_t offset,
          std::vector<TextRange>& out) {
  std::vector<TextRange> joined;
  const auto separate = [&](const Segment& s) { joined.push_back(s.range); };
  bool previous = false;
  switch (behavior) {
    case SplitBehavior::kRemoved:
      for (const Segment& s : segments) {
        if (!s.match) separate(s);
      }
      break;
    case SplitBehavior::kIsolated:
      for (const Segment& s : segments) separate(s);
      break;
    case SplitBehavior::kContiguous:
      for (const Segment& s : segments) {
        if (!joined.empty() && s.match == previous) {
          joined.back().end = s.range.end;
        } else {
          separate(s);
        }
        previous = s.match;
      }
      break;
    case SplitBehavior::kMergedWithPrevious:
      for (const Segment& s : segments) {
        if (s.match && !previous && !joined.empty()) {
          joined.back().end = s.range.end;
        } else {
          separate(s);
        }
        previous = s.match;
      }
      break;
    case SplitBehavior::kMergedWithNext:
      for (size_t i = 0; i < segments.size(); ++i) {
        // A match waits for the text behind it, unless another match follows.
        const bool waits = segments[i].match && i + 1 < segments.size() && !segments[i + 1].match;
        if (waits) {
          joined.push_back({segments[i].range.begin, segments[i + 1].range.end});
          ++i;
        } else {
          separate(segments[i]);
        }
      }
      break;
  }
  for (const TextRange& range : joined) {
    if (range.begin < range.end) out.push_back({range.begin + offset, range.end + offset});
  }
}

// Applies one step to all pieces of a text.
struct StepRunner {
  std::string& text;
  bool at_start;
  std::vector<TextRange>& pieces;

  void operator()(const PreTokenizer::Split& step) const {
    std::vector<TextRange> out;
    out.reserve(pieces.size());
    std::vector<TextRange> matches;
    std::vector<Segment> segments;
    for (const TextRange& piece : pieces) {
      const std::string_view part =
          std::string_view(text).substr(piece.begin, piece.end - piece.begin);
      segment(part, step, matches, segments);
      emit(segments, step.behavior, piece.begin, out);
    }
    pieces = std::move(out);
  }

  void operator()(PreTokenizer::PrefixSpace) const {
    std::string out;
    out.reserve(text.size() + pieces.size());
    for (TextRange& piece : pieces) {
      const size_t begin = out.size();
      if (text[piece.begin] != ' ') out += ' ';
      out.append(text, piece.begin, piece.end - piece.begin);
      piece = {begin, out.size()};
    }
    text = std::move(out);
  }

  void operator()(const PreTokenizer::Metaspace& step) const {
    std::string out;
    out.reserve(text.size() + text.size() / 2);
    for (TextRange& piece : pieces) {
      const size_t begin = out.size();
      const std::string_view part =
          std::string_view(text).substr(piece.begin, piece.end - piece.begin);
      const bool first = at_start && piece.begin == 0;
      const bool wanted = step.prepend == PreTokenizer::Metaspace::Prepend::kAlways ||
                          (step.prepend == PreTokenizer::Metaspace::Prepend::kFirst && first);
      if (wanted && part[0] != ' ' && !part.starts_with(step.replacement)) out += step.replacement;
      for (const char c : part) {
        if (c == ' ') {
          out += step.replacement;
        } else {
          out += c;
        }
      }
      piece = {begin, out.size()};
    }
    text = std::move(out);
  }
};

SplitBehavior behavior_from_json(const Json& node, SplitBehavior otherwise) {
  if (json_member(node, "behavior") == nullptr) return otherwise;
  const std::string name = json_string(node, "behavior");
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  fail(ErrorCode::kUnsupported, "tokenizer.json: the split behavior \"{}\" is not supported.",
       name);
}

PreTokenizer::Split split_by(std::string_view pattern, SplitBehavior behavior,
                             bool invert = false) {
  return {SplitRegex(pattern), behavior, invert};
}

void read_metaspace(const Json& node, std::vector<PreTokenizer::Step>& steps) {
  using Prepend = PreTokenizer::Metaspace::Prepend;
  PreTokenizer::Metaspace step;
  step.replacement = json_string(node, "replacement");
  if (json_member(node, "prepend_scheme") != nullptr) {
    const std::string scheme = json_string(node, "prepend_scheme");
    if (scheme == "first") {
      step.prepend = Prepend::kFirst;
    } else if (scheme == "never") {
      step.prepend = Prepend::kNever;
    } else if (scheme != "always") {
      fail(ErrorCode::kUnsupported, "tokenizer.json: the prepend_scheme \"{}\" is not supported.",
           scheme);
    }
  } else if (!json_bool(node, "add_prefix_space", true)) {
    step.prepend = Prepend::kNever;
  }
  steps.emplace_back(step);
  if (json_bool(node, "split", true)) {
    steps.emplace_back(PreTokenizer::Split{SplitRegex::literal(step.replacement),
                                           SplitBehavior::kMergedWithNext, false});
  }
}

void read_steps(const Json& node, std::vector<PreTokenizer::Step>& steps, bool& byte_level) {
  const std::string type = json_string(node, "type");
  // Behind ByteLevel the text would be spelled in the byte alphabet, which no known model splits
  // on.
  if (byte_level) {
    fail(ErrorCode::kUnsupported,
         "tokenizer.json: the pre-tokenizer \"{}\" behind \"ByteLevel\" is not supported.", type);
  }
  if (type == "Sequence") {
    for (const Json& child : json_array(node, "pretokenizers")) {
      read_steps(child, steps, byte_level);
    }
  } else if (type == "ByteLevel") {
    if (json_bool(node, "add_prefix_space", true)) steps.emplace_back(PreTokenizer::PrefixSpace{});
    if (json_bool(node, "use_regex", true)) {
      steps.emplace_back(split_by(kGpt2Pattern, SplitBehavior::kIsolated));
    }
    byte_level = true;
  } else if (type == "Split") {
    steps.emplace_back(PreTokenizer::Split{pattern_from_json(node),
                                           behavior_from_json(node, SplitBehavior::kIsolated),
                                           json_bool(node, "invert", false)});
  } else if (type == "Digits") {
    const bool single = json_bool(node, "individual_digits", false);
    steps.emplace_back(
        split_by("\\p{N}", single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
  } else if (type == "Metaspace") {
    read_metaspace(node, steps);
  } else if (type == "Whitespace") {
    steps.emplace_back(split_by("\\w+|[^\\w\\s]+", SplitBehavior::kRemoved, true));
  } else if (type == "WhitespaceSplit") {
    steps.emplace_back(split_by("\\s", SplitBehavior::kRemoved));
  } else if (type == "Punctuation") {
    steps.emplace_back(
        split_by("[\\p{P}!-/:-@\\[-`{-~]", behavior_from_json(node, SplitBehavior::kIsolated)));
  } else {
    fail(ErrorCode::kUnsupported, "tokenizer.json: the pre-tokenizer \"{}\" is not supported.",
         type);
  }
}

}  // namespace

PreTokenizer PreTokenizer::from_json(const Json* node, bool& byte_level) {
  std::vector<Step> steps;
  byte_level = false;
  if (node != nullptr) read_steps(*node, steps, byte_level);
  return PreTokenizer(std::move(steps));
}

void PreTokenizer::apply(std::string& text, bool at_start, std::vector<TextRange>& pieces) const {
  pieces.clear();
  if (!text.empty()) pieces.push_back({0, text.size()});
  const size_t before = text.size();
  for (const Step& step : steps_) {
    std::visit(StepRunner{text, at_start, pieces}, step);
    check_growth(before, text.size());
  }
}

}  // namespace clover
