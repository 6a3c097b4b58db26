// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <memory>
#include <sstream>

#include "base/error.h"
#include "cli/input.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/verbs.h"

namespace clover {
namespace {

struct TokenizeOptions {
  CommonOptions common;
  TextInput input;
  bool ids = false;
  bool no_special = false;
  bool parse_special = false;
};

// Bytes that are no printable character show as \xNN, so that one piece stays on one line.
std::string readable(std::string_view piece) {
  std::string out;
  const std::string clean = Json(piece).dump(-1, ' ', false, Json::error_handler_t::ignore);
  if (json_line(Json(piece)) == clean) return clean.substr(1, clean.size() - 2);
  for (const char c : piece) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x80 ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return out;
}

// Ids in decimal, separated by white space or commas; brackets are ignored, so that the output of
// --json can be given back.
std::vector<TokenId> parse_ids(std::string text) {
  for (char& c : text)
    if (c == ',' || c == '[' || c == ']') c = ' ';
  std::istringstream words(text);
  std::vector<TokenId> ids;
  std::string word;
  while (words >> word) {
    TokenId id = -1;
    const char* end = word.data() + word.size();
    const auto [rest, error] = std::from_chars(word.data(), end, id);
    if (error != std::errc() || rest != end)
      fail(ErrorCode::kInvalidArgument, "'{}' is no token id", word.substr(0, 40));
    ids.push_back(id);
  }
  return ids;
}

Json ids_and_pieces(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Json result = {{"ids", Json::array()}, {"pieces", Json::array()}};
  for (const TokenId id : ids) {
    result["ids"].push_back(id);
    result["pieces"].push_back(std::string(tokenizer.token_bytes(id)));
  }
  return result;
}

int tokenize(const TokenizeOptions& options) {
  const std::string text = read_text(options.input, options.common.quiet);
  const auto checkpoint = open_checkpoint(model_path(options.common));
  const auto tokenizer = load_tokenizer(*checkpoint);
  if (options.ids) {
    const std::string decoded = tokenizer->decode(parse_ids(text), options.no_special);
    if (!options.common.json.empty()) write_json(options.common.json, {{"text", decoded}});
    print(decoded + "\n");
    return 0;
  }
  const auto ids = tokenizer->encode(text, options.parse_special, {!options.no_special});
  if (!options.common.json.empty())
    write_json(options.common.json, ids_and_pieces(*tokenizer, ids));
  std::string lines;
  for (const TokenId id : ids)
    lines += fmt::format("{:>7}  {}\n", id, readable(tokenizer->token_bytes(id)));
  print(lines);
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& program, Action& action) {
  CLI::App& verb = *program.add_subcommand("tokenize", "Text to token ids, or back.");
  const auto options = std::make_shared<TokenizeOptions>();
  add_model_option(verb, options->common);
  add_text_options(verb, options->input, "the text, or the ids with --ids");
  verb.add_flag("--ids", options->ids, "the input is token ids: give their text");
  verb.add_flag("--no-special", options->no_special,
                "add no BOS or EOS; with --ids, leave control tokens out");
  verb.add_flag("--parse-special", options->parse_special,
                "let the text spell control tokens such as <|im_end|>");
  add_json_option(verb, options->common);
  add_quiet_option(verb, options->common);
  verb.callback([options, &action] { action = [options] { return tokenize(*options); }; });
}

}  // namespace clover
