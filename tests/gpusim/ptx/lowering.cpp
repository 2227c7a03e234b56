// The instruction at hand: its modifiers, operands and constants.
#include "ptx/lowering.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "ptx/location.h"

namespace gpusim::ptx {

void Lowering::unsupported(const std::string& what) const {
  const int line = statement_ == nullptr || statement_->tokens.empty() ? 0 : statement_->tokens.front().ptx_line;
  throw PtxError{"kernel " + std::string(kernel_.function->name) + ", PTX line " + std::to_string(line) + ": " + what +
                 " in '" + one_line(text_) + "'"};
}

void Lowering::split_modifiers(std::string_view mnemonic) {
  modifiers_.clear();
  std::size_t dot = mnemonic.find('.');
  opcode_ = mnemonic.substr(0, dot);
  while (dot != std::string_view::npos) {
    const std::size_t next = mnemonic.find('.', dot + 1);
    modifiers_.emplace_back(mnemonic.substr(dot + 1, next == std::string_view::npos ? next : next - dot - 1), false);
    dot = next;
  }
}

void Lowering::split_arguments(std::span<const Token> tokens) {
  arguments_.clear();
  if (tokens.empty()) return;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < tokens.size(); ++at) {
    const std::string_view text = tokens[at].text;
    if (text == "{" || text == "[" || text == "(") ++depth;
    if (text == "}" || text == "]" || text == ")") --depth;
    if (text == "," && depth == 0) {
      arguments_.push_back(tokens.subspan(begin, at - begin));
      begin = at + 1;
    }
  }
  arguments_.push_back(tokens.subspan(begin));
}

void Lowering::lower_instruction(const Statement& statement) {
  std::span<const Token> tokens = statement.tokens;
  guard_ = {};
  if (tokens[0].text == "@") {
    const std::size_t name = tokens.size() > 1 && tokens[1].text == "!" ? 2 : 1;
    if (tokens.size() < name + 2) unsupported("guard without an instruction");
    guard_ = predicate_source(tokens.subspan(1, name));
    tokens = tokens.subspan(name + 1);
  }
  split_modifiers(tokens[0].text);
  split_arguments(tokens.subspan(1));
  const LowerFunction lower = find_family(opcode_);
  if (lower == nullptr) unsupported("opcode '" + std::string(opcode_) + "' is not supported");
  const std::string_view opcode = opcode_;
  lower(*this);
  if (opcode == "call") return;  // the inlined body has overwritten the state of the instruction
  for (const auto& [modifier, taken] : modifiers_)
    if (!taken) unsupported("modifier '." + std::string(modifier) + "' is not supported");
}

bool Lowering::take(std::string_view modifier) {
  for (auto& [name, taken] : modifiers_) {
    if (taken || name != modifier) continue;
    taken = true;
    return true;
  }
  return false;
}

int Lowering::take_one_of(std::initializer_list<std::string_view> modifiers) {
  int index = 0;
  for (const std::string_view modifier : modifiers) {
    if (take(modifier)) return index;
    ++index;
  }
  return -1;
}

std::string_view Lowering::take_any() {
  for (auto& [name, taken] : modifiers_) {
    if (taken) continue;
    taken = true;
    return name;
  }
  return {};
}

Type Lowering::take_type() {
  for (auto& [name, taken] : modifiers_) {
    if (taken) continue;
    const Type type = parse_type(name);
    if (type == Type::none) continue;
    taken = true;
    return type;
  }
  unsupported("no type");
}

Rounding Lowering::take_rounding(bool* given) {
  const int index = take_one_of({"rn", "rz", "rm", "rp"});
  if (given != nullptr) *given = index >= 0;
  constexpr std::array kModes{Rounding::nearest, Rounding::zero, Rounding::down, Rounding::up};
  return kModes[static_cast<std::size_t>(std::max(index, 0))];
}

std::span<const Token> Lowering::argument(std::size_t index) const {
  if (index >= arguments_.size() || arguments_[index].empty()) unsupported("missing operand");
  return arguments_[index];
}

void Lowering::expect_arguments(std::size_t least, std::size_t most) const {
  if (arguments_.size() < least || arguments_.size() > most) unsupported("unexpected number of operands");
}

bool Lowering::is_vector(std::size_t index) const {
  return argument(index).front().text == "{";
}

std::vector<std::span<const Token>> Lowering::elements(std::size_t index) const {
  std::span<const Token> text = argument(index);
  if (text.front().text != "{" || text.back().text != "}") unsupported("expected a vector operand");
  text = text.subspan(1, text.size() - 2);
  std::vector<std::span<const Token>> list;
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && text[at].text != ",") continue;
    list.push_back(text.subspan(begin, at - begin));
    begin = at + 1;
  }
  return list;
}

