// A parsed PTX module: functions as lists of statements, variables with their place in memory. Lowered kernels hang off
// it. Statements are views into the text that the module keeps.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/kernel.h"
#include "ptx/tokens.h"
#include "ptx/types.h"

namespace gpusim::ptx {

struct Statement {
  enum class Kind { instruction, label, open_scope, close_scope, declaration };
  Kind kind = Kind::instruction;
  std::span<const Token> tokens;  // without the final ';' or ':'
};

struct Parameter {
  std::string_view name;
  std::size_t bytes = 0;
  std::size_t alignment = 1;
  std::size_t offset = 0;  // in the parameter block
};

struct Function {
  std::string_view name;
  bool is_entry = false;
  bool is_defined = false;  // false: only declared
  std::vector<Parameter> parameters;
  std::vector<Parameter> results;
  std::vector<Statement> body;
  int max_threads = 0;  // of .maxntid or .reqntid; 0: not given
};

struct SharedVariable {
  std::size_t bytes = 0;
  std::size_t alignment = 1;
};

inline std::size_t align_up(std::size_t value, std::size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// The integer of "12", "0x1F", "017", "0b11", "1U", or the bits of "0f3F800000" / "0d...". False: not such a token.
bool parse_integer(std::string_view text, std::uint64_t& value);

}  // namespace gpusim::ptx

namespace gpusim {

class PtxModule {
 public:
  PtxModule(std::string ptx, int device);  // parses
  ~PtxModule();                            // frees its global variables
  PtxModule(const PtxModule&) = delete;
  PtxModule& operator=(const PtxModule&) = delete;

  const int device;
  const std::string text;
  ptx::TokenizedText tokenized;
  std::map<std::string_view, ptx::Function> functions;
  std::map<std::string_view, GlobalVariable> variables;                    // .global and .const
  std::map<std::string_view, ptx::SharedVariable> shared_variables;        // of the module, not of a function
  std::map<std::string_view, std::size_t> dynamic_shared;                  // .extern .shared x[]: its alignment
  std::map<std::string, std::unique_ptr<PtxKernel>, std::less<>> kernels;  // those lowered so far
};

}  // namespace gpusim
