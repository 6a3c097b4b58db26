// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <string>

#include "base/error.h"
#include "cli/distilled_info.h"
#include "cli/input.h"
#include "cli/model_summary.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/verbs.h"
#include "speculation/speculators/package.h"
#include "train/distilled_folder.h"

namespace clover {
namespace {

constexpr size_t kShownItems = 8;
constexpr size_t kTemplateLines = 12;

struct InfoOptions {
  CommonOptions common;
  bool show_template = false;
  bool metadata = false;
  bool tensors = false;
};

// A value from a file in one line without control characters: it must not steer the terminal.
std::string shown(const Json& value) {
  const std::string text = json_line(value);
  return value.is_string() ? text.substr(1, text.size() - 2) : text;
}

std::string row(const std::string& label, const std::string& value) {
  return fmt::format("{:<14} {}\n", label, value);
}

std::string file_text(const Json& file) {
  std::string types;
  for (const auto& [name, entry] : file["types"].items())
    types += fmt::format("{}{} in {} tensor{}, {}", types.empty() ? "" : "; ", name,
                         shown(entry["tensors"]), entry["tensors"] == 1 ? "" : "s",
                         format_bytes(entry["bytes"]));
  return row("path", shown(file["path"])) +
         row("format", fmt::format("{}, {} file{}, {}", shown(file["format"]), shown(file["files"]),
                                   file["files"] == 1 ? "" : "s", format_bytes(file["bytes"]))) +
         row("tensors", fmt::format("{} with {} parameters", shown(file["tensors"]),
                                    shown(file["parameters"]))) +
         row("types", types);
}

std::string positions_text(const Json& positions) {
  if (!positions.contains("theta")) return shown(positions["kind"]);
  std::string text = fmt::format("RoPE, theta {}, pairs {}", shown(positions["theta"]),
                                 shown(positions["layout"]));
  if (positions["scaling"] != "none") text += ", scaling " + shown(positions["scaling"]);
  if (positions.contains("factor")) text += " by " + shown(positions["factor"]);
  if (positions.contains("original_context"))
    text += " from " + shown(positions["original_context"]);
  if (positions.contains("frequency_factors")) text += ", frequency factors from the file";
  return text;
}

std::string model_text(const Json& model) {
  if (model.contains("error")) return row("model", "cannot run: " + shown(model["error"]));
  std::string features = model["tied_head"] == true ? "head tied to the embedding" : "own head";
  if (model["normalised_head"] == true) features += ", normalised";
  if (model["qkv_bias"] == true) features += "; q, k, v with bias";
  if (model["qk_norm"] == true) features += "; q and k normalised";
  std::string context = shown(model["context"]) + " tokens";
  if (model["window"] != 0) context += ", sliding window " + shown(model["window"]);
  return row("architecture", shown(model["architecture"])) + row("name", shown(model["name"])) +
         row("shape",
             fmt::format("{} layers, hidden {}, {} heads of {} ({} KV heads), "
                         "intermediate {}, vocabulary {}",
                         shown(model["layers"]), shown(model["hidden"]), shown(model["heads"]),
                         shown(model["head_dim"]), shown(model["kv_heads"]),
                         shown(model["intermediate"]), shown(model["vocab"]))) +
         row("features", features) + row("context", context) +
         row("positions", positions_text(model["positions"]));
}

std::string template_text(const Json& source, bool show) {
  if (source.is_null()) return row("chat template", "no");
  const auto text = source.get<std::string>();
  std::string out = row("chat template", fmt::format("yes, {} bytes", text.size()));
  size_t begin = 0;
  for (size_t line = 0; show && line < kTemplateLines && begin < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    out += "  | " + shown(Json(text.substr(begin, end - begin))) + "\n";
    begin = end + 1;
  }
  if (show && begin < text.size()) out += "  | … (all of it with --json)\n";
  return out;
}

std::string tokenizer_text(const Json& tokenizer, bool show_template) {
  if (tokenizer.contains("error")) return row("tokenizer", "none: " + shown(tokenizer["error"]));
  std::string special;
  for (const auto& [name, entry] : tokenizer["special_tokens"].items())
    special += fmt::format("{}{} {} ({})", special.empty() ? "" : ", ", name, shown(entry["text"]),
                           shown(entry["id"]));
  std::string ends;
  for (const Json& end : tokenizer["end_tokens"])
    ends +=
        fmt::format("{}{} ({})", ends.empty() ? "" : ", ", shown(end["text"]), shown(end["id"]));
  return row("tokenizer",
             fmt::format("{}, {} tokens", shown(tokenizer["kind"]), shown(tokenizer["vocab"]))) +
         row("special", special) + row("end of text", ends) +
         template_text(tokenizer["chat_template"], show_template);
}

std::string memory_text(const Json& memory, const Json& model) {
  if (model.contains("error")) return "";
  const Json& kv = memory["kv_bytes_per_token"];
  const double context = model["context"].get<double>();
  return row("weights",
             fmt::format("about {} resident", format_bytes(memory["resident_bytes_estimate"]))) +
         row("KV cache", fmt::format("{} per token as f16, {} as f32; {} for the whole context",
                                     format_bytes(kv["f16"]), format_bytes(kv["f32"]),
                                     format_bytes(kv["f16"].get<double>() * context)));
}

std::string tensors_text(const Json& tensors) {
  std::string out = "\n";
  for (const Json& tensor : tensors)
    out += fmt::format("{:<8} {:<18} {:>12}  {}\n", shown(tensor["type"]), shown(tensor["shape"]),
                       shown(tensor["bytes"]), shown(tensor["name"]));
  return out;
}

std::string metadata_text(const Json& metadata) {
  std::string out = "\n";
  for (const auto& [key, value] : metadata.items())
    out += fmt::format("{} = {}\n", shown(Json(key)), shown(value));
  return out;
}

std::string package_text(const Json& package) {
  const Json& target = package["verifier"];
  std::string switches;
  for (const auto& [key, value] : package.items()) {
    if (key == "verifier" || key == "training" || key == "speculators_model_type") continue;
    switches += row("  " + key, shown(value));
  }
  return row("speculator", shown(package["speculators_model_type"])) +
         row("made for", fmt::format("{}: {} layers, hidden {}, vocabulary {}",
                                     shown(target["name"]), shown(target["num_layers"]),
                                     shown(target["hidden_size"]), shown(target["vocab_size"]))) +
         row("fingerprint", shown(target["fingerprint"])) +
         row("training", shown(package["training"])) + "switches\n" + switches;
}

int package_info(const InfoOptions& options, const std::string& path) {
  const Json package = package_config_json(read_package_config(path));
  const auto files = open_checkpoint(path);
  Json summary = {{"file", model_summary(*files)["file"]}, {"speculator", package}};
  std::string text = file_text(summary["file"]) + package_text(package);
  if (options.tensors) text += tensors_text(tensor_list(*files));
  if (!options.common.json.empty()) {
    if (options.tensors) summary["tensors"] = tensor_list(*files);
    write_json(options.common.json, summary);
  }
  print(text);
  return 0;
}

int data_info(const InfoOptions& options, const std::string& path) {
  const Json summary = distilled_summary(path);
  if (!options.common.json.empty()) write_json(options.common.json, summary);
  print(distilled_text(summary));
  return 0;
}

int info(const InfoOptions& options) {
  const std::string path = model_path(options.common);
  if (is_distilled(path)) return data_info(options, path);
  if (is_package(path)) return package_info(options, path);
  const auto checkpoint = open_checkpoint(path);
  Json summary = model_summary(*checkpoint);
  std::string text = file_text(summary["file"]) + model_text(summary["model"]) +
                     tokenizer_text(summary["tokenizer"], options.show_template) +
                     memory_text(summary["memory"], summary["model"]);
  if (options.metadata) text += metadata_text(metadata_object(*checkpoint, kShownItems));
  if (options.tensors) text += tensors_text(tensor_list(*checkpoint));
  if (!options.common.json.empty()) {
    if (options.metadata) summary["metadata"] = metadata_object(*checkpoint, 0);
    if (options.tensors) summary["tensors"] = tensor_list(*checkpoint);
    write_json(options.common.json, summary);
  }
  print(text);
  return 0;
}

}  // namespace

void add_info(CLI::App& program, Action& action) {
  CLI::App& verb = *program.add_subcommand("info", "What is in a model or a speculator package.");
  const auto options = std::make_shared<InfoOptions>();
  add_model_option(verb, options->common);
  verb.add_flag("--template", options->show_template, "show how the chat template begins");
  verb.add_flag("--metadata", options->metadata, "show all metadata");
  verb.add_flag("--tensors", options->tensors, "list the tensors");
  add_json_option(verb, options->common);
  add_quiet_option(verb, options->common);
  verb.callback([options, &action] { action = [options] { return info(*options); }; });
}

}  // namespace clover
