// SPDX-License-Identifier: Apache-2.0
// Packages: what is written is read, and what does not fit is refused by name.
#include "speculation/speculators/package.h"

#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "base/file.h"
#include "checkpoint/writer.h"
#include "model/fingerprint.h"
#include "speculation/speculators/trained_for_tests.h"
#include "tensor/quant.h"

namespace clover {
namespace {

using namespace testing_support;

const Target& tiny() {
  static const Target target("gguf_qwen3_q4_0");
  return target;
}

Package tiny_package(const std::string& type = "clover2") {
  return init_package(*tiny().checkpoint, {.type = type, .draft_vocab = 40, .seed = 5});
}

std::string refusal(const Package& package, const Target& target = tiny()) {
  return error_of([&] { open_written(target, package); });
}

::testing::AssertionResult says(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << '"' << text << "\" does not say \"" << part << '"';
}

PackageTensor& tensor(Package& package, const std::string& name) {
  for (PackageTensor& t : package.tensors)
    if (t.name == name) return t;
  throw std::runtime_error("no tensor " + name);
}

TEST(Package, EveryPresetIsWrittenAndReadWithEqualSettings) {
  std::vector<std::string> types = preset_names();
  types.push_back("eagle");
  for (const std::string& type : types) {
    const Package package = tiny_package(type);
    const Folder folder;
    write_package(folder / "p", package);
    EXPECT_TRUE(is_package(folder / "p"));
    PackageConfig read = read_package_config(folder / "p");
    EXPECT_EQ(read.d2t_sha256.size(), 64u);
    read.d2t_sha256.clear();  // made by writing
    EXPECT_EQ(package_config_json(read), package_config_json(package.config)) << type;
    const auto speculator =
        open_package(folder / "p", *tiny().checkpoint, tiny().model).front()(host_of(tiny()));
    EXPECT_EQ(speculator->name(), type);
    EXPECT_TRUE(speculator->costly());
    EXPECT_TRUE(speculator->needs().hidden);
    EXPECT_GE(speculator->max_depth(), read.clover.heads);
    // Nothing but the package is left in the folder.
    int entries = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder / ".")) {
      (void)entry;
      ++entries;
    }
    EXPECT_EQ(entries, 1);
  }
}

TEST(Package, EveryWeightTypeDrafts) {
  const Script script(tiny(), random_tokens(3, 30, 64), 0);
  std::vector<float> first;
  for (const DType weights : {DType::kF32, DType::kBF16, DType::kQ8_0, DType::kQ4_1}) {
    Package package = shaken_package(tiny(), {.draft_vocab = 40, .seed = 5, .weights = weights});
    const auto speculator = open_written(tiny(), package)(host_of(tiny()));
    speculator->begin(1);
    const Stored part{1, &script, 0, 20};
    observe(*speculator, tiny(), {&part, 1});
    const std::vector<DraftSequence> round = {drafting(1, script, 21)};
    speculator->start(round);
    const Candidates got = draft_chain(*speculator, 0, script.tokens[20], {}, 40);
    ASSERT_EQ(got[0].size(), 40u);
    std::vector<float> by_token(40);
    for (const Candidate& c : got[0]) by_token[static_cast<size_t>(c.token)] = c.probability;
    if (first.empty()) first = by_token;
    double distance = 0;
    for (size_t i = 0; i < 40; ++i) distance += std::abs(first[i] - by_token[i]) / 2;
    const double most = weights == DType::kF32    ? 0
                        : weights == DType::kQ4_1 ? 0.5
                        : weights == DType::kQ8_0 ? 0.1
                                                  : 0.05;
    EXPECT_LE(distance, most) << dtype_name(weights);
  }
}

