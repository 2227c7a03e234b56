#include "runtime/config/json_syntax.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

namespace trifold {
namespace {

constexpr std::string_view kDelimiters = " \t\r\n,:[]{}\"";

std::size_t raw_length(const std::string& token) {
  std::size_t length = 0;
  for (std::size_t at = 0; at < token.size(); ++length) at += token.compare(at, 3, "<U+") == 0 ? 8 : 1;
  return length;
}

// Where the word starts whose last character read is before `position`, which may be a delimiter that ended it.
std::size_t word_start(std::string_view text, std::size_t position) {
  std::size_t start = std::min(position, text.size());
  if (start > 0 && kDelimiters.find(text[start - 1]) != std::string_view::npos) --start;
  while (start > 0 && kDelimiters.find(text[start - 1]) == std::string_view::npos) --start;
  return start;
}

std::string_view word_at(std::string_view text, std::size_t start) {
  return text.substr(start, text.find_first_of(kDelimiters, start) - start);
}

std::optional<std::string> between(const std::string& text, std::string_view begin, std::string_view end) {
  const std::size_t start = text.find(begin);
  if (start == std::string::npos) return std::nullopt;
  const std::size_t from = start + begin.size();
  const std::size_t stop = end.empty() ? std::string::npos : text.find(end, from);
  return text.substr(from, stop == std::string::npos ? std::string::npos : stop - from);
}

std::string plain_token(const std::string& token) {
  if (token == "string literal") return "a text";
  if (token == "number literal") return "a number";
  if (token == "true literal") return "true";
  if (token == "false literal") return "false";
  if (token == "null literal") return "null";
  if (token == "end of input") return "the end of the text";
  return token;
}

// What may stand where the parser was.
std::string expected_at(const std::string& context, const std::string& expected) {
  if (context == "object key") return "a key in double quotes or '}'";
  if (context == "object separator") return "':' after the key";
  if (context == "object") return "',' or '}'";
  if (context == "array") return "',' or ']'";
  if (expected == "end of input") return "the end of the text";
  return "a value";
}

char last_before(std::string_view text, std::size_t offset) {
  const std::size_t at = text.substr(0, offset).find_last_not_of(" \t\r\n");
  return at == std::string_view::npos ? '\0' : text[at];
}

std::string explain_token(const std::string& problem, std::string_view word) {
  if (problem == "invalid literal")
    return fmt::format("'{}' is not a value; keys and texts stand in double quotes", word);
  if (problem.starts_with("invalid string: missing closing quote") || problem.find("(LF)") != std::string::npos)
    return "the text that starts here has no closing quote in its line";
  if (problem.starts_with("invalid number")) return fmt::format("'{}' is not a number", word);
  if (problem.starts_with("invalid string: ")) return "in this text, " + problem.substr(16);
  if (problem.starts_with("invalid comment")) return "a comment is '//' to the end of the line, or '/*' to '*/'";
  return problem;
}

// The library keeps the text of a token only where it is a text or a number.
std::size_t token_start(std::string_view text, std::size_t position, const std::string& last_token,
                        const std::string& problem, const std::string& unexpected) {
  if (unexpected == "string literal" || problem.starts_with("invalid string"))
    return position - std::min(position, raw_length(last_token));
  if (unexpected.size() == 3 && unexpected.front() == '\'') return position - std::min<std::size_t>(position, 1);
  return word_start(text, position);
}

}  // namespace

SyntaxError explain_syntax_error(std::string_view text, std::size_t position, const std::string& last_token,
                                 const std::string& message) {
  SyntaxError error;
  const std::string context = between(message, "while parsing ", " - ").value_or("");
  const std::string problem = between(message, " - ", "; last read").value_or(message);
  const std::string expected = between(problem, "; expected ", "").value_or("");

  const std::optional<std::string> unexpected = between(problem, "unexpected ", "; expected");
  error.offset = token_start(text, position, last_token, problem, unexpected.value_or(""));
  if (message.find("number overflow") != std::string::npos) {
    error.message = fmt::format("the number {} is too large", last_token);
  } else if (unexpected) {
    if (*unexpected == "end of input") {
      error.offset = text.size();
      error.message = text.find_first_not_of(" \t\r\n") == std::string_view::npos
                          ? "the text is empty"
                          : fmt::format("the text ends where {} was expected", expected_at(context, expected));
    } else if ((*unexpected == "'}'" || *unexpected == "']'") && last_before(text, error.offset) == ',') {
      error.message = fmt::format("a comma before {}; remove it", *unexpected);
    } else {
      error.message =
          fmt::format("found {} where {} was expected", plain_token(*unexpected), expected_at(context, expected));
    }
  } else {
    error.message = explain_token(problem, word_at(text, error.offset));
  }
  return error;
}

}  // namespace trifold
