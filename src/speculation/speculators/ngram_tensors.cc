// SPDX-License-Identifier: Apache-2.0
#include "speculation/speculators/ngram_tensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string>

#include "base/error.h"
#include "checkpoint/names.h"

namespace clover {
namespace {

constexpr std::string_view kTokens = "ngram.tokens";
constexpr std::array<std::string_view, 3> kParts = {"contexts", "next", "probabilities"};

std::string part_name(size_t order, size_t part) {
  return fmt::format("ngram.{}.{}", order, kParts[part]);
}

// The values of a tensor of `type` with rows of `width`; kTokens has no rows.
template <typename T>
std::vector<T> read(const Checkpoint& package, std::string_view name, DType type, int64_t width) {
  const TensorInfo& tensor = package.at(name);
  const size_t extents = name == kTokens ? 1 : 2;
  if (tensor.type != type || tensor.shape.size() != extents ||
      (extents == 2 && tensor.shape[1] != width))
    fail(ErrorCode::kCorrupt,
         "{}: tensor {} of type {} and shape [{}] is no part of an n-gram table", package.path(),
         quote_name(name), dtype_name(tensor.type), fmt::join(tensor.shape, ", "));
  std::vector<T> values(tensor.data.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

template <typename T>
void append(std::vector<TensorInfo>& tensors, std::string name, DType type,
            const std::vector<T>& values, int64_t width) {
  tensors.push_back({std::move(name),
                     type,
                     {std::ssize(values) / width, width},
                     std::as_bytes(std::span(values))});
}

}  // namespace

bool is_ngram_tensor(std::string_view name) {
  if (name == kTokens) return true;
  for (size_t order = 1; order <= NgramTable::kOrders; ++order)
    for (size_t part = 0; part < kParts.size(); ++part)
      if (name == part_name(order, part)) return true;
  return false;
}

NgramTable::Parts read_ngram_table(const Checkpoint& package) {
  NgramTable::Parts parts;
  parts.tokens = read<int32_t>(package, kTokens, DType::kI32, 1);
  const std::vector<int64_t>& shape = package.at(part_name(1, 1)).shape;
  const int64_t best = shape.size() == 2 ? shape[1] : 0;
  parts.best = static_cast<int32_t>(std::clamp<int64_t>(best, 0, NgramTable::kMostNext + 1));
  for (size_t order = 1; order <= NgramTable::kOrders; ++order) {
    NgramTable::Order& rows = parts.orders[order - 1];
    rows.contexts =
        read<int16_t>(package, part_name(order, 0), DType::kI16, static_cast<int64_t>(order));
    rows.next = read<int16_t>(package, part_name(order, 1), DType::kI16, best);
    rows.probabilities = read<uint8_t>(package, part_name(order, 2), DType::kU8, best);
  }
  return parts;
}

void append_ngram_tensors(const NgramTable::Parts& table, std::vector<TensorInfo>& tensors) {
  tensors.push_back({std::string(kTokens),
                     DType::kI32,
                     {std::ssize(table.tokens)},
                     std::as_bytes(std::span(table.tokens))});
  for (size_t order = 1; order <= NgramTable::kOrders; ++order) {
    const NgramTable::Order& rows = table.orders[order - 1];
    append(tensors, part_name(order, 0), DType::kI16, rows.contexts, static_cast<int64_t>(order));
    append(tensors, part_name(order, 1), DType::kI16, rows.next, table.best);
    append(tensors, part_name(order, 2), DType::kU8, rows.probabilities, table.best);
  }
}

}  // namespace clover
