// SPDX-License-Identifier: Apache-2.0
#include "serve/api_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/body_fields.h"
#include "serve/http_auth.h"
#include "serve/request_error.h"

namespace clover {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int32_t kVocab = 100;

Json chat_body(const std::string& fields) {
  return parse_json(R"({"messages":[{"role":"user","content":"hi"}])" +
                        (fields.empty() ? "" : "," + fields) + "}",
                    "the request body");
}

Json text_body(const std::string& fields) {
  return parse_json(R"({"prompt":"hi")" + (fields.empty() ? "" : "," + fields) + "}",
                    "the request body");
}

ApiRequest chat(const std::string& fields) { return parse_chat_request(chat_body(fields), kVocab); }

// The field that the body is refused for; "" when it is taken.
template <typename Parse>
std::string refused_field(const Json& body, Parse parse) {
  try {
    parse(body, kVocab);
  } catch (const RequestError& error) {
    EXPECT_EQ(error.status(), 400);
    EXPECT_THAT(error.what(), HasSubstr(error.param()));
    return error.param().empty() ? "?" : error.param();
  }
  return "";
}

std::string chat_refuses(const std::string& fields) {
  return refused_field(chat_body(fields), parse_chat_request);
}
std::string completion_refuses(const std::string& fields) {
  return refused_field(text_body(fields), parse_completion_request);
}
std::string prompt_refuses(const std::string& prompt) {
  return refused_field(parse_json("{\"prompt\":" + prompt + "}", "body"), parse_completion_request);
}

TEST(ApiRequest, DefaultsAreTheApis) {
  const ApiRequest request = chat("");
  EXPECT_TRUE(request.chat);
  EXPECT_EQ(request.sampling.temperature, 1.0f);
  EXPECT_EQ(request.sampling.top_p, 1.0f);
  EXPECT_EQ(request.choices, 1);
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.seed);
  EXPECT_FALSE(request.max_tokens);
  EXPECT_EQ(request.logprobs, -1);
  EXPECT_EQ(request.max_drafts, -1);
}

TEST(ApiRequest, PredictionsAreTextsOrParts) {
  EXPECT_FALSE(chat("").prediction);
  EXPECT_EQ(chat(R"("prediction":{"type":"content","content":"a b"})").prediction, "a b");
  EXPECT_EQ(chat(R"("prediction":{"type":"content","content":""})").prediction, "");
  EXPECT_EQ(chat(R"("prediction":{"type":"content","content":
      [{"type":"text","text":"a"},{"type":"text","text":" b"}]})")
                .prediction,
            "a b");
  const ApiRequest request =
      parse_completion_request(text_body(R"("prediction":{"type":"content","content":"x"},
      "echo":true,"logprobs":1,"max_tokens":0)"),
                               kVocab);
  EXPECT_EQ(request.prediction, "x");
  EXPECT_TRUE(request.echo);
  EXPECT_EQ(request.logprobs, 1);
}

TEST(ApiRequest, EveryFieldArrives) {
  const ApiRequest request = chat(
      R"("model":"m","temperature":0.5,"top_p":0.9,"n":3,"stream":true,"seed":-7,
      "stream_options":{"include_usage":true},"stop":["a","b"],"presence_penalty":1,
      "frequency_penalty":-2,"logit_bias":{"5":-100,"99":1.5},"max_completion_tokens":7,
      "logprobs":true,"top_logprobs":4,"user":"u","top_k":3,"min_p":0.1,"repetition_penalty":1.2,
      "min_tokens":2,"ignore_eos":true,"speculation":{"nodes":4,"marks":true},
      "response_format":{"type":"text"},"tools":[],"tool_choice":"none","store":false,
      "chat_template_kwargs":{"enable_thinking":false})");
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.sampling.temperature, 0.5f);
  EXPECT_EQ(request.sampling.top_p, 0.9f);
  EXPECT_EQ(request.choices, 3);
  EXPECT_TRUE(request.stream && request.include_usage && request.ignore_eos);
  EXPECT_EQ(request.seed, static_cast<uint64_t>(-7));
  EXPECT_THAT(request.stop, ElementsAre("a", "b"));
  EXPECT_EQ(request.sampling.presence_penalty, 1.0f);
  EXPECT_EQ(request.sampling.frequency_penalty, -2.0f);
  EXPECT_THAT(request.sampling.logit_bias, ElementsAre(std::pair{5, -100.0f}, std::pair{99, 1.5f}));
  EXPECT_EQ(request.max_tokens, 7);
  EXPECT_EQ(request.logprobs, 4);
  EXPECT_EQ(request.sampling.top_k, 3);
  EXPECT_EQ(request.sampling.min_p, 0.1f);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.2f);
  EXPECT_EQ(request.sampling.min_tokens, 2);
  EXPECT_EQ(request.max_drafts, 4);
  EXPECT_TRUE(request.report_speculation && request.mark_drafted);
  EXPECT_EQ(request.template_variables["enable_thinking"], false);
}

