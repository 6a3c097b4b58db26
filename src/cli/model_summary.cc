// SPDX-License-Identifier: Apache-2.0
#include "cli/model_summary.h"

#include <map>
#include <utility>

#include "base/error.h"
#include "model/config.h"
#include "tensor/quant.h"
#include "tokenizer/tokenizer.h"

namespace clover {
namespace {

int64_t element_count(const TensorInfo& tensor) {
  int64_t count = 1;
  for (const int64_t extent : tensor.shape) count *= extent;
  return count;
}

// What the CPU backend's own layout needs for a tensor, up to padding.
double resident_bytes(const TensorInfo& tensor) {
  const auto count = static_cast<double>(element_count(tensor));
  if (tensor.shape.size() < 2) return count * 4;
  if (!is_quantised(tensor.type)) return static_cast<double>(tensor.data.size());
  const GroupFormat format = group_format(tensor.type);
  const double scale_bytes = format.has_min ? 4 : 2;
  return count * (format.code_bits / 8.0 + scale_bytes / format.group);
}

Json file_json(const Checkpoint& checkpoint) {
  int64_t parameters = 0;
  std::map<std::string, std::pair<int64_t, int64_t>> types;
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    parameters += element_count(tensor);
    auto& [count, bytes] = types[std::string(dtype_name(tensor.type))];
    ++count;
    bytes += static_cast<int64_t>(tensor.data.size());
  }
  Json histogram = Json::object();
  for (const auto& [name, entry] : types)
    histogram[name] = {{"tensors", entry.first}, {"bytes", entry.second}};
  return {{"path", checkpoint.path()},
          {"format", checkpoint.format() == Checkpoint::Format::kGguf ? "GGUF" : "Hugging Face"},
          {"files", checkpoint.files().size()},
          {"bytes", checkpoint.total_bytes()},
          {"tensors", checkpoint.tensors().size()},
          {"parameters", parameters},
          {"types", std::move(histogram)}};
}

Json rope_json(const ModelConfig& config) {
  if (!config.rope) return {{"kind", "ALiBi"}};
  static constexpr const char* kKinds[] = {"none", "linear", "llama3", "yarn"};
  const RopeScaling& scaling = config.rope_scaling;
  Json rope = {{"kind", "RoPE"},
               {"theta", config.rope_theta},
               {"layout", config.rope_adjacent ? "adjacent" : "halves"},
               {"scaling", kKinds[static_cast<size_t>(scaling.kind)]}};
  if (scaling.kind != RopeScaling::Kind::kNone) rope["factor"] = scaling.factor;
  if (scaling.original_context > 0) rope["original_context"] = scaling.original_context;
  if (!scaling.frequency_factors.empty()) rope["frequency_factors"] = "from the file";
  return rope;
}

Json config_json(const ModelConfig& config) {
  return {{"architecture", config.architecture},
          {"name", config.name},
          {"layers", config.layers},
          {"hidden", config.hidden},
          {"heads", config.heads},
          {"kv_heads", config.kv_heads},
          {"head_dim", config.head_dim},
          {"intermediate", config.intermediate},
          {"vocab", config.vocab},
          {"context", config.context},
          {"window", config.window},
          {"norm_eps", config.norm_eps},
          {"positions", rope_json(config)},
          {"tied_head", config.tied_head},
          {"normalised_head", config.normalised_head},
          {"qkv_bias", config.qkv_bias},
          {"qk_norm", config.qk_norm}};
}

Json tokenizer_json(const Checkpoint& checkpoint) {
  const auto tokenizer = load_tokenizer(checkpoint);
  Json special = Json::object();
  for (const auto& [name, text] : tokenizer->template_tokens()) {
    const auto id = tokenizer->find(text);
    special[name] = {{"text", text}, {"id", id ? Json(*id) : Json()}};
  }
  Json ends = Json::array();
  for (const TokenId id : tokenizer->eos_ids())
    ends.push_back({{"id", id}, {"text", std::string(tokenizer->token_bytes(id))}});
  const auto chat = tokenizer->chat_template();
  return {{"kind", tokenizer->kind()},
          {"vocab", tokenizer->vocab_size()},
          {"special_tokens", std::move(special)},
          {"end_tokens", std::move(ends)},
          {"chat_template", chat ? Json(*chat) : Json()}};
}

Json memory_json(const Checkpoint& checkpoint, const ModelConfig& config) {
  double resident = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) resident += resident_bytes(tensor);
  const int64_t values = 2 * config.layers * config.kv_heads * config.head_dim;
  return {{"resident_bytes_estimate", static_cast<int64_t>(resident)},
          {"kv_bytes_per_token", {{"f16", values * 2}, {"f32", values * 4}}}};
}

// Runs `make`, or says why it could not.
template <typename Make>
Json or_error(const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    return {{"error", error.what()}};
  }
}

template <typename Item>
Json array_json(const std::vector<Item>& items, size_t max_items) {
  Json array = Json::array();
  for (size_t i = 0; i < items.size() && (max_items == 0 || i < max_items); ++i)
    array.push_back(Item(items[i]));
  if (max_items > 0 && items.size() > max_items)
    array.push_back(fmt::format("… {} in all", items.size()));
  return array;
}

struct ValueToJson {
  size_t max_items;
  Json operator()(const MetaValue::Scalar& scalar) const {
    return std::visit([](const auto& value) { return Json(value); }, scalar);
  }
  template <typename Item>
  Json operator()(const std::vector<Item>& items) const {
    return array_json(items, max_items);
  }
};

}  // namespace

Json model_summary(const Checkpoint& checkpoint) {
  Json summary = {{"file", file_json(checkpoint)}};
  ModelConfig config;
  summary["model"] = or_error([&] {
    config = read_model_config(checkpoint);
    return config_json(config);
  });
  summary["tokenizer"] = or_error([&] { return tokenizer_json(checkpoint); });
  summary["memory"] = or_error([&] { return memory_json(checkpoint, config); });
  return summary;
}

Json tensor_list(const Checkpoint& checkpoint) {
  Json list = Json::array();
  for (const TensorInfo& tensor : checkpoint.tensors())
    list.push_back({{"name", tensor.name},
                    {"type", dtype_name(tensor.type)},
                    {"shape", tensor.shape},
                    {"bytes", tensor.data.size()}});
  return list;
}

Json metadata_object(const Checkpoint& checkpoint, size_t max_items) {
  Json object = Json::object();
  for (const auto& [key, value] : checkpoint.metadata())
    object[key] = std::visit(ValueToJson{max_items}, value.value);
  for (const char* name : {"config.json", "generation_config.json", "tokenizer_config.json"})
    if (const Json* document = checkpoint.document(name)) object[name] = *document;
  return object;
}

std::string format_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

}  // namespace clover
