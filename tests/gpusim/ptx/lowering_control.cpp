// Branches, calls and returns. A call becomes the body of the function: its parameters are stretches of local memory
// that the caller filled, its returns branches to the end.
#include "ptx/assertion.h"
#include "ptx/lowering.h"
#include "ptx/memory_access.h"

namespace gpusim::ptx {
namespace {

constexpr std::size_t kDeepestInlining = 32;

std::vector<std::string_view> names_in(std::span<const Token> text) {
  std::vector<std::string_view> names;
  for (const Token& token : text)
    if (token.text != "(" && token.text != ")" && token.text != ",") names.push_back(token.text);
  return names;
}

}  // namespace

void Lowering::lower_branch() {
  take("uni");  // a promise that all lanes agree: nothing to gain from it here
  expect_arguments(1, 1);
  Instruction branch = start();
  branch.control = Control::branch;
  scopes_.back().fixups.push_back({static_cast<std::uint32_t>(kernel_.code.size()), -1, argument(0).front().text});
  emit(branch);
}

void Lowering::lower_branch_table() {
  if (!take("idx")) unsupported("brx without .idx");
  take("uni");
  expect_arguments(2, 2);
  const std::string_view name = argument(1).front().text;
  const std::vector<std::string_view>* targets = nullptr;
  for (std::size_t level = scopes_.size(); level-- > 0 && targets == nullptr;) {
    if (const auto found = scopes_[level].branch_targets.find(name); found != scopes_[level].branch_targets.end())
      targets = &found->second;
    if (scopes_[level].is_function) break;
  }
  if (targets == nullptr) unsupported("branch table '" + std::string(name) + "' is not defined");
  Instruction branch = start();
  branch.control = Control::branch_table;
  branch.a = source(0, Type::u32);
  branch.target = static_cast<std::uint32_t>(kernel_.branch_tables.size());
  kernel_.branch_tables.emplace_back(targets->size());
  for (std::size_t entry = 0; entry < targets->size(); ++entry) {
    scopes_.back().fixups.push_back(
        {static_cast<std::uint32_t>(kernel_.code.size()), static_cast<std::int32_t>(entry), (*targets)[entry]});
  }
  emit(branch);
}

void Lowering::lower_return() {
  take("uni");
  Instruction leave = start();
  if (returns_.empty()) {
    leave.control = Control::exit;
  } else {
    leave.control = Control::branch;
    returns_.back().push_back(static_cast<std::uint32_t>(kernel_.code.size()));
  }
  emit(leave);
}

Symbol Lowering::call_slot(std::string_view name) {
  const Symbol symbol = find(name);
  if (symbol.kind != Symbol::Kind::call_slot) unsupported("call with '" + std::string(name) + "', which is no .param");
  return symbol;
}

void Lowering::lower_call() {
  take("uni");
  for (const auto& [modifier, taken] : modifiers_)
    if (!taken) unsupported("modifier '." + std::string(modifier) + "' is not supported");
  expect_arguments(1, 3);
  std::size_t at = 0;
  std::vector<std::string_view> results;
  if (argument(0).front().text == "(") results = names_in(argument(at++));
  const std::string_view name = argument(at).front().text;
  std::vector<std::string_view> parameters;
  if (at + 1 < argument_count()) parameters = names_in(argument(at + 1));
  if (find(name).kind == Symbol::Kind::reg) unsupported("indirect calls are not supported");
  const auto found = kernel_.module->functions.find(name);
  if (found == kernel_.module->functions.end()) unsupported("function '" + std::string(name) + "' is not known");
  if (name == "__assertfail") return lower_assert_call(parameters);
  if (!found->second.is_defined)
    unsupported("function '" + std::string(name) + "' has no body (printf and malloc are not supported)");
  // A guarded call is a branch around it.
  const bool is_guarded = guard_.index != 0 || guard_.negated;
  const auto skip = static_cast<std::uint32_t>(kernel_.code.size());
  if (is_guarded) {
    Instruction branch = start();
    branch.guard_flip = ~branch.guard_flip;
    branch.control = Control::branch;
    emit(branch);
  }
  inline_call(found->second, parameters, results);
  if (is_guarded) kernel_.code[skip].target = static_cast<std::uint32_t>(kernel_.code.size());
}

void Lowering::lower_assert_call(const std::vector<std::string_view>& arguments) {
  if (arguments.size() < 3) unsupported("__assertfail");
  Instruction check = start();
  check.handler = fail_assertion;
  check.immediate = static_cast<std::int64_t>(call_slot(arguments[0]).address);
  emit(check);
}

void Lowering::inline_call(const Function& function, const std::vector<std::string_view>& arguments,
                           const std::vector<std::string_view>& results) {
  if (returns_.size() >= kDeepestInlining) unsupported("recursion, or calls nested too deeply");
  if (arguments.size() != function.parameters.size() || results.size() != function.results.size())
    unsupported("call with another number of arguments than '" + std::string(function.name) + "' has");
  Scope scope;
  scope.is_function = true;
  for (std::size_t at = 0; at < arguments.size(); ++at)
    scope.symbols[function.parameters[at].name] = call_slot(arguments[at]);
  for (std::size_t at = 0; at < results.size(); ++at) scope.symbols[function.results[at].name] = call_slot(results[at]);

  const Statement* caller = statement_;
  const std::string_view caller_text = text_;
  scopes_.push_back(std::move(scope));
  returns_.emplace_back();
  lower_body(function);
  for (const std::uint32_t leave : returns_.back())
    kernel_.code[leave].target = static_cast<std::uint32_t>(kernel_.code.size());
  returns_.pop_back();
  close_scope();
  statement_ = caller;
  text_ = caller_text;
}

}  // namespace gpusim::ptx
