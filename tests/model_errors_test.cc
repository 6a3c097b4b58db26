// SPDX-License-Identifier: Apache-2.0
// Files and batches that do not fit: each refused with the name of the tensor or value (F11, F12).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_fixtures.h"

namespace clover {
namespace {

using namespace testing_support;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Run>
void expect_error(const Run& run, ErrorCode code, const std::string& message) {
  try {
    run();
    ADD_FAILURE() << "accepted, expected: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

void expect_load_error(const Checkpoint& checkpoint, ErrorCode code, const std::string& message) {
  expect_error([&] { Model::load(checkpoint, backend_for("auto")); }, code, message);
}

const std::vector<std::string>& some_models() {
  static const std::vector<std::string> names = {"llama2",      "qwen2",      "qwen3",
                                                 "baichuan_7b", "gguf_qwen2", "gguf_llama3"};
  return names;
}

// Parts of files that configurations read; their own errors are tested elsewhere.
bool config_reads(const std::string& tensor) {
  return tensor == "token_embd.weight" || tensor == "rope_freqs.weight" ||
         tensor == "blk.0.attn_q.bias" || tensor == "output.weight";
}

TEST(ModelLoad, EveryTensorIsNeeded) {
  for (const std::string& name : some_models()) {
    const auto base = open_tiny(name);
    for (const TensorInfo& tensor : base->tensors()) {
      if (config_reads(tensor.name)) continue;
      SCOPED_TRACE(name + " without " + tensor.name);
      EditedCheckpoint checkpoint(*base);
      checkpoint.erase(tensor.name);
      expect_load_error(checkpoint, ErrorCode::kNotFound, tensor.name);
    }
  }
}

TEST(ModelLoad, EveryShapeIsChecked) {
  for (const std::string& name : some_models()) {
    const auto base = open_tiny(name);
    for (const TensorInfo& tensor : base->tensors()) {
      if (config_reads(tensor.name)) continue;
      SCOPED_TRACE(name + " " + tensor.name);
      std::vector<std::vector<int64_t>> shapes = {{}, {tensor.shape[0] - 1}, {1, 1, 1}};
      if (tensor.shape.size() == 2) {
        shapes.push_back({tensor.shape[0] + 1, tensor.shape[1]});
        shapes.push_back({tensor.shape[0], tensor.shape[1] / 2});
        shapes.push_back({tensor.shape[0] * tensor.shape[1]});
      }
      for (const auto& shape : shapes) {
        EditedCheckpoint checkpoint(*base);
        checkpoint.tensor(tensor.name).shape = shape;
        expect_load_error(checkpoint, ErrorCode::kCorrupt, "'" + tensor.name + "' has shape");
      }
    }
  }
}

TEST(ModelLoad, RefusesIntegersAsWeights) {
  const auto base = open_tiny("llama2");
  for (const DType type : {DType::kI8, DType::kI32, DType::kI64, DType::kU8, DType::kBool}) {
    EditedCheckpoint checkpoint(*base);
    checkpoint.tensor("model.layers.1.mlp.up_proj.weight").type = type;
    expect_load_error(checkpoint, ErrorCode::kUnsupported, "'model.layers.1.mlp.up_proj.weight'");
  }
}

// Leaving out a tensor of a layer would compute another function than the file means.
TEST(ModelLoad, RefusesUnknownTensorsInsideLayers) {
  const auto base = open_tiny("llama2");
  for (const std::string name :
       {"model.layers.0.self_attn.q_proj.bias", "model.layers.1.mlp.down_proj.bias",
        "model.layers.1.self_attn.q_norm.weight", "model.layers.0.adapter.weight"}) {
    EditedCheckpoint checkpoint(*base);
    checkpoint.add(name, {2}, {1.0f, 2.0f});
    expect_load_error(checkpoint, ErrorCode::kUnsupported, "'" + name + "'");
  }
  const auto gguf = open_tiny("gguf_llama3");
  EditedCheckpoint checkpoint(*gguf);
  checkpoint.add("blk.1.attn_output.bias", {2}, {1.0f, 2.0f});
  expect_load_error(checkpoint, ErrorCode::kUnsupported, "'blk.1.attn_output.bias'");
}

TEST(ModelLoad, ReportsTensorsThatNothingReads) {
  const auto base = open_tiny("llama2");
  EditedCheckpoint checkpoint(*base);
  checkpoint.add("model.layers.0.self_attn.rotary_emb.inv_freq", {2}, {1.0f, 2.0f});  // ignored
  checkpoint.add("vision_tower.weight", {2}, {1.0f, 2.0f});
  checkpoint.add("model.layers.2.mlp.up_proj.weight", {2}, {1.0f, 2.0f});  // beyond the layers
  const auto model = Model::load(checkpoint, backend_for("auto"));
  EXPECT_THAT(model->unused_tensors(),
              ElementsAre("vision_tower.weight", "model.layers.2.mlp.up_proj.weight"));
  EXPECT_TRUE(Model::load(*base, backend_for("auto"))->unused_tensors().empty());
}

TEST(ModelLoad, TiedHeadSharesTheEmbedding) {
  const auto base = open_tiny("llama3");
  EditedCheckpoint tied(*base);
  const std::vector<float> table = tied.values("model.embed_tokens.weight");
  const auto small = Model::load(tied, backend_for("auto"));
  tied.add("lm_head.weight", {96, 64}, table);  // some files repeat it
  const auto repeated = Model::load(tied, backend_for("auto"));
  EXPECT_EQ(repeated->weight_bytes(), small->weight_bytes());
  EXPECT_TRUE(repeated->unused_tensors().empty());
  tied.config()["tie_word_embeddings"] = false;
  const auto untied = Model::load(tied, backend_for("auto"));
  EXPECT_GE(untied->weight_bytes(), small->weight_bytes() + 96 * 64 * 2);
  const Expected e = read_expected("llama3");
  const auto tokens = std::span<const int32_t>(e.tokens).first(20);
  EXPECT_LT(relative_error(run_prompt(*untied, tokens, DType::kF32, 512).logits,
                           run_prompt(*small, tokens, DType::kF32, 512).logits),
            1e-6);
}

TEST(ModelLoad, ProgressRisesToOne) {
  std::vector<double> shares;
  Model::load(
      *open_tiny("llama2"), backend_for("auto"),
      [](double share, void* to) { static_cast<std::vector<double>*>(to)->push_back(share); },
      &shares);
  ASSERT_EQ(shares.size(), 4u);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_EQ(shares.back(), 1.0);
}

// A quantised Baichuan 2 head is taken as it is when its rows have unit length, else scaled.
TEST(ModelLoad, HeadRowsOfAnyLengthGiveTheSameLogits) {
  const auto base = open_tiny("baichuan2_7b");
  const Expected e = read_expected("baichuan2_7b");
  const auto tokens = std::span<const int32_t>(e.tokens).first(20);
  EditedCheckpoint stretched(*base);
  std::vector<float> head = stretched.values("lm_head.weight");
  for (size_t i = 0; i < head.size(); ++i) head[i] *= static_cast<float>(1 + i / 64 % 7);
  stretched.erase("lm_head.weight");
  stretched.add("lm_head.weight", {96, 64}, head);
  EditedCheckpoint plain(*base);
  plain.to_float32("lm_head.weight");
  const auto run = [&](const Checkpoint& checkpoint) {
    return run_prompt(*Model::load(checkpoint, backend_for("auto")), tokens, DType::kF32, 512);
  };
  EXPECT_LT(relative_error(run(stretched).logits, run(plain).logits), 1e-6);
}

class BadBatch : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = Model::load(*open_tiny("llama2"), backend_for("auto"));
    kv_ = model_->backend().make_kv_store(model_->kv_shape(2, DType::kF32));
  }
  void expect_refused(const Batch& batch, KvStore& kv, const std::string& message) {
    expect_error([&] { model_->forward(batch, kv); }, ErrorCode::kInvalidArgument, message);
  }
  Batch chain(std::vector<int32_t> tokens) {
    Batch batch;
    add_chain(batch, blocks_, 0, tokens);
    return batch;
  }
  std::shared_ptr<const Model> model_;
  std::unique_ptr<KvStore> kv_;
  std::vector<int32_t> blocks_ = {0, 1};
};

TEST_F(BadBatch, TokensOutsideTheVocabulary) {
  expect_refused(chain({3, 96}), *kv_, "token 96 of row 1 is not in [0, 96)");
  expect_refused(chain({-1}), *kv_, "token -1 of row 0");
  expect_refused(chain({INT32_MAX}), *kv_, "token 2147483647");
}

TEST_F(BadBatch, NoRows) { expect_refused(Batch{}, *kv_, "no rows"); }

TEST_F(BadBatch, BlocksOutsideTheStore) {
  blocks_ = {0, 2};
  expect_refused(chain({1}), *kv_, "KV block 2 is not in [0, 2)");
  blocks_ = {-1};
  expect_refused(chain({1}), *kv_, "KV block -1");
  blocks_ = {};
  expect_refused(chain({1}), *kv_, "KV blocks for 0 tokens");
}

TEST_F(BadBatch, StoreOfAnotherModel) {
  KvShape shape = model_->kv_shape(2, DType::kF32);
  shape.kv_heads = 2;
  const auto other = model_->backend().make_kv_store(shape);
  expect_refused(chain({1}), *other, "KV store holds 2 layers of 2 heads");
}

TEST_F(BadBatch, ModelStillWorksAfterwards) {
  const PassRows before = run_pass(*model_, *kv_, chain({1, 2, 3}));
  expect_refused(chain({1, 200}), *kv_, "token 200");
  const PassRows after = run_pass(*model_, *kv_, chain({1, 2, 3}));
  EXPECT_TRUE(same_bits(before.logits, after.logits));
}

}  // namespace
}  // namespace clover
