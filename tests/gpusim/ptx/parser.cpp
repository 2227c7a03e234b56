// The module-level parser. Function bodies become statements here; what they mean is the lowering's business.
#include "ptx/parser.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "ptx/initialiser.h"

namespace gpusim::ptx {
namespace {

class Parser {
 public:
  explicit Parser(PtxModule& module) : module_(module), tokens_(module.tokenized.tokens) {}

  void run() {
    while (at_ < tokens_.size()) top_level();
    place_variables(module_, initialisers_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const int line = tokens_.empty() ? 0 : tokens_[std::min(at_, tokens_.size() - 1)].ptx_line;
    throw PtxError{"PTX line " + std::to_string(line) + ": " + what};
  }
  std::string_view current() const { return at_ < tokens_.size() ? tokens_[at_].text : std::string_view(); }
  std::string_view next() {
    if (at_ >= tokens_.size()) fail("unexpected end of the text");
    return tokens_[at_++].text;
  }
  bool take(std::string_view text) {
    if (current() != text) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view text) {
    if (!take(text)) fail("expected '" + std::string(text) + "', found '" + std::string(current()) + "'");
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    if (!parse_integer(current(), value)) fail("expected a number, found '" + std::string(current()) + "'");
    ++at_;
    return value;
  }
  bool at_directive() const { return !current().empty() && current().front() == '.'; }

  void top_level() {
    bool is_extern = false;
    for (;;) {
      if (take(".extern")) {
        is_extern = true;
      } else if (!take(".visible") && !take(".weak") && !take(".common")) {
        break;
      }
    }
    if (take(".entry")) {
      function(true);
    } else if (take(".func")) {
      function(false);
    } else if (take(".global") || take(".const")) {
      variable(is_extern);
    } else if (take(".shared")) {
      shared_variable(is_extern);
    } else if (take(".pragma")) {
      while (!take(";")) next();
    } else {
      fail("unknown directive '" + std::string(current()) + "'");
    }
  }

  Parameter parameter() {
    Parameter result;
    std::size_t element_bytes = 0;
    expect(".param");
    while (at_directive()) {
      const std::string_view word = next().substr(1);
      if (word == "align") {
        result.alignment = number();
      } else if (word == "ptr") {  // only says what it points to
        while (take(".global") || take(".shared") || take(".const") || take(".local")) continue;
        if (take(".align")) number();
      } else if (const Type type = parse_type(word); type != Type::none) {
        element_bytes = bytes_of(type);
        result.alignment = std::max(result.alignment, element_bytes);
      } else {
        fail("parameter attribute '." + std::string(word) + "' is not supported");
      }
    }
    if (element_bytes == 0) fail("parameter without a type");
    result.name = next();
    result.bytes = element_bytes;
    if (take("[")) {
      if (current() == "]") fail("parameter array without a size");
      result.bytes *= number();
      expect("]");
    }
    return result;
  }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> list;
    std::size_t offset = 0;
    expect("(");
    while (!take(")")) {
      Parameter one = parameter();
      offset = align_up(offset, one.alignment);
      one.offset = offset;
      offset += one.bytes;
      list.push_back(one);
      if (current() != ")") expect(",");
    }
    return list;
  }

  void skip_attribute() {  // .attribute(.managed) and the like
    expect("(");
    while (!take(")")) next();
  }

  void function(bool is_entry) {
    Function result;
    result.is_entry = is_entry;
    if (take(".attribute")) skip_attribute();
    if (current() == "(") result.results = parameters();
    result.name = next();
    if (current() == "(") result.parameters = parameters();
    while (at_directive()) function_directive(result);
    if (!take(";")) {
      body(result);
      result.is_defined = true;
    }
    if (result.is_defined || !module_.functions.contains(result.name))
      module_.functions[result.name] = std::move(result);
  }

  void function_directive(Function& result) {
    const std::string_view word = next();
    if (word == ".maxntid" || word == ".reqntid") {
      std::uint64_t threads = number();
      while (take(",")) threads *= number();
      result.max_threads = static_cast<int>(threads);
    } else if (word == ".minnctapersm" || word == ".maxnreg" || word == ".maxnctapersm") {
      number();
    } else if (word == ".pragma") {
      next();
      expect(";");
    } else if (word != ".noreturn") {
      fail("function directive '" + std::string(word) + "' is not supported");
    }
  }

  void body(Function& result) {
    expect("{");
    for (int depth = 1;;) {
      if (take("{")) {
        ++depth;
        result.body.push_back({Statement::Kind::open_scope, tokens_span(at_ - 1, at_)});
      } else if (take("}")) {
        if (--depth == 0) return;
        result.body.push_back({Statement::Kind::close_scope, tokens_span(at_ - 1, at_)});
      } else if (!take(";")) {
        statement(result);
      }
    }
  }

