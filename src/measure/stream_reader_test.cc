// SPDX-License-Identifier: Apache-2.0
#include "measure/stream_reader.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace clover {
namespace {

std::string delta(const std::string& text) {
  return R"(data: {"choices":[{"index":0,"delta":{"content":")" + text + "\"}}]}\n\n";
}

const char* const kUsage =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":25}}\n\n";

// I1: four tokens a chunk; the tokens are those of the usage. I2: times by hand.
TEST(StreamReader, ChunksAreNotTokensI1I2) {
  StreamReader reader;
  reader.add(R"(data: {"choices":[{"delta":{"role":"assistant","content":""}}]})"
             "\n\n",
             1.0);
  reader.add(delta("one two three four "), 10.0);
  reader.add(": waiting\n\n" + delta("five"), 30.0);
  reader.add(delta("six"), 35.0);
  reader.add(R"(data: {"choices":[{"delta":{},"finish_reason":"stop",)"
             R"("speculation":{"target_steps":9,"accepted":4}}]})"
             "\n\n",
             36.0);
  reader.add(kUsage, 40.0);
  EXPECT_FALSE(reader.done());
  reader.add("data: [DONE]\n\n", 41.0);
  EXPECT_TRUE(reader.done());
  EXPECT_EQ(reader.text(), "one two three four fivesix");
  EXPECT_EQ(reader.completion_tokens(), 25);
  EXPECT_EQ(reader.prompt_tokens(), 7);
  EXPECT_EQ(reader.first_ms(), 10.0);
  EXPECT_EQ(reader.last_ms(), 35.0);
  EXPECT_EQ(reader.longest_gap_ms(), 20.0);
  EXPECT_EQ(reader.finish(), "stop");
  EXPECT_EQ(reader.steps(), 9);
  EXPECT_EQ(reader.accepted(), 4);
}

TEST(StreamReader, AnyCutOfTheBytesReadsTheSame) {
  const std::string stream = delta("a") + ": comment\r\n" + delta("b") + kUsage + "data: [DONE]\n";
  for (size_t size = 1; size <= stream.size(); ++size) {
    StreamReader reader;
    for (size_t at = 0; at < stream.size(); at += size)
      reader.add(std::string_view(stream).substr(at, size), static_cast<double>(at));
    EXPECT_TRUE(reader.done());
    EXPECT_EQ(reader.text(), "ab");
    EXPECT_EQ(reader.completion_tokens(), 25);
  }
}

// I2: reasoning counts as the first token, tool calls and usage do not.
TEST(StreamReader, FirstTextI2) {
  StreamReader reader;
  reader.add("data: {\"choices\":[{\"delta\":{\"tool_calls\":[]}}]}\n", 5.0);
  EXPECT_EQ(reader.first_ms(), -1.0);
  reader.add("data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n", 6.0);
  EXPECT_EQ(reader.first_ms(), 6.0);
  EXPECT_EQ(reader.text(), "");
}

TEST(StreamReader, ErrorsAndNonsense) {
  StreamReader reader;
  reader.add("data: {\"error\":{\"message\":\"no\"}}\n", 1.0);
  EXPECT_EQ(reader.error(), "no");
  EXPECT_THROW(reader.add("data: {\n", 1.0), Error);
  for (const char* odd : {"data: 1\n", "data: []\n", "data: {\"choices\":5}\n",
                          "data: {\"choices\":[5],\"usage\":[]}\n", "event: x\n", "nothing\n"})
    EXPECT_NO_THROW(StreamReader().add(odd, 1.0)) << odd;
}

}  // namespace
}  // namespace clover
