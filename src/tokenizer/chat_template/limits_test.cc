// SPDX-License-Identifier: Apache-2.0
// F7, B9: a hostile or unsupported template ends in one clear error, in bounded time and stack.
#include <gtest/gtest.h>

#include <ctime>

#include "tokenizer/chat_template/render_for_test.h"

namespace clover {
namespace {

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

ErrorCode code_of(const std::string& source) {
  const auto error = render_error(source);
  EXPECT_TRUE(error.has_value()) << source.substr(0, 80);
  return error ? error->code() : ErrorCode::kIo;
}

TEST(ChatTemplateLimits, BillionTurnsStop) {
  const std::clock_t begin = std::clock();  // processor time: the machine may be busy otherwise
  EXPECT_EQ(code_of("{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}"
                    "{% endfor %}{% endfor %}{% endfor %}"),
            ErrorCode::kExhausted);
  EXPECT_LT(std::clock() - begin, 20 * CLOCKS_PER_SEC);
  EXPECT_EQ(code_of("{% for a in range(1000000000) %}{% endfor %}"), ErrorCode::kExhausted);
  EXPECT_EQ(code_of("{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}"),
            ErrorCode::kExhausted);
}

TEST(ChatTemplateLimits, GrowingTextStops) {
  EXPECT_EQ(code_of("{% set n = namespace(s='aaaaaaaa') %}{% for i in range(99) %}"
                    "{% set n.s = n.s + n.s %}{% endfor %}"),
            ErrorCode::kExhausted);
  EXPECT_EQ(code_of("{{ 'a' * 1000000000 }}"), ErrorCode::kExhausted);
  EXPECT_EQ(code_of("{{ 'a' * 9223372036854775807 }}"), ErrorCode::kExhausted);
  EXPECT_EQ(code_of("{{ [1] * 1000000000 }}"), ErrorCode::kExhausted);
  EXPECT_EQ(code_of("{{ ('a' * 1000000).replace('a', 'b' * 1000) }}"), ErrorCode::kExhausted);
  EXPECT_EQ(code_of("{{ (['a' * 1000000] * 1000)|join }}"), ErrorCode::kExhausted);
  EXPECT_EQ(code_of("{% for i in range(1000) %}{{ 'a' * 1000000 }}{% endfor %}"),
            ErrorCode::kExhausted);
  EXPECT_EQ(code_of("{{ ('\n' * 1000000)|indent(1000, true, true) }}"), ErrorCode::kExhausted);
  EXPECT_EQ(code_of("{{ '%1000s' % 'a' * 1000000 }}"), ErrorCode::kExhausted);
}

TEST(ChatTemplateLimits, OutputLimitIsTheCallers) {
  ChatRenderOptions options;
  options.limits.max_bytes = 10;
  const auto parsed = ChatTemplate::parse("{% for i in range(3) %}12345{% endfor %}");
  EXPECT_THROW(parsed.render(Json::array(), options), Error);
  options.limits.max_bytes = 15;
  EXPECT_EQ(joined(parsed.render(Json::array(), options)), "123451234512345");
}

// Structures that contain themselves, or share so much that printing them would never end.
TEST(ChatTemplateLimits, CyclesAndSharedStructuresStop) {
  const std::string cycle = "{% set l = [] %}{% set x = l.append(l) %}";
  for (const char* use :
       {"{{ l }}", "{{ l|tojson }}", "{% set k = [] %}{% set x = k.append(k) %}{{ l == k }}",
        "{{ l|sort }}{{ l|string }}"}) {
    EXPECT_EQ(code_of(cycle + use), ErrorCode::kExhausted) << use;
  }
  EXPECT_EQ(code_of("{% set n = namespace(x=[]) %}{% for i in range(60) %}"
                    "{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x|tojson }}"),
            ErrorCode::kExhausted);
  EXPECT_EQ(code_of("{% set n = namespace(x=[]) %}{% for i in range(90000) %}"
                    "{% set n.x = [n.x] %}{% endfor %}{{ n.x }}"),
            ErrorCode::kExhausted);
}

TEST(ChatTemplateLimits, DeepNestingIsRefusedWithoutRecursion) {
  const int deep = 100'000;
  for (const std::string& source : {
           "{{ " + repeated("(", deep) + "1" + repeated(")", deep) + " }}",
           "{{ " + repeated("[", deep) + repeated("]", deep) + " }}",
           "{{ " + repeated("{1:", deep) + "1" + repeated("}", deep) + " }}",
           "{{ " + repeated("not ", deep) + "1 }}",
           "{{ " + repeated("-", deep) + "1 }}",
           "{{ 1" + repeated("+1", deep) + " }}",
           "{{ 1" + repeated(" if 1", deep) + " }}",
           "{{ 1" + repeated(" if 1 else 1", deep) + " }}",
           "{{ a" + repeated(".b", deep) + " }}",
           "{{ a" + repeated("[0]", deep) + " }}",
           "{{ a" + repeated("|trim", deep) + " }}",
           "{{ a" + repeated("()", deep) + " }}",
           "{{ 1" + repeated(" or 1", deep) + " }}",
           "{{ 1" + repeated("**1", deep) + " }}",
           "{{ " + repeated("a[", deep) + "1" + repeated("]", deep) + " }}",
           "{{ 1 is in " + repeated("[", deep) + repeated("]", deep) + " }}",
           "{% set " + repeated("(", deep) + "a" + repeated(")", deep) + " = 1 %}",
           repeated("{% if 1 %}", deep),
           repeated("{% for a in b %}", deep / 4),
       }) {
    EXPECT_EQ(code_of(source), ErrorCode::kUnsupported) << source.substr(0, 30);
  }
}

TEST(ChatTemplateLimits, LongFlatTemplatesAreFine) {
  EXPECT_EQ(render_text(repeated("{{ 'a' }}", 20'000)).size(), 20'000u);
  EXPECT_EQ(render_text("{{ 'a'" + repeated(" ~ 'a'", 20'000) + " }}").size(), 20'001u);
  EXPECT_EQ(render_text("{% if 0 %}" + repeated("{% elif 0 %}", 20'000) + "{% else %}b{% endif %}"),
            "b");
  EXPECT_EQ(code_of(std::string(2 << 20, 'a')), ErrorCode::kUnsupported);
}

TEST(ChatTemplateLimits, RecursionOfMacrosStops) {
  EXPECT_EQ(code_of("{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}"),
            ErrorCode::kExhausted);
}

TEST(ChatTemplateLimits, DeepMessagesAreRefused) {
  Json deep = Json::array();
  for (int i = 0; i < 500; ++i) deep = Json::array({deep});
  EXPECT_THROW(ChatTemplate::parse("x").render(deep, {}), Error);
}

// B9: a construct that chat templates do not use is refused at load, with its line.
TEST(ChatTemplateErrors, UnsupportedConstructsNameTheirLine) {
  for (const std::string construct : {"{% include 'x' %}",
                                      "{% import 'x' as y %}",
                                      "{% extends 'x' %}",
                                      "{% block b %}",
                                      "{% from 'x' import y %}",
                                      "{% autoescape true %}",
                                      "{% do x %}",
                                      "{% trans %}",
                                      "{{ x|nofilter }}",
                                      "{{ x is notest }}",
                                      "{{ x.nomethod() }}",
                                      "{{ f(*a) }}",
                                      "{{ f(**a) }}",
                                      "{% for a in b recursive %}",
                                      "{{ lipsum() }}",
                                      "{{ x|select('notest') }}",
                                      "{{ x|map('nofilter') }}",
                                      "{{ x|selectattr('a', 'notest') }}",
                                      "{{ a[1, 2] }}",
                                      "{{ 99999999999999999999 }}"}) {
    try {
      ChatTemplate::parse("one\ntwo\n" + construct);
      ADD_FAILURE() << construct << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << construct;
      EXPECT_NE(std::string(error.what()).find("line 3"), std::string::npos) << error.what();
    }
  }
}

TEST(ChatTemplateErrors, BrokenTemplatesNameTheirLine) {
  for (const std::string broken :
       {"{{ 'a", "{% if 1 %}\n", "{{ (1 }}", "{{ 1 + }}", "{# open", "{% endfor %}", "{{ a b }}",
        "{{ '\\x4' }}", "{{ '\\ud800' }}"}) {
    try {
      ChatTemplate::parse("one\n" + broken);
      ADD_FAILURE() << broken << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorrupt) << broken;
      EXPECT_NE(std::string(error.what()).find("line "), std::string::npos) << error.what();
    }
  }
}

// Every prefix of a template either parses or is refused.
TEST(ChatTemplateErrors, TruncatedTemplatesNeverCrash) {
  const std::string whole =
      "{#- c -#}{% macro m(a, b=[1, {'k': 2.5}]) -%} {{ (a|default('x'))[1:] }} {%- endmacro %}"
      "{% raw %}{{ }}{% endraw %}{% for k, v in {'a': 1}.items() if k is not none %}"
      "{% set ns = namespace(x=1) %}{{ m(k, b=v) ~ (1 if loop.first else '\\u00e9') }}{% endfor %}";
  int parsed = 0;
  for (size_t length = 0; length <= whole.size(); ++length) {
    parsed += render_error(whole.substr(0, length)).has_value() ? 0 : 1;
  }
  EXPECT_GT(parsed, 2);
  EXPECT_FALSE(render_error(whole).has_value());
}

TEST(ChatTemplateErrors, RaisedTextIsTheWholeMessage) {
  const auto error = render_error("\n{{ raise_exception('Roles must alternate: ' ~ 3) }}");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::kInvalidArgument);
  EXPECT_STREQ(error->what(), "Roles must alternate: 3");
}

TEST(ChatTemplateErrors, WrongDataNamesTheLine) {
  const auto error = render_error("a\nb\n{{ 'x' + nothing }}");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::kInvalidArgument);
  EXPECT_STREQ(error->what(), "chat template line 3: 'nothing' is undefined");
}

// F7: Python's ways out of the sandbox lead nowhere.
TEST(ChatTemplateErrors, NothingButDataIsReachable) {
  EXPECT_EQ(render_text("{{ ''.__class__ }}{{ x.__init__ }}", R"({"x": {}})"), "");
  for (const char* source :
       {"{{ ''.__class__.__mro__ }}", "{{ ''['__class__']['__base__'] }}",
        "{{ raise_exception.__globals__.os }}", "{{ messages.append.__self__.x }}",
        "{% macro m() %}{% endmacro %}{{ m.__call__.__globals__ }}", "{{ self.x }}",
        "{{ '{0.__class__}'.format(1) }}", "{{ ([].append|string) }}"}) {
    EXPECT_EQ(code_of(source), ErrorCode::kInvalidArgument) << source;
  }
}

TEST(ChatTemplateErrors, StrangeOptionsAreRefused) {
  ChatRenderOptions options;
  options.variables = Json::array();
  EXPECT_THROW(ChatTemplate::parse("x").render(Json::array(), options), Error);
  options.variables = Json{{"n", 18446744073709551615u}};
  EXPECT_THROW(ChatTemplate::parse("x").render(Json::array(), options), Error);
}

// Bytes that are not UTF-8 pass through, one character each.
TEST(ChatTemplateErrors, InvalidUtf8PassesThrough) {
  ChatRenderOptions options;
  options.variables = Json{{"s", "a\xff\xc3"}};
  const auto parsed = ChatTemplate::parse("\xfe{{ s|upper }}{{ s|length }}{{ s[1] }}{{ [s] }}");
  EXPECT_EQ(joined(parsed.render(Json::array(), options)),
            "\xfe"
            "A\xff\xc3"
            "3\xff['a\\xff\\xc3']");
}

TEST(ChatTemplate, ListsCanBeBuiltWithAppend) {
  EXPECT_EQ(render_text("{% set l = [] %}{% for i in range(3) %}{% set _ = l.append(i) %}"
                        "{% endfor %}{{ l }}"),
            "[0, 1, 2]");
}

TEST(ChatTemplate, MentionsTellsWhatIsRead) {
  const auto parsed = ChatTemplate::parse("{% if tools %}{{ enable_thinking }}{% endif %}");
  EXPECT_TRUE(parsed.mentions("tools"));
  EXPECT_TRUE(parsed.mentions("enable_thinking"));
  EXPECT_FALSE(parsed.mentions("messages"));
}

TEST(ChatTemplate, TextGivenToFromJsonBecomesUntrustedData) {
  EXPECT_EQ(render_marks("{{ (s|from_json).a }}", R"({"s": "{\"a\": \"x\"}"})"), "[x]");
  EXPECT_TRUE(render_error("{{ '{'|from_json }}").has_value());
}

}  // namespace
}  // namespace clover
