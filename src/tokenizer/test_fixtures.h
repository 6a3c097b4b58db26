// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/json.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace clover {

inline std::string tokenizer_fixture_path(const std::string& name) {
  return std::string(CLOVER_SOURCE_DIR) + "/tests/data/tokenizer/" + name;
}

inline std::string read_fixture_text(const std::string& name) {
  std::ifstream file(tokenizer_fixture_path(name), std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline Json read_fixture(const std::string& name) {
  return parse_json(read_fixture_text(name), name, 64);
}

// Compares a tokenizer with an ids file (see tools/make_tokenizer_fixtures.py).
inline void expect_reference_ids(const Tokenizer& tokenizer, const std::string& ids_name) {
  const Json strings = read_fixture("strings.json");
  const Json ids = read_fixture(ids_name);
  const EncodeOptions plain{.add_special = false};
  auto index = ids.at("start").get<size_t>();
  for (size_t i = 0; i < ids.at("plain").size(); ++i, index += ids.at("step").get<size_t>()) {
    const auto text = strings.at(index).get<std::string>();
    const auto expected = ids.at("plain")[i].get<std::vector<TokenId>>();
    ASSERT_EQ(tokenizer.encode(text, true, plain), expected) << ids_name << " " << Json(text);
    const Json& raw = ids.at("untrusted")[i];
    EXPECT_EQ(tokenizer.encode(text, false, plain),
              raw.is_null() ? expected : raw.get<std::vector<TokenId>>())
        << ids_name << " untrusted " << Json(text);
  }
  EXPECT_EQ(tokenizer.encode("Hello, world!", false),
            ids.at("special").get<std::vector<TokenId>>());
}

}  // namespace clover