// F14: the target's shape and fingerprint are checked, and every differing field is named.
TEST(Package, F14RefusesAnotherTargetNamingTheFields) {
  Package package = tiny_package();
  package.config.verifier.hidden = 128;
  EXPECT_TRUE(says(refusal(package), "hidden_size is 128, the model has 64"));
  package = tiny_package();
  package.config.verifier.layers = 7;
  package.config.verifier.vocab = 95;
  const std::string both = refusal(package);
  EXPECT_TRUE(says(both, "num_layers is 7"));
  EXPECT_TRUE(says(both, "vocab_size is 95"));
  EXPECT_EQ(both.find("hidden_size"), std::string::npos);
  package = tiny_package();
  package.config.verifier.fingerprint[10] ^= 1;
  EXPECT_TRUE(says(refusal(package), "fingerprint"));
  package = tiny_package();
  package.config.verifier.rope_adjacent = !package.config.verifier.rope_adjacent;
  EXPECT_TRUE(says(refusal(package), "rope_layout"));
  EXPECT_TRUE(says(refusal(tiny_package(), Target("qwen3")), "fingerprint"));
  // The factory serves the model that it was opened for.
  const SpeculatorFactory factory = open_written(tiny(), tiny_package());
  const Target again("gguf_qwen3_q4_0");
  EXPECT_TRUE(says(error_of([&] { factory(host_of(again)); }), "another model"));
}

TEST(Package, RefusesTensorsThatAreMissingSuperfluousOrMisshapen) {
  Package package = tiny_package();
  std::erase_if(package.tensors,
                [](const PackageTensor& t) { return t.name == "steps.1.decoder.k.weight"; });
  EXPECT_TRUE(says(refusal(package), "steps.1.decoder.k.weight"));
  package = tiny_package();
  package.tensors.push_back({"block.2.qkv.weight", {2}, {1, 2}});
  EXPECT_TRUE(says(refusal(package), "block.2.qkv.weight"));
  package = tiny_package();
  PackageTensor& t = tensor(package, "block.1.down.weight");
  std::swap(t.shape[0], t.shape[1]);
  EXPECT_TRUE(says(refusal(package), "block.1.down.weight"));
  EXPECT_TRUE(says(refusal(package), "shape"));
}

TEST(Package, RefusesValuesThatAreNotFinite) {
  for (const std::string type : {"clover2", "eagle"}) {
    for (size_t i = 0; i < tiny_package(type).tensors.size(); i += 3) {
      for (const DType weights : {DType::kF32, DType::kQ8_0}) {
        // In 8 bits they are refused when the package is written.
        Package package = tiny_package(type);
        package.config.weights = weights;
        package.tensors[i].values.back() =
            i % 2 ? std::numeric_limits<float>::infinity() : std::nanf("");
        const std::string text = refusal(package);
        EXPECT_TRUE(says(text, package.tensors[i].name));
        EXPECT_TRUE(says(text, "not finite") || says(text, "cannot be quantised"));
      }
    }
  }
}

