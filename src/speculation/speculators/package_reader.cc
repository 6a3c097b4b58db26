// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/package_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "checkpoint/digest.h"
#include "checkpoint/names.h"
#include "model/weights.h"
#include "speculation/speculators/int8_matrix.h"
#include "speculation/speculators/ngram_tensors.h"
#include "tensor/quant.h"
#include "tensor/quantise.h"

namespace clover {
namespace {

constexpr std::string_view kDraftIds = "d2t";

bool is_float(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16;
}

void check_shape(const TensorInfo& tensor, const std::vector<int64_t>& shape,
                 const std::string& path) {
  if (tensor.shape == shape) return;
  fail(ErrorCode::kCorrupt, "{}: tensor {} has shape [{}], the configuration asks for [{}]", path,
       quote_name(tensor.name), fmt::join(tensor.shape, ", "), fmt::join(shape, ", "));
}

void check_type(const TensorInfo& tensor, bool fits, const std::string& path) {
  if (fits) return;
  fail(ErrorCode::kCorrupt, "{}: tensor {} has type {}, which cannot hold weights", path,
       quote_name(tensor.name), dtype_name(tensor.type));
}

// Columns [first, first + count) of every row.
std::vector<float> cut_columns(std::span<const float> values, int64_t cols, int64_t first,
                               int64_t count) {
  std::vector<float> out;
  out.reserve(values.size() / static_cast<size_t>(cols) * static_cast<size_t>(count));
  for (size_t row = 0; row < values.size(); row += static_cast<size_t>(cols)) {
    const auto begin = values.begin() + static_cast<int64_t>(row) + first;
    out.insert(out.end(), begin, begin + count);
  }
  return out;
}

void append(std::vector<float>& values, const std::vector<float>& more) {
  values.insert(values.end(), more.begin(), more.end());
}

}  // namespace

PackageFiles::PackageFiles(const Checkpoint& files, const PackageConfig& config,
                           const ModelConfig& target)
    : files_(files), config_(config), vocab_(target.vocab) {
  const std::vector<TensorLayout> layout =
      config.has_head() ? package_layout(config, target) : std::vector<TensorLayout>();
  for (const TensorLayout& expected : layout) {
    check_weights(files.at(expected.name), expected.shape);
  }
  if (config.has_head() && has_own_head())
    check_weights(at(kOwnHead), {config.draft_vocab, target.hidden});
  for (const TensorInfo& tensor : files.tensors()) {
    if (config.has_head() && tensor.name == kDraftIds) continue;
    if (config.ngram_table && is_ngram_tensor(tensor.name)) continue;
    const auto is_of = [&](std::string_view matrix) {
      return tensor.name == matrix ||
             (tensor.name == scales_name(matrix) && files.at(matrix).type == DType::kI8);
    };
    if (config.has_head() && has_own_head() && is_of(kOwnHead)) continue;
    if (std::none_of(layout.begin(), layout.end(),
                     [&](const TensorLayout& t) { return is_of(t.name); }))
      fail(ErrorCode::kCorrupt, "{}: tensor {} has no place in a speculator of this configuration",
           path(), quote_name(tensor.name));
  }
}

void PackageFiles::check_weights(const TensorInfo& tensor,
                                 const std::vector<int64_t>& shape) const {
  check_shape(tensor, shape, path());
  const bool whole = tensor.type == DType::kI8 && fits_int8(shape);
  check_type(tensor, whole || is_float(tensor.type), path());
  if (!whole) return;
  const TensorInfo& scales = at(scales_name(tensor.name));
  check_shape(scales, scales_shape(shape), path());
  check_type(scales, scales.type == DType::kF16, path());
}

std::vector<float> PackageFiles::values(std::string_view name) const {
  const TensorInfo& tensor = at(name);
  std::vector<float> out;
  if (tensor.type == DType::kI8) {
    out = from_int8(tensor, at(scales_name(name)));
  } else {
    int64_t count = 1;
    for (const int64_t extent : tensor.shape) count *= extent;
    out.resize(static_cast<size_t>(count));
    dequantise(tensor.type, tensor.data.data(), count, out.data());
  }
  for (const float x : out) {
    if (!std::isfinite(x))
      fail(ErrorCode::kCorrupt, "{}: tensor {} holds a value that is not finite", path(),
           quote_name(name));
  }
  return out;
}

std::vector<int32_t> PackageFiles::draft_tokens() const {
  if (!files_.find(kDraftIds)) {
    if (config_.draft_vocab == vocab_) return {};
    fail(ErrorCode::kNotFound, "{} drafts {} of {} tokens, but has no tensor 'd2t' that says which",
         path(), config_.draft_vocab, vocab_);
  }
  const TensorInfo& tensor = at(kDraftIds);
  check_shape(tensor, {config_.draft_vocab}, path());
  if (tensor.type != DType::kI32 && tensor.type != DType::kI64)
    fail(ErrorCode::kCorrupt, "{}: tensor 'd2t' has type {}, not I32 or I64", path(),
         dtype_name(tensor.type));
  const size_t width = tensor.type == DType::kI32 ? 4 : 8;
  std::vector<int32_t> ids;
  std::vector<uint8_t> seen(static_cast<size_t>(vocab_));
  for (size_t at = 0; at < tensor.data.size(); at += width) {
    int64_t id = 0;
    int32_t narrow = 0;
    std::memcpy(width == 4 ? static_cast<void*>(&narrow) : &id, tensor.data.data() + at, width);
    if (width == 4) id = narrow;
    if (id < 0 || id >= vocab_)
      fail(ErrorCode::kCorrupt, "{}: d2t names token {}, outside the vocabulary of {}", path(), id,
           vocab_);
    if (seen[static_cast<size_t>(id)]++)
      fail(ErrorCode::kCorrupt, "{}: d2t names token {} twice", path(), id);
    ids.push_back(static_cast<int32_t>(id));
  }
  if (!config_.d2t_sha256.empty() &&
      config_.d2t_sha256 != sha256_hex(std::as_bytes(std::span(ids))))
    fail(ErrorCode::kCorrupt, "{}: d2t is not the one that d2t_sha256 of the configuration names",
         path());
  return ids;
}

VectorPtr PackageReader::vector(std::span<const std::string> names, int64_t zeros) const {
  std::vector<float> all;
  for (const std::string& name : names) append(all, files_.values(name));
  all.resize(all.size() + static_cast<size_t>(zeros));
  const WeightView view{DType::kF32, 1, static_cast<int64_t>(all.size()),
                        reinterpret_cast<const std::byte*>(all.data())};
  return backend_.load_vector({&view, 1});
}

MatrixPtr PackageReader::matrix(std::span<const WeightPart> parts) const {
  const std::string& name = parts.front().name;
  int64_t cols = 0;
  std::vector<float> all;
  for (const WeightPart& part : parts) {
    const int64_t width = files_.at(part.name).shape.back();
    cols = part.cols == 0 ? width : part.cols;
    append(all, cut_columns(files_.values(part.name), width, part.first, cols));
  }
  const auto count = static_cast<int64_t>(all.size());
  if (cols % block_elements(config_.weights) != 0)
    fail(ErrorCode::kUnsupported, "{}: {} weights need rows of a multiple of {}, tensor {} has {}",
         files_.path(), dtype_name(config_.weights), block_elements(config_.weights),
         quote_name(name), cols);
  try {
    const std::vector<std::byte> bytes = quantise(config_.weights, all.data(), count);
    const WeightView view{config_.weights, count / cols, cols, bytes.data()};
    return backend_.load_matrix({&view, 1});
  } catch (const Error& error) {
    fail(error.code(), "{}: tensor {}: {}", files_.path(), quote_name(name), error.what());
  }
}

DraftHead PackageReader::head() const {
  const Model& model = target_.model;
  DraftHead head;
  head.ids = files_.draft_tokens();
  if (files_.has_own_head()) {
    const WeightPart whole{std::string(PackageFiles::kOwnHead)};
    head.matrix = matrix({&whole, 1});
  } else {
    // Every depth reads these rows: with 4-bit weights they are as much as all else together.
    const auto as = config_.weights == DType::kQ4_1 ? std::optional(DType::kQ4_1) : std::nullopt;
    head.matrix = head.ids.empty()
                      ? model.weights().head
                      : load_head_rows(target_.tensors, model.config(), backend_, head.ids, as);
  }
  return head;
}

std::shared_ptr<const CloverWeights> PackageReader::clover() const {
  return assemble_clover(config_, target_.model, *this, head());
}

std::shared_ptr<const EagleWeights> PackageReader::eagle() const {
  return assemble_eagle(config_, target_.model, *this, head());
}

}  // namespace clover
