// Declarations, names and labels: scopes nest inside a function; an inlined function sees only its own and the
// module's.
#include <algorithm>
#include <charconv>
#include <cstring>

#include "ptx/location.h"
#include "ptx/lowering.h"

namespace gpusim::ptx {
namespace {

std::string_view text_between(const Token& first, const Token& last) {
  return {first.text.data(), static_cast<std::size_t>(last.text.data() + last.text.size() - first.text.data())};
}

// ".reg.b32" is the same as ".reg .b32".
std::vector<std::string_view> declaration_words(const Statement& statement) {
  std::vector<std::string_view> words;
  for (const Token& token : statement.tokens) {
    std::string_view text = token.text;
    if (text.front() != '.') {
      words.push_back(text);
      continue;
    }
    while (!text.empty()) {
      const std::size_t next = std::min(text.find('.', 1), text.size());
      words.push_back(text.substr(0, next));
      text.remove_prefix(next);
    }
  }
  return words;
}

}  // namespace

Symbol Lowering::new_register_symbol(Type type) {
  Symbol symbol{.kind = Symbol::Kind::reg, .type = type, .row = {}, .predicate = 0, .address = 0, .bytes = 0};
  if (type == Type::pred) {
    if (kernel_.predicate_count > 0xffff) unsupported("more than 65535 predicates");
    symbol.predicate = static_cast<std::uint16_t>(kernel_.predicate_count++);
  } else {
    if (bytes_of(type) > 8) unsupported("register of type ." + std::string(name_of(type)));
    symbol.row = new_register(type);
  }
  return symbol;
}

Operand Lowering::new_register(Type type) {
  const auto offset = static_cast<std::uint32_t>(kernel_.register_bytes);
  kernel_.register_bytes += bytes_of(type) == 8 ? kRow64 : kRow32;
  ++kernel_.register_count;
  return Operand::in_registers(offset);
}

std::uint64_t Lowering::allocate_local(std::size_t bytes, std::size_t alignment) {
  const std::size_t offset = align_up(kernel_.local_bytes, std::max<std::size_t>(alignment, 1));
  kernel_.local_bytes = offset + bytes;
  return offset;
}

Symbol Lowering::find_in_range(RegisterRange& range, std::string_view name) {
  if (!name.starts_with(range.prefix) || name.size() == range.prefix.size()) return {};
  std::size_t index = 0;
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + range.prefix.size(), end, index);
  if (error != std::errc{} || at != end || index >= range.symbols.size()) return {};
  Symbol& symbol = range.symbols[index];
  if (symbol.kind == Symbol::Kind::none) symbol = new_register_symbol(range.type);
  return symbol;
}

Symbol Lowering::find(std::string_view name) {
  for (std::size_t level = scopes_.size(); level-- > 0;) {
    Scope& scope = scopes_[level];
    if (const auto found = scope.symbols.find(name); found != scope.symbols.end()) return found->second;
    for (RegisterRange& range : scope.ranges)
      if (Symbol symbol = find_in_range(range, name); symbol.kind != Symbol::Kind::none) return symbol;
    if (scope.is_function) break;
  }
  const PtxModule& module = *kernel_.module;
  Symbol symbol;
  if (const auto shared = module.shared_variables.find(name); shared != module.shared_variables.end()) {
    auto [place, is_new] = module_shared_.try_emplace(name);
    if (is_new) {
      place->second = align_up(kernel_.static_shared_bytes, shared->second.alignment);
      kernel_.static_shared_bytes = place->second + shared->second.bytes;
    }
    symbol.kind = Symbol::Kind::shared;
    symbol.address = place->second;
  } else if (const auto dynamic = module.dynamic_shared.find(name); dynamic != module.dynamic_shared.end()) {
    symbol.kind = Symbol::Kind::dynamic_shared;
    shared_alignment_ = std::max(shared_alignment_, dynamic->second);
  } else if (const auto global = module.variables.find(name); global != module.variables.end()) {
    symbol.kind = Symbol::Kind::global;
    symbol.address = global->second.address;
  }
  return symbol;
}

