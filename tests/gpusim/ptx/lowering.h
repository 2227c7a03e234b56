// From a function's statements to the instructions of a kernel. Device functions are inlined at their calls. An opcode
// belongs to a family (arithmetic.cpp, memory.cpp, ...), whose function asks here for the modifiers and operands of the
// instruction at hand; a modifier that nobody asked for is an error, so nothing is ever ignored.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ptx/instruction.h"
#include "ptx/lowered_kernel.h"
#include "ptx/module.h"
#include "ptx/special.h"

namespace gpusim::ptx {

class Lowering;
using LowerFunction = void (*)(Lowering&);
struct Family {
  std::string_view opcode;
  LowerFunction lower;
};

struct Symbol {
  enum class Kind { none, reg, shared, dynamic_shared, local, call_slot, parameter, global };
  Kind kind = Kind::none;
  Type type = Type::none;  // of a register
  Operand row;             // of a register that is no predicate
  std::uint16_t predicate = 0;
  std::uint64_t address = 0;  // in its space
  std::size_t bytes = 0;
};

struct MemoryArgument {
  Operand address;
  bool is_narrow = false;  // 32-bit address register
  std::int64_t offset = 0;
  Symbol::Kind symbol = Symbol::Kind::none;  // none: a register holds the address
  std::uint64_t constant = 0;                // the address, when a symbol or number gives it
};

class Lowering {
 public:
  explicit Lowering(PtxKernel& kernel) : kernel_(kernel) {}
  void run();  // throws PtxError

  // --- what families use ---
  std::string_view opcode() const { return opcode_; }
  bool take(std::string_view modifier);           // true when the instruction has it and nobody took it yet
  Type take_type();                               // the next type among the modifiers; error without one
  Rounding take_rounding(bool* given = nullptr);  // .rn .rz .rm .rp
  // The first of these modifiers that is there: its place in the list; -1: none.
  int take_one_of(std::initializer_list<std::string_view> modifiers);
  std::string_view take_any();  // the next modifier, whatever it is; empty: none left
  [[noreturn]] void unsupported(const std::string& what) const;

  std::size_t argument_count() const { return arguments_.size(); }
  void expect_arguments(std::size_t least, std::size_t most) const;
  std::span<const Token> argument(std::size_t index) const;
  bool is_vector(std::size_t index) const;
  std::vector<std::span<const Token>> elements(std::size_t index) const;  // of {a, b}

  Operand source(std::size_t index, Type type) { return source(argument(index), type); }
  Operand source(std::span<const Token> text, Type type);
  Operand destination(std::size_t index, Type type) { return destination(argument(index), type); }
  Operand destination(std::span<const Token> text, Type type);
  // For instructions whose operands may be wider than their type: the row and the type it was declared with.
  std::pair<Operand, Type> any_width(std::span<const Token> text);
  Predicate predicate_source(std::size_t index);
  Predicate predicate_source(std::span<const Token> text);
  Predicate predicate_destination(std::span<const Token> text);
  bool is_predicate(std::span<const Token> text);
  // "a|b" to a and b; b is empty without the bar.
  static std::pair<std::span<const Token>, std::span<const Token>> split_pair(std::span<const Token> text);
  MemoryArgument memory(std::size_t index);
  bool is_sink(std::span<const Token> text) const { return text.size() == 1 && text[0].text == "_"; }
  std::uint64_t constant_integer(std::size_t index) const;  // an immediate; error otherwise

  Operand constant(std::uint64_t bits, Type type);
  Operand new_register(Type type);
  std::uint32_t operand_list(const std::vector<Operand>& operands);
  PtxKernel& kernel() { return kernel_; }

  Instruction start() const;  // with the guard of the statement
  void emit(Instruction instruction);

  // --- control flow (lowering_control.cpp) ---
  void lower_branch();
  void lower_branch_table();
  void lower_call();
  void lower_return();

  Symbol find(std::string_view name);

 private:
  struct RegisterRange {  // %r<12>
    std::string_view prefix;
    Type type = Type::none;
    std::vector<Symbol> symbols;  // made when first used
  };
  struct Fixup {
    std::uint32_t instruction = 0;
    std::int32_t table_entry = -1;  // -1: the branch itself
    std::string_view label;
  };
  struct Scope {
    bool is_function = false;
    std::unordered_map<std::string_view, Symbol> symbols;
    std::vector<RegisterRange> ranges;
    std::unordered_map<std::string_view, std::uint32_t> labels;
    std::unordered_map<std::string_view, std::vector<std::string_view>> branch_targets;
    std::vector<Fixup> fixups;
  };
  struct DynamicStart {  // constants that hold an address in dynamic shared memory
    std::uint32_t offset = 0;
    bool wide = false;
    std::uint64_t addend = 0;
  };

  void lower_body(const Function& function);
  void collect_branch_targets(const Function& function);
  void lower_declaration(const Statement& statement);
  void lower_instruction(const Statement& statement);
  void split_modifiers(std::string_view mnemonic);
  void split_arguments(std::span<const Token> tokens);
  void close_scope();
  void inline_call(const Function& function, const std::vector<std::string_view>& arguments,
                   const std::vector<std::string_view>& results);
  void lower_assert_call(const std::vector<std::string_view>& arguments);
  Symbol call_slot(std::string_view name);
  Symbol new_register_symbol(Type type);
  Symbol find_in_range(RegisterRange& range, std::string_view name);
  std::uint64_t allocate_local(std::size_t bytes, std::size_t alignment);
  Operand address_constant(const Symbol& symbol, std::uint64_t offset, Type type);
  std::uint64_t literal(std::string_view text, bool negative, Type type) const;

  PtxKernel& kernel_;
  std::vector<Scope> scopes_;
  std::vector<std::vector<std::uint32_t>> returns_;  // branches to the end of each function being inlined
  std::map<std::pair<std::uint64_t, bool>, Operand> constants_;
  std::unordered_map<std::string_view, std::uint64_t> module_shared_;  // offsets of the module's variables in use
  std::vector<DynamicStart> dynamic_starts_;
  std::size_t shared_alignment_ = 16;  // of the dynamic part

  const Statement* statement_ = nullptr;
  std::string_view text_;  // of the statement
  std::string_view opcode_;
  std::vector<std::pair<std::string_view, bool>> modifiers_;  // taken?
  std::vector<std::span<const Token>> arguments_;
  Predicate guard_;
};

// All families: null for an unknown opcode.
LowerFunction find_family(std::string_view opcode);
std::span<const Family> arithmetic_family();
std::span<const Family> function_family();
std::span<const Family> bits_family();
std::span<const Family> carry_family();
std::span<const Family> compare_family();
std::span<const Family> convert_family();
std::span<const Family> move_family();
std::span<const Family> memory_family();
std::span<const Family> atomic_family();
std::span<const Family> warp_family();
std::span<const Family> matrix_family();
std::span<const Family> async_copy_family();
std::span<const Family> control_family();

}  // namespace gpusim::ptx