std::uint64_t Lowering::literal(std::string_view text, bool negative, Type type) const {
  std::uint64_t value = 0;
  const bool has_prefix = text.size() > 2 && text[0] == '0';
  const bool is_float_bits = has_prefix && (text[1] | 0x20) == 'f';
  const bool is_double_bits = has_prefix && (text[1] | 0x20) == 'd';
  if (parse_integer(text, value)) {
    if (is_float_bits || is_double_bits) {
      if (negative) unsupported("negated literal");
      if (type == Type::f64 && is_float_bits)
        return std::bit_cast<std::uint64_t>(double{std::bit_cast<float>(static_cast<std::uint32_t>(value))});
      if (type == Type::f32 && is_double_bits)
        return std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(value)));
    } else if (type == Type::f32 || type == Type::f64) {
      unsupported("integer literal for a floating-point operand");
    }
    return negative ? 0 - value : value;
  }
  char* end = nullptr;
  const std::string copy(text);
  const double number = std::strtod(copy.c_str(), &end);
  if (*end != '\0' || (type != Type::f32 && type != Type::f64)) unsupported("literal '" + copy + "'");
  const double with_sign = negative ? -number : number;
  return type == Type::f64 ? std::bit_cast<std::uint64_t>(with_sign)
                           : std::bit_cast<std::uint32_t>(static_cast<float>(with_sign));
}

Operand Lowering::constant(std::uint64_t bits, Type type) {
  const bool wide = bytes_of(type) == 8;
  if (!wide) bits &= 0xffffffffU;
  const auto [place, is_new] = constants_.try_emplace({bits, wide});
  if (is_new) {
    const std::size_t offset = kernel_.constants.size();
    kernel_.constants.resize(offset + (wide ? kRow64 : kRow32));
    std::byte* row = kernel_.constants.data() + offset;
    for (std::size_t lane = 0; lane < kLanes; ++lane) std::memcpy(row + lane * (wide ? 8 : 4), &bits, wide ? 8 : 4);
    place->second = Operand::in_constants(static_cast<std::uint32_t>(offset));
  }
  return place->second;
}

Operand Lowering::address_constant(const Symbol& symbol, std::uint64_t offset, Type type) {
  if (symbol.kind != Symbol::Kind::dynamic_shared) return constant(symbol.address + offset, type);
  const bool wide = bytes_of(type) == 8;
  const std::size_t at = kernel_.constants.size();
  kernel_.constants.resize(at + (wide ? kRow64 : kRow32));
  dynamic_starts_.push_back({static_cast<std::uint32_t>(at), wide, offset});
  return Operand::in_constants(static_cast<std::uint32_t>(at));
}

Operand Lowering::source(std::span<const Token> text, Type type) {
  if (text.empty()) unsupported("missing operand");
  const bool negative = text[0].text == "-";
  if (negative || text[0].text == "+") text = text.subspan(1);
  if (text.empty()) unsupported("missing operand");
  const std::string_view name = text[0].text;
  if (name[0] >= '0' && name[0] <= '9') {
    if (text.size() != 1) unsupported("constant expression");
    return constant(literal(name, negative, type), type);
  }
  if (negative) unsupported("negated operand");
  const Symbol symbol = find(name);
  if (symbol.kind == Symbol::Kind::none) {
    const Operand row = name == "WARP_SZ" ? constant(kLanes, Type::u32) : special_register(name);
    if (!row.exists()) unsupported("unknown name '" + std::string(name) + "'");
    if (bytes_of(type) == 8 || text.size() != 1) unsupported("special register as a 64-bit operand");
    if (name.starts_with("%envreg")) kernel_.needs_grid_workspace = true;
    return row;
  }
  if (symbol.kind == Symbol::Kind::reg) {
    if (text.size() != 1) unsupported("operand expression");
    if (symbol.type == Type::pred) unsupported("predicate as an operand");
    if ((bytes_of(symbol.type) == 8) != (bytes_of(type) == 8)) unsupported("operand of another width");
    return symbol.row;
  }
  std::uint64_t offset = 0;
  if (text.size() == 3 && text[1].text == "+") {
    if (!parse_integer(text[2].text, offset)) unsupported("address expression");
  } else if (text.size() != 1) {
    unsupported("address expression");
  }
  return address_constant(symbol, offset, type);
}

Operand Lowering::destination(std::span<const Token> text, Type type) {
  if (text.size() != 1) unsupported("destination");
  const Symbol symbol = find(text[0].text);
  if (symbol.kind != Symbol::Kind::reg || symbol.type == Type::pred) unsupported("destination is not a register");
  if ((bytes_of(symbol.type) == 8) != (bytes_of(type) == 8)) unsupported("destination of another width");
  return symbol.row;
}

std::pair<Operand, Type> Lowering::any_width(std::span<const Token> text) {
  if (text.size() == 1) {
    const Symbol symbol = find(text[0].text);
    if (symbol.kind == Symbol::Kind::reg && symbol.type != Type::pred) return {symbol.row, symbol.type};
  }
  return {Operand{}, Type::none};
}

