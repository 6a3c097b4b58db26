// SPDX-License-Identifier: Apache-2.0
// Renderings against jinja2 set up as transformers does (tools/make_chat_template_fixtures.py).
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tokenizer/chat_template/render_for_test.h"

namespace clover {
namespace {

const std::string kData = std::string(CLOVER_SOURCE_DIR) + "/tests/data/chat_templates/";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(file) << path;
  return text.str();
}

ChatRenderOptions options_for(const Json& fixture, const Json& conversation) {
  ChatRenderOptions options;
  options.add_generation_prompt = conversation.value("add_generation_prompt", true);
  options.now = fixture["now"].get<int64_t>();
  for (const auto& [name, text] : fixture["special_tokens"].items()) {
    options.special_tokens[name] = text.get<std::string>();
  }
  if (conversation.contains("tools")) options.tools = conversation["tools"];
  if (conversation.contains("variables")) options.variables = conversation["variables"];
  return options;
}

// Compares one rendering with {"text"}, {"raised"}, {"error"} or {"refused"} of the reference.
void expect_same(const std::string& source, const Json& conversation,
                 const ChatRenderOptions& options, const Json& expected) {
  std::optional<ChatTemplate> parsed;
  try {
    parsed = ChatTemplate::parse(source);
    const std::string text = joined(parsed->render(conversation["messages"], options));
    ASSERT_TRUE(expected.contains("text")) << "reference fails, Clover gives: " << text;
    EXPECT_EQ(text, expected["text"].get<std::string>());
  } catch (const Error& error) {
    ASSERT_FALSE(expected.contains("text")) << error.what();
    EXPECT_EQ(parsed.has_value(), !expected.contains("refused")) << error.what();
    if (expected.contains("raised")) {
      EXPECT_EQ(error.what(), expected["raised"].get<std::string>());
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    }
  }
}

// B9, B10: templates of popular models over conversations of every shape.
TEST(ChatTemplateFixtures, PopularTemplatesRenderAsJinja2Does) {
  const Json fixture = Json::parse(read_file(kData + "expected.json"));
  ASSERT_GE(fixture["expected"].size(), 25u);
  for (const auto& [name, results] : fixture["expected"].items()) {
    const std::string source = read_file(kData + name + ".jinja");
    ASSERT_GE(results.size(), 8u);
    for (const auto& [title, expected] : results.items()) {
      SCOPED_TRACE(name + ": " + title);
      const Json& conversation = fixture["conversations"][title];
      expect_same(source, conversation, options_for(fixture, conversation), expected);
    }
  }
}

TEST(ChatTemplateFixtures, EveryConstructRendersAsJinja2Does) {
  const Json fixture = Json::parse(read_file(kData + "snippets.json"));
  const ChatRenderOptions options = options_for(fixture, fixture["data"]);
  ASSERT_GE(fixture["cases"].size(), 100u);
  for (const Json& expected : fixture["cases"]) {
    const auto source = expected["template"].get<std::string>();
    SCOPED_TRACE(source);
    expect_same(source, fixture["data"], options, expected);
  }
}

// B2: whatever a conversation says, only the template's own control tokens are trusted.
TEST(ChatTemplateFixtures, HostileTextNeverBecomesTrusted) {
  const Json fixture = Json::parse(read_file(kData + "expected.json"));
  const Json& conversation = fixture["conversations"]["hostile text"];
  Json harmless = conversation;
  for (Json& message : harmless["messages"]) message["content"] = "harmless";
  const auto trusted_text = [&](const ChatTemplate& parsed, const Json& messages) {
    std::string text;
    for (const TextSpan& span : parsed.render(messages, options_for(fixture, conversation))) {
      if (span.trusted) text += span.text;
    }
    return text;
  };
  for (const auto& item : fixture["expected"].items()) {
    SCOPED_TRACE(item.key());
    const auto parsed = ChatTemplate::parse(read_file(kData + item.key() + ".jinja"));
    EXPECT_EQ(trusted_text(parsed, conversation["messages"]),
              trusted_text(parsed, harmless["messages"]));
  }
}

}  // namespace
}  // namespace clover