TEST(ApiRequest, NullIsAbsent) {
  const ApiRequest request = chat(
      R"("temperature":null,"n":null,"stop":null,"tools":null,"nonsense":null,"prediction":null)");
  EXPECT_EQ(request.sampling.temperature, 1.0f);
}

// A field that cannot be honoured is refused, never dropped; the error names it.
TEST(ApiRequest, RefusesWhatItCannotDo) {
  for (const auto& [fields, name] : std::vector<std::pair<std::string, std::string>>{
           {R"("nonsense":1)", "nonsense"},
           {R"("response_format":{"type":"xml"})", "response_format.type"},
           {R"("response_format":{"type":"json_schema"})", "response_format.json_schema"},
           {R"("response_format":{"type":"json_schema","json_schema":{}})",
            "response_format.json_schema.name"},
           {R"("response_format":{"type":"json_schema","json_schema":{"name":"a b","schema":{}}})",
            "response_format.json_schema.name"},
           {R"("response_format":{"type":"json_schema","json_schema":{"name":"a"}})",
            "response_format.json_schema.schema"},
           {R"("response_format":{"type":"json_object","json_schema":{"name":"a","schema":{}}})",
            "response_format.json_schema"},
           {R"("response_format":{"type":"json_object"},"ignore_eos":true)", "ignore_eos"},
           {R"("response_format":{"type":"json_object"},"min_tokens":2)", "min_tokens"},
           {R"("tools":[{"type":"function"}])", "tools"},
           {R"("tool_choice":"required")", "tool_choice"},
           {R"("prediction":"x")", "prediction"},
           {R"("prediction":{"type":"file","content":"x"})", "prediction.type"},
           {R"("prediction":{"content":"x"})", "prediction.type"},
           {R"("prediction":{"type":"content"})", "prediction.content"},
           {R"("prediction":{"type":"content","content":7})", "prediction.content"},
           {R"("prediction":{"type":"content","content":[{"type":"image_url"}]})",
            "prediction.content"},
           {R"("prediction":{"type":"content","content":"x","y":1})", "prediction.y"},
           {R"("speculation":"off","prediction":{"type":"content","content":"x"})", "prediction"},
           {R"("speculation":{"nodes":0},"prediction":{"type":"content","content":"x"})",
            "prediction"},
           {R"("store":true)", "store"},
           {R"("modalities":["audio"])", "modalities"},
           {R"("stream_options":{"include_usage":true})", "stream_options"},
           {R"("stream":true,"stream_options":{"x":1})", "stream_options.x"},
           {R"("top_logprobs":2)", "top_logprobs"},
           {R"("max_tokens":1,"max_completion_tokens":2)", "max_tokens"},
           {R"("speculation":{"speculators":"x"})", "speculation.speculators"},
           {R"("speculation":3)", "speculation"},
           {R"("speculation":"always")", "speculation"},
           {R"("prompt":"both")", "prompt"}})
    EXPECT_EQ(chat_refuses(fields), name) << fields;
  for (const auto& [fields, name] : std::vector<std::pair<std::string, std::string>>{
           {R"("messages":[])", "messages"},
           {R"("suffix":"x")", "suffix"},
           {R"("best_of":2)", "best_of"},
           {R"("logprobs":true)", "logprobs"},
           {R"("max_completion_tokens":1)", "max_completion_tokens"}})
    EXPECT_EQ(completion_refuses(fields), name) << fields;
}

