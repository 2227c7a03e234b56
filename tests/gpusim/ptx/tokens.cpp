// The tokenizer. Directives that end with their line (.version, .target, .address_size, .file, .loc) and debug sections
// leave no tokens.
#include "ptx/tokens.h"

#include <cctype>
#include <charconv>

#include "ptx/kernel.h"

namespace gpusim::ptx {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
}
bool is_space(char c) {
  return std::isspace(static_cast<unsigned char>(c));
}
bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c));
}

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view text) : text_(text) {}

  TokenizedText run() {
    while (at_ < text_.size()) step();
    return std::move(result_);
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  [[noreturn]] void fail(const std::string& what) const {
    throw PtxError{"PTX line " + std::to_string(line_) + ": " + what};
  }

  void advance_to(std::size_t end) {
    for (; at_ < end; ++at_)
      if (text_[at_] == '\n') ++line_;
  }

  void skip_past(std::string_view end, const char* what) {
    const std::size_t found = text_.find(end, at_ + 1);
    if (found == std::string_view::npos) fail(std::string(what) + " without an end");
    advance_to(found + end.size());
  }

  std::string_view rest_of_line() const { return text_.substr(at_, text_.find('\n', at_) - at_); }

  void push(std::size_t begin) { result_.tokens.push_back({text_.substr(begin, at_ - begin), line_, source_}); }

  void step() {
    const char c = peek();
    if (c == '\n') {
      ++line_;
      ++at_;
      line_start_ = true;
    } else if (is_space(c)) {
      ++at_;
    } else if (c == '/' && peek(1) == '/') {
      at_ += rest_of_line().size();
    } else if (c == '/' && peek(1) == '*') {
      skip_past("*/", "comment");
    } else if (c == '.' && line_start_ && line_directive()) {
      // consumed
    } else {
      line_start_ = false;
      token(c);
    }
  }

  void token(char c) {
    const std::size_t begin = at_;
    if (c == '"') {
      const std::size_t end = text_.find('"', at_ + 1);
      if (end == std::string_view::npos) fail("string without an end");
      at_ = end + 1;
    } else if (is_word(c)) {
      word();
    } else {
      ++at_;
    }
    push(begin);
  }

  void word() {
    const std::size_t begin = at_;
    for (;;) {
      if (is_word(peek())) {
        ++at_;
      } else if (peek() == ':' && peek(1) == ':') {
        at_ += 2;  // ".L2::128B"
      } else if ((peek() == '-' || peek() == '+') && is_exponent(text_.substr(begin, at_ - begin))) {
        ++at_;  // "1.5e-7"
      } else {
        return;
      }
    }
  }

  static bool is_exponent(std::string_view word) {
    return word.size() > 2 && is_digit(word[0]) && word.find('.') != std::string_view::npos &&
           (word.back() == 'e' || word.back() == 'E');
  }

  // True when the line was a directive that ends with it.
  bool line_directive() {
    const std::string_view line = rest_of_line();
    const std::string_view name = line.substr(0, line.find_first_of(" \t"));
    if (name == ".section") {
      skip_past("}", "section");
      return true;
    }
    if (name == ".loc") {
      source_ = {};
      numbers(line.substr(name.size()), source_.file, source_.line);
      constexpr std::string_view kInlined = "inlined_at";
      if (const std::size_t at = line.find(kInlined); at != std::string_view::npos)
        numbers(line.substr(at + kInlined.size()), source_.caller_file, source_.caller_line);
    } else if (name == ".file") {
      file_name(line.substr(name.size()));
    } else if (name == ".target") {
      const std::size_t sm = line.find("sm_");
      if (sm == std::string_view::npos) fail("target without sm_");
      std::from_chars(line.data() + sm + 3, line.data() + line.size(), result_.target);
    } else if (name != ".version" && name != ".address_size") {
      return false;
    }
    at_ += line.size();
    return true;
  }

  void numbers(std::string_view text, int& first, int& second) const {
    const char* end = text.data() + text.size();
    const char* at = text.data();
    for (int* number : {&first, &second}) {
      while (at < end && is_space(*at)) ++at;
      const auto [next, error] = std::from_chars(at, end, *number);
      if (error != std::errc{}) fail("cannot read " + std::string(text));
      at = next;
    }
  }

  void file_name(std::string_view text) {
    int number = 0;
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    std::from_chars(text.data(), text.data() + text.size(), number);
    const std::size_t open = text.find('"');
    const std::size_t close = text.find('"', open + 1);
    if (open == std::string_view::npos || close == std::string_view::npos) fail(".file without a name");
    result_.files[number] = std::string(text.substr(open + 1, close - open - 1));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_start_ = true;
  SourceLine source_;
  TokenizedText result_;
};

}  // namespace

TokenizedText tokenize(std::string_view text) {
  return Tokenizer(text).run();
}

}  // namespace gpusim::ptx