  void statement(Function& result) {
    const std::size_t begin = at_;
    if (at_ + 1 < tokens_.size() && tokens_[at_ + 1].text == ":") {
      at_ += 2;
      result.body.push_back({Statement::Kind::label, tokens_span(begin, begin + 1)});
      return;
    }
    const bool is_declaration = at_directive();
    while (current() != ";") next();
    result.body.push_back(
        {is_declaration ? Statement::Kind::declaration : Statement::Kind::instruction, tokens_span(begin, at_)});
    expect(";");
  }

  std::span<const Token> tokens_span(std::size_t begin, std::size_t end) const {
    return std::span<const Token>(tokens_).subspan(begin, end - begin);
  }

  struct Declared {
    std::string_view name;
    std::size_t element_bytes = 0;
    std::size_t alignment = 1;
    std::size_t count = 1;
    bool is_open = false;  // x[]
  };
  Declared declared() {
    Declared result;
    while (at_directive()) {
      const std::string_view word = next().substr(1);
      if (word == "align") {
        result.alignment = number();
      } else if (word == "attribute") {
        skip_attribute();
      } else if (const Type type = parse_type(word); type != Type::none) {
        result.element_bytes = bytes_of(type);
        result.alignment = std::max(result.alignment, result.element_bytes);
      } else {
        fail("variable attribute '." + std::string(word) + "' is not supported");
      }
    }
    if (result.element_bytes == 0) fail("variable without a type");
    result.name = next();
    while (take("[")) {
      if (current() == "]") {
        result.is_open = true;
      } else {
        result.count *= number();
      }
      expect("]");
    }
    return result;
  }

  void variable(bool is_extern) {
    const Declared head = declared();
    Initialiser initialiser{.variable = head.name, .element_bytes = head.element_bytes, .elements = {}};
    if (take("=")) elements(initialiser);
    expect(";");
    if (is_extern) fail("external variable '" + std::string(head.name) + "' (no relocatable device code)");
    const std::size_t count = head.is_open ? initialiser.elements.size() : head.count;
    if (initialiser.elements.size() > count) fail("too many initial values of '" + std::string(head.name) + "'");
    module_.variables[head.name] = {.address = 0, .bytes = count * head.element_bytes};
    initialisers_.push_back(std::move(initialiser));
  }

  void elements(Initialiser& initialiser) {
    if (!take("{")) {
      initialiser.elements.push_back(element());
      return;
    }
    do {
      if (current() == "{") fail("nested initial values are not supported");
      initialiser.elements.push_back(element());
    } while (take(","));
    expect("}");
  }

  // 12, -1, 0f..., name, name+4, generic(name), generic(name)+4, 0xFF00(name)
  InitialElement element() {
    InitialElement result;
    const bool negative = take("-");
    std::uint64_t value = 0;
    if (parse_integer(current(), value)) {
      ++at_;
      if (take("(")) {  // one byte of an address
        result.mask = value;
        result.symbol = symbol_reference(result.value);
        expect(")");
      } else {
        result.value = negative ? 0 - value : value;
      }
    } else {
      result.symbol = symbol_reference(result.value);
    }
    return result;
  }

  std::string_view symbol_reference(std::uint64_t& offset) {
    std::string_view name = next();
    if (name == "generic") {
      expect("(");
      name = next();
      expect(")");
    }
    if (take("+")) offset = number();
    return name;
  }

  void shared_variable(bool is_extern) {
    const Declared head = declared();
    expect(";");
    if (is_extern && head.is_open) {
      module_.dynamic_shared[head.name] = head.alignment;
    } else {
      module_.shared_variables[head.name] = {head.element_bytes * head.count, head.alignment};
    }
  }

  PtxModule& module_;
  const std::vector<Token>& tokens_;
  std::size_t at_ = 0;
  std::vector<Initialiser> initialisers_;
};

}  // namespace

bool parse_integer(std::string_view text, std::uint64_t& value) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return false;
  if (text.size() > 1 && text.back() == 'U') text.remove_suffix(1);
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const char mark = text[1] | 0x20;
    base = mark == 'x' || mark == 'f' || mark == 'd' ? 16 : mark == 'b' ? 2 : 8;
    text.remove_prefix(base == 8 ? 1 : 2);
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  return error == std::errc{} && end == text.data() + text.size();
}

void parse_module(PtxModule& module) {
  Parser(module).run();
}

}  // namespace gpusim::ptx