TEST(Package, H12DraftVocabularyIsCheckedAndTranslates) {
  Package package = tiny_package();
  package.d2t[3] = package.d2t[4];
  EXPECT_TRUE(says(refusal(package), "twice"));
  package = tiny_package();
  package.d2t[0] = 96;
  EXPECT_TRUE(says(refusal(package), "outside the vocabulary"));
  package.d2t[0] = -1;
  EXPECT_TRUE(says(refusal(package), "outside the vocabulary"));
  package = tiny_package();
  package.d2t.pop_back();
  EXPECT_TRUE(says(refusal(package), "d2t"));
  package.d2t.clear();
  EXPECT_TRUE(says(refusal(package), "d2t"));
  // A map that belongs to another package.
  const Folder folder;
  write_package(folder / "a", tiny_package());
  package = tiny_package();
  std::swap(package.d2t[0], package.d2t[1]);
  write_package(folder / "b", package);
  std::filesystem::copy_file(folder / "b/model.safetensors", folder / "a/model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  const auto open = [&] { open_package(folder / "a", *tiny().checkpoint, tiny().model); };
  EXPECT_TRUE(says(error_of(open), "d2t_sha256"));
  // Any order of any tokens gives those tokens the probabilities that they have among each other.
  const Script script(tiny(), random_tokens(3, 30, 64), 0);
  const auto draft = [&](const Package& p) {
    const auto speculator = open_written(tiny(), p)(host_of(tiny()));
    speculator->begin(1);
    const Stored part{1, &script, 0, 20};
    observe(*speculator, tiny(), {&part, 1});
    const std::vector<DraftSequence> round = {drafting(1, script, 21)};
    speculator->start(round);
    std::vector<float> by_token(96);
    const Candidates drafts = draft_chain(*speculator, 0, script.tokens[20], {}, 96);
    for (const Candidate& c : drafts[0]) by_token[static_cast<size_t>(c.token)] = c.probability;
    return by_token;
  };
  InitOptions options = {.seed = 5};
  const std::vector<float> whole = draft(init_package(*tiny().checkpoint, options));
  std::vector<int32_t> likeliest(96);
  std::iota(likeliest.begin(), likeliest.end(), 0);
  std::ranges::sort(likeliest, [&](int32_t a, int32_t b) {
    return whole[static_cast<size_t>(a)] < whole[static_cast<size_t>(b)];
  });
  Package some = init_package(*tiny().checkpoint, {.draft_vocab = 3, .seed = 5});
  some.d2t = {likeliest[95], likeliest[93], likeliest[94]};
  const std::vector<float> three = draft(some);
  float total = 0;
  for (const int32_t token : some.d2t) total += whole[static_cast<size_t>(token)];
  for (const int32_t token : some.d2t) {
    const float want = whole[static_cast<size_t>(token)] / total;
    EXPECT_NEAR(three[static_cast<size_t>(token)], want, 1e-4) << token;
  }
  EXPECT_EQ(std::count(three.begin(), three.end(), 0.0f), 93);
}

TEST(Package, OwnHeadTakesTheTargetsPlace) {
  Package package = tiny_package();
  const int64_t hidden = tiny().model->config().hidden;
  // Every token's row is the same, so every token is as likely.
  package.tensors.push_back(
      {"lm_head.weight", {40, hidden}, std::vector<float>(static_cast<size_t>(40 * hidden), 0.5f)});
  const auto speculator = open_written(tiny(), package)(host_of(tiny()));
  const Script script(tiny(), random_tokens(3, 30, 64), 0);
  speculator->begin(1);
  const Stored part{1, &script, 0, 20};
  observe(*speculator, tiny(), {&part, 1});
  const std::vector<DraftSequence> round = {drafting(1, script, 21)};
  speculator->start(round);
  const Candidates drafts = draft_chain(*speculator, 0, script.tokens[20], {}, 40);
  for (const Candidate& c : drafts[0]) EXPECT_NEAR(c.probability, 1.0f / 40, 1e-5);
  package.tensors.back() = {"lm_head.weight", {20, 2 * hidden}, package.tensors.back().values};
  EXPECT_TRUE(says(refusal(package), "lm_head.weight"));
}

// Every value of the configuration is replaced by every kind of nonsense.
TEST(Package, HostileConfigurationsAreRefusedByKey) {
  const Json good = package_config_json(tiny_package().config);
  const Json nonsense[] = {Json(),
                           Json(-1),
                           Json(1e300),
                           Json("x"),
                           Json(true),
                           Json::array({1}),
                           Json::object(),
                           Json(0.5),
                           Json(1u << 31),
                           Json(INT64_MAX),
                           Json(std::string(100000, 'a'))};
  const auto check = [&](const Json& json, const std::string& key, const Json& value) {
    try {
      const PackageConfig config = parse_package_config(json, "config.json");
      // What passes must be a legal value, which is written back as it was read.
      EXPECT_EQ(parse_package_config(package_config_json(config), "again").type, config.type);
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_LT(text.size(), 2000u);
      EXPECT_TRUE(says(text, "config.json")) << key << " = " << value.dump().substr(0, 80);
    }
  };
  for (const auto& [key, value] : good.items()) {
    Json without = good;
    without.erase(key);
    check(without, key, "missing");
    for (const Json& wrong : nonsense) {
      Json json = good;
      json[key] = wrong;
      check(json, key, wrong);
    }
    if (key != "training") {
      EXPECT_NE(error_of([&] { parse_package_config(without, "c"); }), "") << key;
    }
  }
  for (const auto& [key, value] : good["verifier"].items()) {
    for (const Json& wrong : nonsense) {
      Json json = good;
      json["verifier"][key] = wrong;
      check(json, key, wrong);
    }
  }
  for (const Json& wrong : nonsense) {
    EXPECT_THROW(parse_package_config(wrong, "config.json"), Error);
  }
}

TEST(Package, SwitchesThatDoNotFitTogetherAreRefused) {
  const auto refused = [](const auto& change) {
    Json json = package_config_json(tiny_package().config);
    change(json);
    return error_of([&] { parse_package_config(json, "config.json"); });
  };
  EXPECT_TRUE(says(refused([](Json& j) { j["augmenting_layers"] = 0; }), "layers"));
  EXPECT_TRUE(says(refused([](Json& j) { j["decoder_heads"] = 5; }), "do not divide"));
  EXPECT_TRUE(says(refused([](Json& j) { j["regressive"] = false; }), "shared heads"));
  EXPECT_TRUE(says(refused([](Json& j) { j["attention_decoder"] = "none"; }), "needs both"));
  EXPECT_TRUE(says(refused([](Json& j) { j["heads"] = 65; }), "heads"));
  EXPECT_TRUE(says(refused([](Json& j) { j["speculators_model_type"] = "dflash"; }), "dflash"));
  EXPECT_TRUE(says(refused([](Json& j) { j["features"] = "behind the norm"; }), "features"));
  EXPECT_TRUE(says(refused([](Json& j) { j["format_version"] = 2; }), "format_version"));
  EXPECT_TRUE(says(refused([](Json& j) { j["draft_vocab_size"] = 97; }), "draft_vocab_size"));
}

TEST(Package, BrokenFoldersAreErrors) {
  const Folder folder;
  EXPECT_FALSE(is_package(folder / "missing"));
  EXPECT_NE(error_of([&] { read_package_config(folder / "missing"); }), "");
  write_package(folder / "p", tiny_package());
  const std::string weights = folder / "p/model.safetensors";
  const std::string bytes = read_file(weights, 1 << 24);
  for (const size_t size : {size_t{0}, size_t{7}, size_t{100}, bytes.size() - 1}) {
    write_file(weights, bytes.substr(0, size));
    EXPECT_NE(error_of([&] { open_package(folder / "p", *tiny().checkpoint, tiny().model); }), "");
  }
  write_file(folder / "p/config.json", "{\"speculators_model_type\":");
  EXPECT_FALSE(is_package(folder / "p"));
  EXPECT_TRUE(says(error_of([&] { read_package_config(folder / "p"); }), "config.json"));
}

// Writes tensors under a package's configuration, which must match in everything but them.
std::string refusal_of_tensors(const Folder& folder, const std::vector<TensorInfo>& tensors) {
  write_safetensors(folder / "p/model.safetensors", tensors, {});
  return error_of([&] { open_package(folder / "p", *tiny().checkpoint, tiny().model); });
}

// 8 bits on the disk: less than BF16's, the same once more, and checked like any other tensor.
TEST(Package, MatricesThatRunInBlocksAreStoredInEightBits) {
  const Folder folder;
  Package wide = tiny_package();
  wide.config.weights = DType::kBF16;
  write_package(folder / "wide", wide);
  write_package(folder / "p", tiny_package());
  const auto size = [&](const char* file) { return read_file(folder / file, 1 << 24).size(); };
  EXPECT_LT(size("p/model.safetensors"), size("wide/model.safetensors") * 6 / 10);
  write_package(folder / "again", read_package(folder / "p", *tiny().checkpoint));
  EXPECT_EQ(read_file(folder / "p/model.safetensors", 1 << 24),
            read_file(folder / "again/model.safetensors", 1 << 24));

  const std::unique_ptr<Checkpoint> files = open_checkpoint(folder / "again");
  const std::vector<TensorInfo> good(files->tensors().begin(), files->tensors().end());
  const std::string name = "block.0.down.weight.scales";
  const auto change = [&](const auto& what) {
    std::vector<TensorInfo> tensors = good;
    for (TensorInfo& info : tensors)
      if (info.name == name) what(info);
    std::erase_if(tensors, [](const TensorInfo& info) { return info.name.empty(); });
    return refusal_of_tensors(folder, tensors);
  };
  EXPECT_EQ(change([](TensorInfo&) {}), "");
  EXPECT_TRUE(says(change([](TensorInfo& info) { info.name.clear(); }), name));
  EXPECT_TRUE(says(change([](TensorInfo& info) { info.type = DType::kBF16; }), "type BF16"));
  EXPECT_TRUE(
      says(change([](TensorInfo& info) { std::swap(info.shape[0], info.shape[1]); }), "has shape"));
  // A scale that is no number.
  std::vector<std::byte> bytes;
  const std::string bad = change([&](TensorInfo& info) {
    bytes.assign(info.data.begin(), info.data.end());
    bytes[1] = std::byte{0x7c};
    info.data = bytes;
  });
  EXPECT_TRUE(says(bad, "not finite"));
  // Scales without integers of eight bits have no place.
  const std::unique_ptr<Checkpoint> wide_files = open_checkpoint(folder / "wide");
  std::vector<TensorInfo> superfluous(wide_files->tensors().begin(), wide_files->tensors().end());
  for (const TensorInfo& info : good)
    if (info.name == name) superfluous.push_back(info);
  EXPECT_TRUE(says(refusal_of_tensors(folder, superfluous), name));
}

// A table of two tokens: after 1 comes 2.
NgramTable::Parts tiny_table() {
  NgramTable::Parts parts;
  parts.tokens = {1, 2};
  parts.best = 1;
  parts.orders[0] = {{0}, {1}, {200}};
  return parts;
}

TEST(Package, ATableComesAloneOrWithAHead) {
  for (const bool head : {false, true}) {
    Package package = head ? tiny_package() : Package();
    if (!head) {
      package.config.type = PackageConfig::kTableOnly;
      package.config.verifier = tiny_package().config.verifier;
    }
    package.table = tiny_table();
    const Folder folder;
    write_package(folder / "p", package);
    const PackageConfig config = read_package_config(folder / "p");
    EXPECT_TRUE(config.ngram_table);
    EXPECT_EQ(config.has_head(), head);
    const auto factories = open_package(folder / "p", *tiny().checkpoint, tiny().model);
    ASSERT_EQ(factories.size(), head ? 2u : 1u);
    EXPECT_EQ(factories.back()(host_of(tiny()))->name(), "table");
    const Package read = read_package(folder / "p", *tiny().checkpoint);
    EXPECT_EQ(read.tensors.size(), package.tensors.size());
    ASSERT_TRUE(read.table);
    EXPECT_EQ(read.table->tokens, package.table->tokens);
    EXPECT_EQ(read.table->orders[0].next, package.table->orders[0].next);
  }
}

TEST(Package, ATableThatIsNotSoundIsRefused) {
  Package package;
  package.config.type = PackageConfig::kTableOnly;
  package.config.verifier = tiny_package().config.verifier;
  package.table = tiny_table();
  package.table->tokens[1] = 96;
  EXPECT_TRUE(says(refusal(package), "token 96"));
  // A head's tensors beside a table alone, and a table that the configuration does not name.
  package.table = tiny_table();
  package.tensors = tiny_package().tensors;
  EXPECT_TRUE(says(refusal(package), "has no place"));
  package.tensors.clear();
  const Folder folder;
  write_package(folder / "t", package);
  write_package(folder / "h", tiny_package());
  std::filesystem::copy_file(folder / "t/model.safetensors", folder / "h/model.safetensors",
                             std::filesystem::copy_options::overwrite_existing);
  const auto open = [&] { open_package(folder / "h", *tiny().checkpoint, tiny().model); };
  EXPECT_NE(error_of(open), "");
  Json json = parse_json(read_file(folder / "t/config.json", 1 << 20), "t");
  json["ngram_table"] = false;
  EXPECT_TRUE(says(error_of([&] { parse_package_config(json, "t"); }), "ngram_table"));
  // Missing parts, and parts of another shape or type.
  const auto files = open_checkpoint(folder / "t");
  for (size_t broken = 0; broken < files->tensors().size(); ++broken) {
    for (const bool missing : {false, true}) {
      std::vector<TensorInfo> tensors = files->tensors();
      const std::string name = tensors[broken].name;
      if (missing) tensors.erase(tensors.begin() + static_cast<int64_t>(broken));
      if (!missing) tensors[broken].shape.push_back(1);
      std::filesystem::copy(folder / "t", folder / "b",
                            std::filesystem::copy_options::overwrite_existing |
                                std::filesystem::copy_options::recursive);
      write_safetensors(folder / "b/model.safetensors", tensors, {});
      const auto open_broken = [&] {
        open_package(folder / "b", *tiny().checkpoint, tiny().model);
      };
      EXPECT_TRUE(says(error_of(open_broken), name));
    }
  }
}

TEST(Package, AnExistingPackageIsReplacedAndNothingElse) {
  const Folder folder;
  write_package(folder / "p", tiny_package("clover2"));
  write_package(folder / "p/", tiny_package("medusa"));
  EXPECT_EQ(read_package_config(folder / "p").type, "medusa");
  EXPECT_NO_THROW(open_package(folder / "p", *tiny().checkpoint, tiny().model));
  std::filesystem::create_directory(folder / "other");
  write_file(folder / "other/keep.txt", "mine");
  write_file(folder / "file", "mine");
  for (const char* name : {"other", "file"})
    EXPECT_TRUE(
        says(error_of([&] { write_package(folder / name, tiny_package()); }), "no speculator"));
  EXPECT_EQ(read_file(folder / "other/keep.txt", 100), "mine");
  EXPECT_EQ(read_file(folder / "file", 100), "mine");
  EXPECT_NE(error_of([&] { write_package(folder / "no/such/place", tiny_package()); }), "");
}

TEST(Init, IsAFunctionOfModelAndSeed) {
  const Package a = tiny_package();
  const Package b = tiny_package();
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) EXPECT_EQ(a.tensors[i].values, b.tensors[i].values);
  const Package c = init_package(*tiny().checkpoint, {.draft_vocab = 40, .seed = 6});
  int differing = 0;
  for (size_t i = 0; i < a.tensors.size(); ++i)
    differing += a.tensors[i].values != c.tensors[i].values;
  EXPECT_EQ(differing, 8);  // q, k and v of two decoders, FC and FC2
}

