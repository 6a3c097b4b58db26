// SPDX-License-Identifier: Apache-2.0
// Writes the logits of a text for bench/peers/compare_logits.py, which says what the file holds.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

namespace clover {
namespace {

constexpr int64_t kRowsOfAPass = 128;
constexpr size_t kMaxText = 64 << 20;

struct Options {
  std::string model, text, out;
  std::string isa = "auto";
  std::string kv_type = "f16";
  int64_t tokens = 512;
};

template <typename T>
void write_values(AtomicFile& file, const T* values, int64_t count) {
  file.write(std::as_bytes(std::span(values, static_cast<size_t>(count))));
}

// A chunk of one sequence: rows first … first + count - 1, all of which want logits.
Batch chunk(const std::vector<TokenId>& ids, const std::vector<int32_t>& blocks, int64_t first,
            int64_t count) {
  Batch batch;
  batch.tokens.assign(ids.begin() + first, ids.begin() + first + count);
  batch.parents.resize(static_cast<size_t>(count));
  std::iota(batch.parents.begin(), batch.parents.end(), -1);
  batch.wants_logits.assign(static_cast<size_t>(count), 1);
  batch.sequences.push_back({blocks, first, 0, count});
  return batch;
}

void write_logits(const Options& options) {
  const auto checkpoint = open_checkpoint(options.model);
  const auto tokenizer = load_tokenizer(*checkpoint);
  const auto model = Model::load(*checkpoint, make_cpu_backend({.isa = options.isa}));
  std::vector<TokenId> ids = tokenizer->encode(read_file(options.text, kMaxText), false);
  const auto rows =
      std::min({static_cast<int64_t>(ids.size()), options.tokens, model->config().context});
  if (rows < 1) fail(ErrorCode::kInvalidArgument, "{} holds no text", options.text);
  std::vector<int32_t> blocks(static_cast<size_t>((rows + kKvBlockTokens - 1) / kKvBlockTokens));
  std::iota(blocks.begin(), blocks.end(), 0);
  const DType kv_type = options.kv_type == "f32" ? DType::kF32 : DType::kF16;
  const auto kv =
      model->backend().make_kv_store(model->kv_shape(static_cast<int64_t>(blocks.size()), kv_type));
  const int64_t vocab = model->config().vocab;
  AtomicFile file(options.out);
  file.write(std::string_view("CLVLOGIT"));
  const int32_t header[] = {static_cast<int32_t>(rows), static_cast<int32_t>(vocab)};
  write_values(file, header, 2);
  write_values(file, ids.data(), rows);
  for (int64_t first = 0; first < rows; first += kRowsOfAPass) {
    const int64_t count = std::min(kRowsOfAPass, rows - first);
    const ForwardResult result = model->forward(chunk(ids, blocks, first, count), *kv);
    for (int64_t row = 0; row < count; ++row) write_values(file, result.logits.row(row), vocab);
  }
  file.commit();
}

}  // namespace
}  // namespace clover

int main(int argc, char** argv) {
  CLI::App program("Writes the logits of a text's tokens.", "clover-logits");
  clover::Options options;
  program.add_option("-m,--model", options.model, "GGUF file or Hugging Face folder")->required();
  program.add_option("-f,--file", options.text, "the text")->required();
  program.add_option("-n,--tokens", options.tokens, "tokens, at most (default 512)")
      ->check(CLI::PositiveNumber);
  program.add_option("--out", options.out, "the file to write")->required();
  program.add_option("--isa", options.isa, "auto, avx512, avx2 or reference");
  program.add_option("--kv-type", options.kv_type, "f16 or f32")
      ->check(CLI::IsMember({"f16", "f32"}));
  CLI11_PARSE(program, argc, argv);
  try {
    clover::write_logits(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "clover-logits: %s\n", error.what());
    return 1;
  }
  return 0;
}