TEST(ApiRequest, RefusesWrongTypesAndRanges) {
  for (const std::string field :
       {"temperature", "top_p", "n", "seed", "presence_penalty", "frequency_penalty", "top_k",
        "min_p", "repetition_penalty", "max_tokens", "min_tokens", "logit_bias"})
    for (const std::string value : {R"("x")", "[1]", "true", R"([{}])"})
      EXPECT_EQ(chat_refuses("\"" + field + "\":" + value), field) << value;
  for (const std::string field : {"stream", "logprobs", "ignore_eos", "store"})
    EXPECT_EQ(chat_refuses("\"" + field + "\":1"), field);
  for (const auto& [field, value] :
       std::vector<std::pair<std::string, std::string>>{{"temperature", "-0.1"},
                                                        {"temperature", "2.1"},
                                                        {"temperature", "1e308"},
                                                        {"top_p", "1.01"},
                                                        {"n", "0"},
                                                        {"n", "129"},
                                                        {"n", "1.5"},
                                                        {"n", "1e3"},
                                                        {"n", "18446744073709551615"},
                                                        {"max_tokens", "-1"},
                                                        {"max_tokens", "9223372036854775808"},
                                                        {"presence_penalty", "2.5"},
                                                        {"repetition_penalty", "0"},
                                                        {"seed", "1.5"},
                                                        {"top_logprobs", "21"},
                                                        {"min_p", "1"},
                                                        {"stop", R"([""])"},
                                                        {"stop", R"([1])"},
                                                        {"stop", "5"}})
    EXPECT_EQ(chat_refuses("\"logprobs\":true,\"" + field + "\":" + value), field) << value;
}

// C16: ids outside the vocabulary, in every place that takes ids.
TEST(ApiRequest, RefusesIdsOutsideTheVocabularyC16) {
  for (const std::string id :
       {"-1", "100", "2147483648", "9223372036854775808", "1.5", "\"1\"", "null", "1e5", "[1]"}) {
    EXPECT_EQ(prompt_refuses("[1," + id + "]"), "prompt") << id;
    EXPECT_EQ(prompt_refuses("[[1],[" + id + "]]"), "prompt") << id;
  }
  for (const std::string id :
       {"-1", "100", "2147483648", "9223372036854775808", "x", "", "1.5", " 1", "1 "})
    EXPECT_EQ(chat_refuses(R"("logit_bias":{")" + id + R"(":1})"), "logit_bias") << id;
  EXPECT_EQ(chat_refuses(R"("logit_bias":{"1":101})"), "logit_bias");
  EXPECT_EQ(chat_refuses(R"("logit_bias":{"1":1,"01":1})"), "logit_bias");
}

TEST(ApiRequest, PromptsOfEveryShape) {
  const auto prompts = [](const std::string& text) {
    return parse_completion_request(parse_json("{\"prompt\":" + text + "}", "body"), kVocab)
        .prompts;
  };
  EXPECT_THAT(prompts(R"("a")"), SizeIs(1));
  EXPECT_THAT(prompts(R"(["a","b"])"), SizeIs(2));
  EXPECT_EQ(std::get<std::vector<TokenId>>(prompts("[1,2,99]").front()),
            (std::vector<TokenId>{1, 2, 99}));
  EXPECT_THAT(prompts("[[1],[2,3]]"), SizeIs(2));
  for (const std::string bad :
       {"[]", "[[]]", "{}", "5", R"(["a",1])", R"([[1],"a"])", R"([1,"a"])", "true"})
    EXPECT_EQ(prompt_refuses(bad), "prompt") << bad;
  EXPECT_EQ(refused_field(parse_json("{}", "body"), parse_completion_request), "prompt");
  std::string many = "[\"a\"";
  for (int i = 0; i < 128; ++i) many += ",\"a\"";
  EXPECT_EQ(prompt_refuses(many + "]"), "prompt");
}