TEST(Init, StartsAsThePapersDo) {
  Package package = tiny_package();
  const int64_t hidden = tiny().model->config().hidden;
  const auto noise = [](float x) { return x > 0.0f && x < 0.01f; };
  for (const char* name : {"steps.0.decoder.q.weight", "steps.1.decoder.k.weight",
                           "steps.0.projector.weight", "steps.1.projector.weight"}) {
    const PackageTensor& t = tensor(package, name);
    for (int64_t r = 0; r < hidden; ++r) {
      for (int64_t c = 0; c < t.shape[1]; ++c) {
        const float x = t.values[static_cast<size_t>(r * t.shape[1] + c)];
        ASSERT_TRUE(noise(r == c ? x - 1.0f : x) || (r == c && x >= 1.0f && x <= 1.01f)) << name;
      }
    }
  }
  EXPECT_EQ(tensor(package, "steps.1.projector.weight").shape[1], 2 * hidden);
  EXPECT_TRUE(std::ranges::all_of(tensor(package, "steps.0.decoder.v.weight").values, noise));
  for (const char* name : {"steps.0.decoder.q.bias", "steps.1.projector.bias"})
    for (const float x : tensor(package, name).values) ASSERT_EQ(x, 0.0f);
  // Both layers of the block are the target's last.
  const ModelTensors tensors = map_tensors(*tiny().checkpoint, tiny().model->config());
  const WeightView& down = tensors.layers.back().down.view;
  std::vector<float> want(static_cast<size_t>(down.rows * down.cols));
  dequantise(down.type, down.data, down.rows * down.cols, want.data());
  EXPECT_EQ(tensor(package, "block.0.down.weight").values, want);
  EXPECT_EQ(tensor(package, "block.1.down.weight").values, want);
}

