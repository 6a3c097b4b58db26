// SPDX-License-Identifier: Apache-2.0
#include "train/shard.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "checkpoint/digest.h"

namespace clover {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are little-endian");

constexpr char kMagic[8] = {'C', 'L', 'V', 'R', 'D', 'I', 'S', 'T'};
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 128;
constexpr size_t kDigestBytes = 32;
constexpr uint32_t kFlagEnded = 1;
constexpr uint32_t kFlagSelfDrawn = 2;
constexpr uint32_t kShortVocab = 65536;  // ids of up to that many tokens take two bytes

// Where the header's fields are.
enum Offset : size_t {
  kAtVersion = 8,
  kAtTokenBytes = 12,
  kAtVocab = 16,
  kAtSamples = 20,
  kAtFirstTask = 24,
  kAtTasks = 32,
  kAtDropped = 36,
  kAtReserved = 52,
  kAtTokens = 56,
  kAtResponseTokens = 64,
  kAtFingerprint = 72,
  kAtPadding = 104,
};

template <typename T>
T read_at(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <typename T>
void append(std::string& out, T value) {
  char raw[sizeof value];
  std::memcpy(raw, &value, sizeof value);
  out.append(raw, sizeof value);
}

std::string from_hex(const std::string& digits) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  if (digits.size() != 2 * kDigestBytes ||
      digits.find_first_not_of("0123456789abcdef") != std::string::npos)
    fail(ErrorCode::kInvalidArgument, "a target's fingerprint is 64 hexadecimal digits, not '{}'",
         digits);
  std::string raw;
  for (size_t i = 0; i < digits.size(); i += 2)
    raw += static_cast<char>(digit(digits[i]) * 16 + digit(digits[i + 1]));
  return raw;
}

uint32_t token_bytes_for(uint32_t vocab) { return vocab <= kShortVocab ? 2 : 4; }

uint32_t count_mask(const DistilledSample& sample) {
  return static_cast<uint32_t>(std::count(sample.mask.begin(), sample.mask.end(), 1));
}

void check_sample(const DistilledSample& sample, const ShardHeader& header) {
  const auto bad = [](const char* what) {
    fail(ErrorCode::kInvalidArgument, "a sample cannot be written: {}", what);
  };
  if (sample.ids.size() < 2 || sample.ids.size() > std::numeric_limits<uint32_t>::max())
    bad("it has too few or too many ids");
  if (sample.mask.size() != sample.ids.size()) bad("its mask has another length than its ids");
  if (sample.mask.front() != 0) bad("its first id is in the mask");
  if (count_mask(sample) == 0) bad("no id is in the mask");
  for (const TokenId id : sample.ids)
    if (id < 0 || static_cast<uint32_t>(id) >= header.vocab) bad("an id is outside the vocabulary");
  if (!std::isfinite(sample.temperature) || sample.temperature < 0) bad("its temperature is wrong");
  if (sample.task >= header.tasks) bad("its task is not of this shard");
}

std::string header_bytes(const ShardHeader& header) {
  std::string out(kMagic, sizeof kMagic);
  append(out, kVersion);
  append(out, token_bytes_for(header.vocab));
  append(out, header.vocab);
  append(out, header.samples);
  append(out, header.first_task);
  append(out, header.tasks);
  append(out, header.dropped.duplicate);
  append(out, header.dropped.excluded);
  append(out, header.dropped.unusable);
  append(out, header.dropped.failed);
  append(out, uint32_t{0});
  append(out, header.tokens);
  append(out, header.response_tokens);
  out += from_hex(header.fingerprint);
  out.resize(kHeaderBytes);
  return out;
}

std::string record_bytes(const DistilledSample& sample, uint64_t first_token) {
  std::string out;
  append(out, sample.prompt_hash);
  append(out, first_token);
  append(out, static_cast<uint32_t>(sample.ids.size()));
  append(out, count_mask(sample));
  append(out, sample.temperature);
  append(out, sample.task);
  append(out, (sample.ended ? kFlagEnded : 0U) | (sample.self_drawn ? kFlagSelfDrawn : 0U));
  append(out, sample.first_turn);
  append(out, sample.turns);
  return out;
}

}  // namespace

uint64_t shard_token_bytes(uint64_t tokens, uint32_t vocab) {
  return tokens * token_bytes_for(vocab) + (tokens + 7) / 8;
}

