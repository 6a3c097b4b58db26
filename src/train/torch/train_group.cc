// SPDX-License-Identifier: Apache-2.0
#include "train/torch/train_group.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "backend/torch/torch_values.h"
#include "base/error.h"

namespace clover {
namespace {

// The store refuses values of more than 8 MB.
constexpr size_t kPieceBytes = 4 << 20;

// For other processes to read what they still wait for.
constexpr std::chrono::seconds kFarewell{10};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == 0)
    fail(ErrorCode::kInvalidArgument,
         "WORLD_SIZE is set, but not {}: start the processes with torchrun", name);
  return value;
}

int64_t number(const char* name, int64_t low, int64_t high) {
  const std::string text = variable(name);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    fail(ErrorCode::kInvalidArgument, "{} must be a number from {} to {}, not '{}'", name, low,
         high, text);
  return value;
}

// Part i of n of a range.
struct Slice {
  size_t begin;
  size_t size;
};
Slice slice(size_t values, int64_t i, int64_t n) {
  const auto at = [&](int64_t k) {
    return values * static_cast<size_t>(k) / static_cast<size_t>(n);
  };
  return {at(i), at(i + 1) - at(i)};
}

template <class T>
std::span<const uint8_t> bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()};
}

}  // namespace

struct TrainGroup::Store {
  c10::intrusive_ptr<c10d::Store> names;
};

GroupAddress group_from_environment() {
  GroupAddress address;
  if (std::getenv("WORLD_SIZE") == nullptr) return address;
  address.size = number("WORLD_SIZE", 1, 1024);
  if (address.size == 1) return address;
  address.rank = number("RANK", 0, address.size - 1);
  address.host = variable("MASTER_ADDR");
  address.port = static_cast<uint16_t>(number("MASTER_PORT", 1, 65535));
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  address.serves = address.rank == 0 && (agent == nullptr || std::string_view(agent) != "True");
  // After a restart nothing of the attempt before is read.
  const char* restarts = std::getenv("TORCHELASTIC_RESTART_COUNT");
  address.prefix = std::string("clover/") + (restarts == nullptr ? "0" : restarts);
  return address;
}

TrainGroup::TrainGroup(const GroupAddress& address) : address_(address) {
  if (address_.size == 1) return;
  with_torch("meeting the other processes", [&] {
    c10d::TCPStoreOptions options;
    options.port = address_.port;
    options.isServer = address_.serves;
    options.waitWorkers = false;
    options.timeout = address_.patience;
    store_ = std::make_unique<Store>();
    store_->names = c10::make_intrusive<c10d::PrefixStore>(
        address_.prefix, c10::make_intrusive<c10d::TCPStore>(address_.host, options));
    return 0;
  });
}

TrainGroup::~TrainGroup() {
  if (!store_) return;
  try {
    store_->names->set(fmt::format("bye/{}", rank()), std::string("1"));
    if (!address_.serves) return;
    std::vector<std::string> all;
    for (int64_t i = 0; i < size(); ++i) all.push_back(fmt::format("bye/{}", i));
    store_->names->wait(all, std::min<std::chrono::milliseconds>(address_.patience, kFarewell));
  } catch (const std::exception&) {
    // The others are gone, or have failed and been told so already.
  }
}

std::string TrainGroup::key(const char* what, int64_t from, int64_t to) const {
  return fmt::format("{}/{}/{}/{}", round_, what, from, to);
}

void TrainGroup::put(const std::string& key, std::span<const uint8_t> bytes) {
  size_t at = 0;
  do {  // an empty value too says that this process has come so far
    const auto piece = bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at));
    written_.push_back(fmt::format("{}/{}", key, at));
    store_->names->set(written_.back(), Bytes(piece.begin(), piece.end()));
    at += kPieceBytes;
  } while (at < bytes.size());
}

TrainGroup::Bytes TrainGroup::get(const std::string& key, size_t size) {
  Bytes bytes;
  bytes.reserve(size);
  size_t at = 0;
  do {
    const Bytes piece = store_->names->get(fmt::format("{}/{}", key, at));
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    at += kPieceBytes;
  } while (at < size);
  if (bytes.size() != size)
    fail(ErrorCode::kInvalidArgument,
         "the processes of the training disagree: {} bytes came where {} were expected",
         bytes.size(), size);
  return bytes;
}

void TrainGroup::forget_earlier() {
  for (const std::string& name : earlier_) store_->names->deleteKey(name);
  earlier_ = std::move(written_);
  written_.clear();
}

std::string TrainGroup::share(const std::string& text) {
  if (size() == 1) return text;
  return with_torch("sharing a text between processes", [&] {
    // The length travels ahead.
    double length = first() ? static_cast<double>(text.size()) : 0.0;
    sum({&length, 1});
    ++round_;
    const std::string name = key("text", 0, 0);
    if (first()) {
      put(name, bytes_of(std::span<const char>(text)));
      return text;
    }
    const Bytes bytes = get(name, static_cast<size_t>(length));
    return std::string(bytes.begin(), bytes.end());
  });
}

template <class T>
void TrainGroup::sum_slices(std::span<T> values) {
  if (size() == 1) return;
  with_torch("adding up over processes", [&] {
    ++round_;
    const auto part = [&](int64_t i) {
      const Slice s = slice(values.size(), i, size());
      return values.subspan(s.begin, s.size);
    };
    for (int64_t to = 0; to < size(); ++to)
      if (to != rank()) put(key("part", rank(), to), bytes_of(std::span<const T>(part(to))));
    const std::span<T> own = part(rank());
    std::vector<T> total(own.size());
    for (int64_t from = 0; from < size(); ++from) {
      std::vector<T> theirs(own.begin(), own.end());
      if (from != rank()) {
        const Bytes bytes = get(key("part", from, rank()), own.size_bytes());
        std::memcpy(theirs.data(), bytes.data(), bytes.size());
      }
      for (size_t i = 0; i < total.size(); ++i)
        total[i] = from == 0 ? theirs[i] : total[i] + theirs[i];
    }
    std::copy(total.begin(), total.end(), own.begin());
    forget_earlier();
    put(key("sum", rank(), 0), bytes_of(std::span<const T>(own)));
    for (int64_t from = 0; from < size(); ++from) {
      if (from == rank()) continue;
      const std::span<T> theirs = part(from);
      const Bytes bytes = get(key("sum", from, 0), theirs.size_bytes());
      std::memcpy(theirs.data(), bytes.data(), bytes.size());
    }
    return 0;
  });
}

void TrainGroup::sum(std::span<double> values) { sum_slices(values); }

void TrainGroup::sum(std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& shapes) {
  if (size() == 1) return;
  std::vector<double> defined;
  defined.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) defined.push_back(tensor.defined() ? 1.0 : 0.0);
  sum(defined);
  std::vector<float> all;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (defined[i] == 0) continue;
    if (!tensors[i].defined()) tensors[i] = at::zeros_like(shapes[i]);
    tensors[i] = tensors[i].contiguous();
    const float* values = tensors[i].data_ptr<float>();
    all.insert(all.end(), values, values + tensors[i].numel());
  }
  sum_slices(std::span<float>(all));
  const float* from = all.data();
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    std::copy(from, from + tensor.numel(), tensor.data_ptr<float>());
    from += tensor.numel();
  }
}

}  // namespace clover
