// The tokenizer: words, source lines, what it skips and what it refuses.
#include "ptx/tokens.h"

#include <gtest/gtest.h>

#include "ptx/kernel.h"

namespace gpusim::ptx {
namespace {

std::vector<std::string> texts(std::string_view text) {
  std::vector<std::string> result;
  for (const Token& token : tokenize(text).tokens) result.emplace_back(token.text);
  return result;
}

TEST(Tokens, WordsKeepTheirDotsAndOtherCharactersStandAlone) {
  EXPECT_EQ(texts("@!%p1 ld.global.nc.L2::128B.v2.f32 {%f1, _}, [%rd2+-8];"),
            (std::vector<std::string>{"@", "!", "%p1", "ld.global.nc.L2::128B.v2.f32", "{", "%f1", ",", "_", "}", ",",
                                      "[", "%rd2", "+", "-", "8", "]", ";"}));
}

TEST(Tokens, LabelsAndExponents) {
  EXPECT_EQ(texts("$L1: add.f32 a, b, 1.5e-7; sub x,y,0x1e-5;"),
            (std::vector<std::string>{"$L1", ":", "add.f32", "a", ",", "b", ",", "1.5e-7", ";", "sub", "x", ",", "y",
                                      ",", "0x1e", "-", "5", ";"}));
}

TEST(Tokens, CommentsAndSectionsLeaveNothing) {
  EXPECT_EQ(texts("a // b\n/* c\n d */ e\n\t.section .debug_str\n{\n.b8 1\n}\nf"),
            (std::vector<std::string>{"a", "e", "f"}));
}

TEST(Tokens, KnowTheirPtxAndSourceLines) {
  const TokenizedText result = tokenize(
      ".version 8.0\n.target sm_75, debug\n.file 1 \"/a/b.cu\"\n\t.file\t2 \"/c.h\", 123, 45\n"
      "x\n\t.loc\t1 12 5\ny\n\t.loc 2 7 3, function_name $L__info_string0, inlined_at 1 13 9\nz");
  EXPECT_EQ(result.target, 75);
  EXPECT_EQ(result.files.at(1), "/a/b.cu");
  EXPECT_EQ(result.files.at(2), "/c.h");
  ASSERT_EQ(result.tokens.size(), 3U);
  EXPECT_EQ(result.tokens[0].ptx_line, 5);
  EXPECT_EQ(result.tokens[0].source.line, 0);
  EXPECT_EQ(result.tokens[1].source.file, 1);
  EXPECT_EQ(result.tokens[1].source.line, 12);
  EXPECT_EQ(result.tokens[1].source.caller_file, 0);
  EXPECT_EQ(result.tokens[2].source.file, 2);
  EXPECT_EQ(result.tokens[2].source.line, 7);
  EXPECT_EQ(result.tokens[2].source.caller_file, 1);
  EXPECT_EQ(result.tokens[2].source.caller_line, 13);
}

TEST(Tokens, RefuseWhatHasNoEnd) {
  EXPECT_THROW(tokenize("a /* b"), PtxError);
  EXPECT_THROW(tokenize("\"abc"), PtxError);
  EXPECT_THROW(tokenize(".section .debug {\n"), PtxError);
}

}  // namespace
}  // namespace gpusim::ptx
