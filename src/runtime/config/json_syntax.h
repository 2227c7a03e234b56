// What is wrong with a text that is not JSON, in one plain sentence: a translation of the parser library's message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trifold {

struct SyntaxError {
  std::size_t offset = 0;  // where the token starts that does not fit
  std::string message;
};

// `position`: characters read; `last_token`: the last of them, with control characters as <U+000A>; `message`: what().
SyntaxError explain_syntax_error(std::string_view text, std::size_t position, const std::string& last_token,
                                 const std::string& message);

}  // namespace trifold
