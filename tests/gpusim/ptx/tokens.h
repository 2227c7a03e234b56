// PTX text to tokens. Words keep their dots ("ld.global.nc.f32" is one token); every other character is a token of its
// own. Each token knows its PTX line and, from the last .loc, its source line.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gpusim::ptx {

struct SourceLine {
  int file = 0;  // of .file; 0: unknown
  int line = 0;
  int caller_file = 0;  // where an inlined line was inlined; 0: it was not
  int caller_line = 0;
};

struct Token {
  std::string_view text;  // into the tokenized text, which must outlive it
  int ptx_line = 0;
  SourceLine source;
};

struct TokenizedText {
  std::vector<Token> tokens;
  std::map<int, std::string> files;  // by the number in .file
  int target = 0;                    // 75 of ".target sm_75"
};

// Throws PtxError for a comment, a string or a section without an end.
TokenizedText tokenize(std::string_view text);

}  // namespace gpusim::ptx
