// Initial values of global variables. Addresses of other variables are known only when all are placed, so the values
// are kept until then.
#pragma once

#include <string_view>
#include <vector>

#include "ptx/module.h"

namespace gpusim::ptx {

struct InitialElement {
  std::uint64_t value = 0;                 // or the offset from `symbol`
  std::string_view symbol;                 // empty: `value` alone
  std::uint64_t mask = ~std::uint64_t{0};  // 0xFF00: only that byte of the address
};

struct Initialiser {
  std::string_view variable;
  std::size_t element_bytes = 0;
  std::vector<InitialElement> elements;  // the rest of the variable is zero
};

// Allocates the variables of the module on its device and writes their values. Throws PtxError.
void place_variables(PtxModule& module, const std::vector<Initialiser>& initialisers);

}  // namespace gpusim::ptx