// B10: contents as text, as parts, and null beside tool calls.
TEST(ApiRequest, MessageShapesB10) {
  const Json messages = parse_messages(parse_json(
      R"([{"role":"developer","content":"s"},
          {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
          {"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},
          {"role":"tool","content":"42","tool_call_id":"1"}])",
      "body"));
  EXPECT_EQ(messages[0]["role"], "system");
  EXPECT_EQ(messages[1]["content"], "ab");
  EXPECT_TRUE(messages[2]["content"].is_null());
  EXPECT_EQ(messages[2]["tool_calls"][0]["id"], "1");
  const auto refuses = [](const std::string& text) {
    try {
      parse_messages(parse_json(text, "body"));
    } catch (const RequestError& error) {
      return error.param();
    }
    return std::string();
  };
  EXPECT_EQ(refuses("[]"), "messages");
  EXPECT_EQ(refuses("{}"), "messages");
  EXPECT_EQ(refuses("[1]"), "messages[0]");
  EXPECT_EQ(refuses(R"([{"role":"king","content":"x"}])"), "messages[0].role");
  EXPECT_EQ(refuses(R"([{"role":"user"}])"), "messages[0].content");
  EXPECT_EQ(refuses(R"([{"role":"user","content":5}])"), "messages[0].content");
  EXPECT_EQ(refuses(R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])"),
            "messages[0].content");
  EXPECT_EQ(refuses(R"([{"role":"user","content":"x","extra":1}])"), "messages[0].extra");
}

TEST(ApiRequest, SpeculationOfARequest) {
  EXPECT_EQ(chat(R"("speculation":"off")").max_drafts, 0);
  EXPECT_EQ(chat(R"("speculation":false)").max_drafts, 0);
  EXPECT_EQ(chat(R"("speculation":true)").max_drafts, -1);
  EXPECT_EQ(chat(R"("speculation":{"speculator":"none"})").max_drafts, 0);
  EXPECT_EQ(chat(R"("speculation":{"speculator":"ngram"})").speculator, "ngram");
  EXPECT_TRUE(chat(R"("speculation":{})").report_speculation);
}

TEST(ApiRequest, ABodyThatIsNoObject) {
  for (const std::string text : {"[]", "1", "null", "\"x\""}) {
    EXPECT_EQ(refused_field(parse_json(text, "body"), parse_chat_request), "?");
    EXPECT_EQ(refused_field(parse_json(text, "body"), parse_completion_request), "?");
  }
}

TEST(HttpAuth, BearerAndBasic) {
  EXPECT_TRUE(gives_key("Bearer secret", "secret"));
  EXPECT_TRUE(gives_key("Basic OnNlY3JldA==", "secret"));          // ":secret"
  EXPECT_TRUE(gives_key("Basic YW55Ym9keTpzZWNyZXQ=", "secret"));  // "anybody:secret"
  for (const std::string_view wrong :
       {"", "Bearer", "Bearer ", "Bearer secre", "Bearer secret ", "bearer secret", "secret",
        "Basic", "Basic ", "Basic !!!!", "Basic OnNlY3JldA", "Basic c2VjcmV0", "Basic ===="})
    EXPECT_FALSE(gives_key(wrong, "secret")) << wrong;
}

TEST(RequestErrors, CarryStatusAndType) {
  EXPECT_EQ(status_of(Error(ErrorCode::kInvalidArgument, "x")), 400);
  EXPECT_EQ(status_of(Error(ErrorCode::kCorrupt, "x")), 400);
  EXPECT_EQ(status_of(Error(ErrorCode::kExhausted, "x")), 429);
  EXPECT_EQ(status_of(RequestError(404, "x")), 404);
  const Json error = error_json(404, "no", "model", "model_not_found")["error"];
  EXPECT_EQ(error["param"], "model");
  EXPECT_EQ(error["code"], "model_not_found");
  EXPECT_TRUE(error_json(400, "no")["error"]["param"].is_null());
}

TEST(ApiRequest, ResponseFormatNamesASchema) {
  EXPECT_FALSE(chat(R"("response_format":{"type":"text"})").schema);
  EXPECT_FALSE(chat(R"("response_format":null)").schema);
  EXPECT_EQ(chat(R"("response_format":{"type":"json_object"})").schema, Json({{"type", "object"}}));
  const std::string format = R"("response_format":{"type":"json_schema","json_schema":
      {"name":"it","description":"of it","strict":true,"schema":{"type":"integer"}}})";
  EXPECT_EQ(chat(format).schema, Json({{"type", "integer"}}));
  EXPECT_EQ(parse_completion_request(text_body(format), kVocab).schema,
            Json({{"type", "integer"}}));
}

}  // namespace
}  // namespace clover
