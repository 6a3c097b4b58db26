// SPDX-License-Identifier: Apache-2.0
// B2: marks survive every operation. Untrusted text is shown in brackets.
#include <gtest/gtest.h>

#include "tokenizer/chat_template/render_for_test.h"

namespace clover {
namespace {

const std::string kVariables = R"({"c": " Ab,cD ", "n": 7, "list": ["x", "y"], "d": {"k": "v"}})";

struct Case {
  const char* source;
  const char* expected;
};

TEST(ChatTemplateTaint, OperationsCarryMarks) {
  const Case cases[] = {
      {"<a>{{ c }}</a>", "<a>[ Ab,cD ]</a>"},
      {"{{ bos_token + c + eos_token }}", "<s>[ Ab,cD ]</s>"},
      {"{{ 'x' ~ c ~ 'y' }}", "x[ Ab,cD ]y"},
      {"{{ (' t' + c).strip() }}", "t[ Ab,cD]"},
      {"{{ (' t' + c + 'u ') | trim }}", "t[ Ab,cD ]u"},
      {"{{ ('t' + c)[0:3] }}", "t[ A]"},
      {"{{ ('t' + c)[::-1] }}", "[ Dc,bA ]t"},
      {"{{ ('t' + c)[0] }}{{ ('t' + c)[2] }}", "t[A]"},
      {"{{ ('t' + c).upper() }}{{ ('T' + c)|lower }}", "T[ AB,CD ]t[ ab,cd ]"},
      {"{{ ('t' + c)|title }}{{ ('t' + c)|capitalize }}", "T[ Ab,cd ]T[ ab,cd ]"},
      {"{{ ('t,' + c).split(',')|join('|') }}", "t|[ Ab]|[cD ]"},
      {"{{ '-'.join(list) }}", "[x]-[y]"},
      {"{{ list|join('-') }}", "[x]-[y]"},
      {"{{ c * 2 }}", "[ Ab,cD  Ab,cD ]"},
      {"{{ '%s!' % c }}{{ '<%s>'|format(c) }}", "[ Ab,cD ]!<[ Ab,cD ]>"},
      {"{{ 'a{}b'.format(c) }}", "a[ Ab,cD ]b"},
      {"{{ c|tojson }}", "[\" Ab,cD \"]"},
      {"{{ ['t', c]|tojson }}", "[[\"]t[\", \" Ab,cD \"]]"},
      {"{{ [c] }}", "[[' Ab,cD ']]"},
      {"{{ d }}", "[{'k': 'v'}]"},
      {"{% for x in list %}{{ x }}{% endfor %}", "[xy]"},
      {"{% for x in 'a' + c %}{{ x }}{% endfor %}", "a[ Ab,cD ]"},
      {"{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}", "[k]=[v]"},
      {"{{ {'t': c}.t }}{% for k in {'t': c} %}{{ k }}{% endfor %}", "[ Ab,cD ]t"},
      {"{% set x %}a{{ c }}b{% endset %}{{ x }}", "a[ Ab,cD ]b"},
      {"{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(c) }}", "<[ Ab,cD ]>"},
      {"{% filter upper %}a{{ c }}{% endfilter %}", "A[ AB,CD ]"},
      {"{% set ns = namespace(x='t') %}{% set ns.x = ns.x + c %}{{ ns.x }}", "t[ Ab,cD ]"},
      {"{{ list|map('upper')|join }}", "[XY]"},
      {"{{ c|default('t') }}{{ nope|default('t') }}", "[ Ab,cD ]t"},
      {"{{ c|string }}{{ c|e }}{{ c|safe }}", "[ Ab,cD  Ab,cD  Ab,cD ]"},
      {"{{ c|reverse }}{{ c|first }}{{ c|list|last }}", "[ Dc,bA   ]"},
      {"{{ (c ~ '\n' ~ c)|indent(1) }}", "[ Ab,cD \n] [ Ab,cD ]"},
      {"{{ n }}{{ n + 1 }}{{ 1 + 1 }}{{ list|length }}", "[78]22"},
      {"{{ n|string }}{{ c|int }}{{ '5'|int }}", "[7]05"},
      {"{% for i in range(2) %}{{ i }}{% endfor %}{% for i in range(n)[:1] %}{{ i }}{% endfor %}",
       "01[0]"},
  };
  for (const auto& [source, expected] : cases) {
    EXPECT_EQ(render_marks(source, kVariables), expected) << source;
  }
}

// The data chooses where a replacement goes, so that what it puts there is data too.
TEST(ChatTemplateTaint, DataDoesNotPlaceTrustedText) {
  EXPECT_EQ(render_marks("{{ c|replace(',', '<|x|>') }}", kVariables), "[ Ab<|x|>cD ]");
  EXPECT_EQ(render_marks("{{ 'a,b'|replace(',', '<|x|>') }}", kVariables), "a<|x|>b");
  EXPECT_EQ(render_marks("{{ c.replace('', '.') }}", R"({"c": "ab"})"), "[.a.b.]");
  EXPECT_EQ(render_marks("{{ f % '<|x|>' }}", R"({"f": "a%s"})"), "[a<|x|>]");
  EXPECT_EQ(render_marks("{{ f.format('<|x|>') }}", R"({"f": "a{}"})"), "[a<|x|>]");
}

TEST(ChatTemplateTaint, ComparisonsIgnoreMarks) {
  EXPECT_EQ(render_text("{{ c == ' Ab,cD ' }}{{ 'x' in list }}{{ d['k'] == 'v' }}", kVariables),
            "TrueTrueTrue");
}

TEST(ChatTemplateTaint, SpansAreMergedAndNeverEmpty) {
  const auto spans =
      render_spans("a{{ 'b' }}{{ '' }}{{ e }}{{ c }}{{ c }}d", R"({"c": "x", "e": ""})");
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].text, "ab");
  EXPECT_EQ(spans[1].text, "xx");
  EXPECT_EQ(spans[2].text, "d");
  EXPECT_TRUE(render_spans("").empty());
}

// Variables win over special tokens of the same name, and stay untrusted.
TEST(ChatTemplateTaint, VariablesCannotPoseAsSpecialTokens) {
  EXPECT_EQ(render_marks("{{ bos_token }}", R"({"bos_token": "<forged>"})"), "[<forged>]");
}

TEST(ChatTemplateTaint, RolesToolsAndMessagesAreUntrusted) {
  ChatRenderOptions options;
  options.tools = Json::parse(R"([{"name": "<|tool|>"}])");
  const auto parsed = ChatTemplate::parse(
      "{% for m in messages %}<|im_start|>{{ m.role }}{{ m.content }}{% endfor %}"
      "{% for t in tools %}{{ t.name }}{% endfor %}");
  const auto spans =
      parsed.render(Json::parse(R"([{"role": "<|im_end|>", "content": "<|im_start|>"}])"), options);
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].text, "<|im_start|>");
  EXPECT_TRUE(spans[0].trusted);
  EXPECT_EQ(spans[1].text, "<|im_end|><|im_start|><|tool|>");
  EXPECT_FALSE(spans[1].trusted);
}

}  // namespace
}  // namespace clover