void Lowering::lower_declaration(const Statement& statement) {
  const std::vector<std::string_view> words = declaration_words(statement);
  const std::string_view space = words[0].substr(1);
  if (space == "pragma" || space == "branchtargets") return;  // hints; tables were collected before
  if (space != "reg" && space != "shared" && space != "local" && space != "param")
    unsupported("declaration '." + std::string(space) + "' is not supported");
  std::size_t at = 1;
  std::size_t alignment = 1;
  Type type = Type::none;
  const auto number = [&]() -> std::size_t {
    std::uint64_t value = 0;
    if (at >= words.size() || !parse_integer(words[at], value)) unsupported("expected a number");
    ++at;
    return value;
  };
  while (at < words.size() && words[at].front() == '.') {
    const std::string_view word = words[at++].substr(1);
    if (word == "align") {
      alignment = number();
    } else if (const Type known = parse_type(word); known != Type::none) {
      type = known;
    } else {
      unsupported("declaration attribute '." + std::string(word) + "' is not supported");
    }
  }
  if (type == Type::none) unsupported("declaration without a type");
  alignment = std::max(alignment, bytes_of(type));
  Scope& scope = scopes_.back();
  const auto is_next = [&](std::string_view word) { return at < words.size() && words[at] == word; };
  const auto expect = [&](std::string_view word) {
    if (!is_next(word)) unsupported("expected '" + std::string(word) + "'");
    ++at;
  };
  for (;;) {
    if (at >= words.size()) unsupported("declaration without a name");
    const std::string_view name = words[at++];
    if (space == "reg") {
      if (is_next("<")) {
        ++at;
        RegisterRange range{.prefix = name, .type = type, .symbols = {}};
        range.symbols.resize(number());
        scope.ranges.push_back(std::move(range));
        expect(">");
      } else {
        scope.symbols[name] = new_register_symbol(type);
      }
    } else {
      Symbol symbol;
      symbol.bytes = bytes_of(type);
      while (is_next("[")) {
        ++at;
        symbol.bytes *= number();
        expect("]");
      }
      if (space == "shared") {
        symbol.kind = Symbol::Kind::shared;
        symbol.address = align_up(kernel_.static_shared_bytes, alignment);
        kernel_.static_shared_bytes = symbol.address + symbol.bytes;
      } else {
        symbol.kind = space == "local" ? Symbol::Kind::local : Symbol::Kind::call_slot;
        symbol.address = allocate_local(symbol.bytes, alignment);
      }
      scope.symbols[name] = symbol;
    }
    if (at == words.size()) return;
    expect(",");
  }
}

void Lowering::collect_branch_targets(const Function& function) {
  for (std::size_t at = 0; at + 1 < function.body.size(); ++at) {
    const Statement& label = function.body[at];
    const Statement& table = function.body[at + 1];
    if (label.kind != Statement::Kind::label || table.kind != Statement::Kind::declaration ||
        table.tokens[0].text != ".branchtargets")
      continue;
    auto& targets = scopes_.back().branch_targets[label.tokens[0].text];
    for (const Token& token : table.tokens.subspan(1))
      if (token.text != ",") targets.push_back(token.text);
  }
}

void Lowering::close_scope() {
  Scope scope = std::move(scopes_.back());
  scopes_.pop_back();
  for (const Fixup& fixup : scope.fixups) {
    const auto label = scope.labels.find(fixup.label);
    if (label == scope.labels.end()) {
      if (scope.is_function) unsupported("label '" + std::string(fixup.label) + "' is not defined");
      scopes_.back().fixups.push_back(fixup);
      continue;
    }
    Instruction& branch = kernel_.code[fixup.instruction];
    if (fixup.table_entry < 0) {
      branch.target = label->second;
    } else {
      kernel_.branch_tables[branch.target][static_cast<std::size_t>(fixup.table_entry)] = label->second;
    }
  }
}

void Lowering::lower_body(const Function& function) {
  collect_branch_targets(function);
  for (const Statement& statement : function.body) {
    statement_ = &statement;
    text_ = text_between(statement.tokens.front(), statement.tokens.back());
    switch (statement.kind) {
      case Statement::Kind::open_scope:
        scopes_.emplace_back();
        break;
      case Statement::Kind::close_scope:
        close_scope();
        break;
      case Statement::Kind::label:
        scopes_.back().labels[statement.tokens[0].text] = static_cast<std::uint32_t>(kernel_.code.size());
        break;
      case Statement::Kind::declaration:
        lower_declaration(statement);
        break;
      case Statement::Kind::instruction:
        lower_instruction(statement);
        break;
    }
  }
}

void Lowering::run() {
  kernel_.display_name = demangled_without_arguments(kernel_.function->name);
  kernel_.constants.resize(kLaunchRowBytes);
  kernel_.register_bytes = kWarpRowBytes;
  Scope scope;
  scope.is_function = true;
  for (const Parameter& parameter : kernel_.function->parameters) {
    Symbol symbol;
    symbol.kind = Symbol::Kind::parameter;
    symbol.address = parameter.offset;
    symbol.bytes = parameter.bytes;
    scope.symbols[parameter.name] = symbol;
    kernel_.parameter_bytes = std::max(kernel_.parameter_bytes, parameter.offset + parameter.bytes);
  }
  scopes_.push_back(std::move(scope));
  lower_body(*kernel_.function);
  Instruction end;
  end.control = Control::exit;
  emit(end);
  close_scope();
  kernel_.static_shared_bytes = align_up(kernel_.static_shared_bytes, shared_alignment_);
  kernel_.local_bytes = align_up(kernel_.local_bytes, 16);
  for (const DynamicStart& start : dynamic_starts_) {
    const std::uint64_t value = kernel_.static_shared_bytes + start.addend;
    const std::size_t bytes = start.wide ? 8 : 4;
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      std::memcpy(kernel_.constants.data() + start.offset + lane * bytes, &value, bytes);
  }
  kernel_.hits.assign(kernel_.code.size(), 0);
}

}  // namespace gpusim::ptx
