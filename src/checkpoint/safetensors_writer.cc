// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/names.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/writer.h"
#include "checkpoint/writer_checks.h"

namespace clover {
namespace {

constexpr const char* kMetadataKey = "__metadata__";
constexpr size_t kHeaderAlignment = 8;

void append(Json& object, std::string key, Json value) {
  // Not object[key] = value, which compares all keys.
  object.get_ref<Json::object_t&>().emplace_back(std::move(key), std::move(value));
}

std::string header_text(const std::vector<const TensorInfo*>& tensors,
                        const std::vector<std::pair<std::string, std::string>>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) {
    Json entries = Json::object();
    for (const auto& [key, value] : metadata) append(entries, key, value);
    append(header, kMetadataKey, std::move(entries));
  }
  uint64_t offset = 0;
  for (const TensorInfo* tensor : tensors) {
    const uint64_t end = offset + tensor->data.size();
    append(header, tensor->name,
           {{"dtype", dtype_name(tensor->type)},
            {"shape", tensor->shape},
            {"data_offsets", {offset, end}}});
    offset = end;
  }
  try {
    std::string text = header.dump();
    const size_t padded = (text.size() + kHeaderAlignment - 1) / kHeaderAlignment;
    text.resize(padded * kHeaderAlignment, ' ');
    return text;
  } catch (const Json::exception&) {
    fail(ErrorCode::kInvalidArgument, "a tensor's or metadata entry's name is not valid UTF-8");
  }
}

}  // namespace

void write_safetensors(const std::string& path, std::span<const TensorInfo> tensors,
                       const std::vector<std::pair<std::string, std::string>>& metadata) {
  check_tensors(tensors);
  std::vector<const TensorInfo*> order;
  for (const TensorInfo& tensor : tensors) {
    if (!safetensors_dtype(dtype_name(tensor.type))) {
      fail(ErrorCode::kUnsupported, "tensor {} of type {} cannot be stored as safetensors",
           quote_name(tensor.name), dtype_name(tensor.type));
    }
    if (tensor.name == kMetadataKey) {
      fail(ErrorCode::kInvalidArgument, "a tensor cannot be called {}", kMetadataKey);
    }
    order.push_back(&tensor);
  }
  std::stable_sort(order.begin(), order.end(), [](const TensorInfo* a, const TensorInfo* b) {
    return block_bytes(a->type) > block_bytes(b->type);
  });
  const std::string header = header_text(order, metadata);
  const uint64_t length = header.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(header);
  for (const TensorInfo* tensor : order) file.write(tensor->data);
  file.commit();
}

}  // namespace clover