std::string shard_bytes(ShardHeader header, std::span<const DistilledSample> samples) {
  header.samples = static_cast<uint32_t>(samples.size());
  header.tokens = header.response_tokens = 0;
  std::string records;
  std::string ids;
  std::string mask;
  for (const DistilledSample& sample : samples) {
    check_sample(sample, header);
    records += record_bytes(sample, header.tokens);
    for (size_t i = 0; i < sample.ids.size(); ++i, ++header.tokens) {
      if (token_bytes_for(header.vocab) == 2)
        append(ids, static_cast<uint16_t>(sample.ids[i]));
      else
        append(ids, sample.ids[i]);
      const size_t bit = header.tokens % 8;
      if (bit == 0) mask += '\0';
      if (sample.mask[i] != 0) {
        mask.back() = static_cast<char>(static_cast<unsigned char>(mask.back()) | 1U << bit);
        ++header.response_tokens;
      }
    }
  }
  std::string out = header_bytes(header) + records + ids + mask;
  return out + from_hex(sha256_hex(std::as_bytes(std::span(out.data(), out.size()))));
}

ShardView::ShardView(std::span<const std::byte> bytes, const std::string& name) : name_(name) {
  read_header(bytes);
  read_records();
}

void ShardView::read_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes + kDigestBytes)
    fail(ErrorCode::kCorrupt, "{}: truncated: {} bytes, less than the header and the checksum",
         name_, bytes.size());
  if (std::memcmp(bytes.data(), kMagic, sizeof kMagic) != 0)
    fail(ErrorCode::kCorrupt, "{}: magic: this is no shard of distilled data", name_);
  const auto version = read_at<uint32_t>(bytes, kAtVersion);
  if (version != kVersion)
    fail(ErrorCode::kUnsupported, "{}: version: {} is unknown, {} is supported", name_, version,
         kVersion);
  header_.vocab = read_at<uint32_t>(bytes, kAtVocab);
  if (header_.vocab < 1 || header_.vocab > std::numeric_limits<int32_t>::max())
    fail(ErrorCode::kCorrupt, "{}: vocab: {} is no size of a vocabulary", name_, header_.vocab);
  token_bytes_ = read_at<uint32_t>(bytes, kAtTokenBytes);
  if (token_bytes_ != token_bytes_for(header_.vocab))
    fail(ErrorCode::kCorrupt, "{}: token_bytes: {} does not fit a vocabulary of {}", name_,
         token_bytes_, header_.vocab);
  header_.samples = read_at<uint32_t>(bytes, kAtSamples);
  header_.first_task = read_at<uint64_t>(bytes, kAtFirstTask);
  header_.tasks = read_at<uint32_t>(bytes, kAtTasks);
  if (header_.first_task > uint64_t{1} << 62)
    fail(ErrorCode::kCorrupt, "{}: first_task: {} is too large", name_, header_.first_task);
  std::memcpy(&header_.dropped, bytes.data() + kAtDropped, sizeof header_.dropped);
  header_.tokens = read_at<uint64_t>(bytes, kAtTokens);
  header_.response_tokens = read_at<uint64_t>(bytes, kAtResponseTokens);
  header_.fingerprint = hex(bytes.subspan(kAtFingerprint, kDigestBytes));
  const auto zero = [](std::byte b) { return b == std::byte{0}; };
  const auto padding = bytes.subspan(kAtPadding, kHeaderBytes - kAtPadding);
  if (read_at<uint32_t>(bytes, kAtReserved) != 0 ||
      !std::all_of(padding.begin(), padding.end(), zero))
    fail(ErrorCode::kCorrupt, "{}: reserved: bytes of the header that must be zero are not", name_);
  cut_parts(bytes);
}

void ShardView::cut_parts(std::span<const std::byte> bytes) {
  // Both are bounded by the file's size before anything is multiplied.
  const uint64_t body = bytes.size() - kHeaderBytes - kDigestBytes;
  const uint64_t records = header_.samples * kShardRecordBytes;
  const bool bounded = header_.tokens <= body && records <= body;
  const uint64_t wanted =
      bounded ? records + shard_token_bytes(header_.tokens, header_.vocab) : body + 1;
  if (wanted != body)
    fail(ErrorCode::kCorrupt,
         "{}: {} bytes are too {} for its {} samples and {} tokens; it was truncated or changed",
         name_, bytes.size(), wanted > body ? "few" : "many", header_.samples, header_.tokens);
  records_ = bytes.subspan(kHeaderBytes, records);
  ids_ = bytes.subspan(kHeaderBytes + records, header_.tokens * token_bytes_);
  mask_ = bytes.subspan(kHeaderBytes + records + ids_.size(), (header_.tokens + 7) / 8);
}