bool Lowering::is_predicate(std::span<const Token> text) {
  if (text.empty()) return false;
  const Symbol symbol = find(text.back().text);
  return symbol.kind == Symbol::Kind::reg && symbol.type == Type::pred;
}

Predicate Lowering::predicate_source(std::size_t index) {
  return predicate_source(argument(index));
}

Predicate Lowering::predicate_source(std::span<const Token> text) {
  Predicate result{.index = 0, .exists = true, .negated = false};
  if (text[0].text == "!") {
    result.negated = true;
    text = text.subspan(1);
  }
  std::uint64_t value = 0;
  const bool minus = text.size() == 2 && text[0].text == "-";
  if (parse_integer(text[minus ? 1 : 0].text, value)) {
    result.negated ^= value == 0;  // predicate 0 is always true
    return result;
  }
  if (!is_predicate(text) || text.size() != 1) unsupported("expected a predicate");
  result.index = find(text[0].text).predicate;
  return result;
}

Predicate Lowering::predicate_destination(std::span<const Token> text) {
  if (is_sink(text)) return {};
  if (text.size() != 1 || !is_predicate(text)) unsupported("expected a predicate to write");
  return {.index = find(text[0].text).predicate, .exists = true, .negated = false};
}

std::pair<std::span<const Token>, std::span<const Token>> Lowering::split_pair(std::span<const Token> text) {
  for (std::size_t at = 0; at < text.size(); ++at)
    if (text[at].text == "|") return {text.subspan(0, at), text.subspan(at + 1)};
  return {text, {}};
}

MemoryArgument Lowering::memory(std::size_t index) {
  std::span<const Token> text = argument(index);
  if (text.size() < 3 || text.front().text != "[" || text.back().text != "]") unsupported("expected an address");
  text = text.subspan(1, text.size() - 2);
  MemoryArgument result;
  const std::string_view name = text[0].text;
  for (std::size_t at = 1; at < text.size();) {
    bool negative = false;
    for (; at < text.size() && (text[at].text == "+" || text[at].text == "-"); ++at) negative ^= text[at].text == "-";
    std::uint64_t value = 0;
    if (at >= text.size() || !parse_integer(text[at].text, value)) unsupported("address");
    result.offset += static_cast<std::int64_t>(negative ? 0 - value : value);
    ++at;
  }
  std::uint64_t number = 0;
  if (parse_integer(name, number)) {
    result.address = constant(number, Type::u64);
    result.constant = number;
    result.symbol = Symbol::Kind::global;
    return result;
  }
  const Symbol symbol = find(name);
  if (symbol.kind == Symbol::Kind::none) unsupported("unknown name '" + std::string(name) + "'");
  if (symbol.kind == Symbol::Kind::reg) {
    if (symbol.type == Type::pred || bytes_of(symbol.type) < 4) unsupported("address register");
    result.address = symbol.row;
    result.is_narrow = bytes_of(symbol.type) == 4;
    return result;
  }
  result.symbol = symbol.kind;
  result.constant = symbol.address;
  result.address = address_constant(symbol, 0, Type::u64);
  return result;
}

std::uint64_t Lowering::constant_integer(std::size_t index) const {
  std::span<const Token> text = argument(index);
  const bool negative = text[0].text == "-";
  if (negative) text = text.subspan(1);
  std::uint64_t value = 0;
  if (text.size() != 1 || !parse_integer(text[0].text, value)) unsupported("expected an immediate");
  return negative ? 0 - value : value;
}

Instruction Lowering::start() const {
  Instruction instruction;
  instruction.guard = guard_.index;
  instruction.guard_flip = guard_.negated ? kAllLanes : 0U;
  return instruction;
}

void Lowering::emit(Instruction instruction) {
  Origin origin{.text = text_, .ptx_line = 0, .source = {}};
  if (statement_ != nullptr && !statement_->tokens.empty()) {
    origin.ptx_line = statement_->tokens.front().ptx_line;
    origin.source = statement_->tokens.front().source;
  }
  kernel_.code.push_back(instruction);
  kernel_.origins.push_back(origin);
}

std::uint32_t Lowering::operand_list(const std::vector<Operand>& operands) {
  const auto first = static_cast<std::uint32_t>(kernel_.operands.size());
  kernel_.operands.insert(kernel_.operands.end(), operands.begin(), operands.end());
  return first;
}

LowerFunction find_family(std::string_view opcode) {
  static const auto& table = *[] {
    auto* map = new std::unordered_map<std::string_view, LowerFunction>;
    for (const auto family : {arithmetic_family(), function_family(), bits_family(), carry_family(), compare_family(),
                              convert_family(), move_family(), memory_family(), atomic_family(), warp_family(),
                              matrix_family(), async_copy_family(), control_family()}) {
      for (const Family& row : family) map->emplace(row.opcode, row.lower);
    }
    return map;
  }();
  const auto found = table.find(opcode);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace gpusim::ptx