TEST(Init, FreshLayersAndExactIdentitiesOnRequest) {
  InitOptions options = {.type = "clover2", .draft_vocab = 40, .seed = 5};
  options.noise = 0;
  options.fresh_layers = true;
  Package package = init_package(*tiny().checkpoint, options);
  const std::vector<float>& q = tensor(package, "steps.0.decoder.q.weight").values;
  for (size_t i = 0; i < q.size(); ++i) EXPECT_EQ(q[i], i / 64 == i % 64 ? 1.0f : 0.0f);
  for (const char* name : {"block.0.attention_norm.weight", "block_norm.weight"})
    for (const float x : tensor(package, name).values) EXPECT_EQ(x, 1.0f) << name;
  double square = 0;
  const std::vector<float>& layer = tensor(package, "block.1.qkv.weight").values;
  for (const float x : layer) {
    EXPECT_LE(std::abs(x), 0.125f);  // 1 / sqrt(64)
    square += x * x;
  }
  EXPECT_NEAR(square / static_cast<double>(layer.size()), 1.0 / 64 / 3, 1e-3);
  options.fresh_layers = false;
  Package copied = init_package(*tiny().checkpoint, options);
  EXPECT_NE(tensor(copied, "block.1.qkv.weight").values, layer);
  EXPECT_EQ(tensor(copied, "steps.0.head_norm.weight").values,
            tensor(package, "steps.0.head_norm.weight").values);
}