void ShardView::read_records() {
  uint64_t tokens = 0;
  uint64_t responses = 0;
  uint32_t task = 0;
  for (size_t i = 0; i < header_.samples; ++i) {
    const auto raw = records_.subspan(i * kShardRecordBytes, kShardRecordBytes);
    const Record record{
        read_at<uint64_t>(raw, 0),  read_at<uint64_t>(raw, 8),  read_at<uint32_t>(raw, 16),
        read_at<uint32_t>(raw, 20), read_at<float>(raw, 24),    read_at<uint32_t>(raw, 28),
        read_at<uint32_t>(raw, 32), read_at<uint16_t>(raw, 36), read_at<uint16_t>(raw, 38)};
    const auto bad = [&](const char* field) {
      fail(ErrorCode::kCorrupt, "{}: sample {}: {} is wrong", name_, i, field);
    };
    if (record.first_token != tokens) bad("first_token");
    if (record.tokens < 2 || record.tokens > header_.tokens - tokens) bad("tokens");
    if (!std::isfinite(record.temperature) || record.temperature < 0) bad("temperature");
    if (record.task >= header_.tasks || record.task < task) bad("task");
    if ((record.flags & ~(kFlagEnded | kFlagSelfDrawn)) != 0) bad("flags");
    check_tokens(record, i);
    task = record.task;
    tokens += record.tokens;
    responses += record.response_tokens;
    samples_.push_back(record);
  }
  if (tokens != header_.tokens)
    fail(ErrorCode::kCorrupt, "{}: tokens: the header says {}, the samples hold {}", name_,
         header_.tokens, tokens);
  if (responses != header_.response_tokens)
    fail(ErrorCode::kCorrupt, "{}: response_tokens: the header says {}, the samples hold {}", name_,
         header_.response_tokens, responses);
  if (header_.tokens % 8 != 0 && (static_cast<unsigned>(mask_.back()) >> header_.tokens % 8) != 0)
    fail(ErrorCode::kCorrupt, "{}: mask: bits behind the last token are set", name_);
}

void ShardView::check_tokens(const Record& record, size_t i) const {
  uint32_t responses = 0;
  for (uint64_t t = record.first_token; t < record.first_token + record.tokens; ++t) {
    if (static_cast<uint32_t>(id(t)) >= header_.vocab)
      fail(ErrorCode::kCorrupt, "{}: sample {}: ids: {} is outside the vocabulary of {}", name_, i,
           static_cast<uint32_t>(id(t)), header_.vocab);
    responses += in_mask(t) ? 1 : 0;
  }
  if (in_mask(record.first_token))
    fail(ErrorCode::kCorrupt, "{}: sample {}: mask: the first token cannot be an answer's", name_,
         i);
  if (responses == 0 || responses != record.response_tokens)
    fail(ErrorCode::kCorrupt, "{}: sample {}: response_tokens: {} where the mask has {}", name_, i,
         record.response_tokens, responses);
}

TokenId ShardView::id(uint64_t token) const {
  if (token_bytes_ == 2) return read_at<uint16_t>(ids_, token * 2);
  return read_at<int32_t>(ids_, token * 4);
}

bool ShardView::in_mask(uint64_t token) const {
  return (static_cast<unsigned>(mask_[token / 8]) >> token % 8 & 1U) != 0;
}

bool ShardView::self_drawn(size_t i) const { return (samples_[i].flags & kFlagSelfDrawn) != 0; }

bool ShardView::ended(size_t i) const { return (samples_[i].flags & kFlagEnded) != 0; }

DistilledSample ShardView::sample(size_t i) const {
  const Record& record = samples_.at(i);
  DistilledSample sample;
  for (uint64_t t = record.first_token; t < record.first_token + record.tokens; ++t) {
    sample.ids.push_back(id(t));
    sample.mask.push_back(in_mask(t) ? 1 : 0);
  }
  sample.prompt_hash = record.prompt_hash;
  sample.temperature = record.temperature;
  sample.ended = ended(i);
  sample.self_drawn = self_drawn(i);
  sample.task = record.task;
  sample.first_turn = record.first_turn;
  sample.turns = record.turns;
  return sample;
}

void check_shard_digest(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < kDigestBytes) fail(ErrorCode::kCorrupt, "{}: checksum: truncated", name);
  const auto content = bytes.first(bytes.size() - kDigestBytes);
  if (sha256_hex(content) != hex(bytes.last(kDigestBytes)))
    fail(ErrorCode::kCorrupt, "{}: checksum: its bytes are not those that were written", name);
}

}  // namespace clover