TEST(Init, RefusesOptionsThatCannotBe) {
  const auto refused = [](const InitOptions& options) {
    return error_of([&] { init_package(*tiny().checkpoint, options); });
  };
  EXPECT_TRUE(says(refused({.type = "clover9"}), "clover9"));
  EXPECT_TRUE(says(refused({.heads = 65}), "heads"));
  EXPECT_TRUE(says(refused({.type = "eagle", .heads = -1}), "heads"));
  EXPECT_TRUE(says(refused({.draft_vocab = 97}), "97"));
  EXPECT_TRUE(says(refused({.draft_tokens = {1, 2, 1}}), "twice"));
  EXPECT_TRUE(says(refused({.draft_tokens = {1, 96}}), "outside"));
}

TEST(Fingerprint, SameForTheSameFileAndAnotherForAnyOther) {
  std::vector<std::string> seen;
  for (const char* name : {"llama3", "qwen3", "gguf_qwen3_q4_0", "gguf_llama_q4_1",
                           "gguf_llama_q8_0", "gguf_llama_q4_k", "llama_yarn"}) {
    const std::string path = std::string(CLOVER_SOURCE_DIR) + "/tests/data/tiny/" + name;
    const std::string file = std::string(name).starts_with("gguf_") ? path + ".gguf" : path;
    const std::string once = model_fingerprint(*open_checkpoint(file));
    EXPECT_EQ(once.size(), 64u);
    EXPECT_EQ(once, model_fingerprint(*open_checkpoint(file)));
    EXPECT_EQ(std::count(seen.begin(), seen.end(), once), 0) << name;
    seen.push_back(once);
  }
}

}  // namespace
}  // namespace clover
