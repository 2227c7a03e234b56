// Placement and initial values of global variables.
#include "ptx/initialiser.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gpusim::ptx {
namespace {

std::uint64_t value_of(const PtxModule& module, const InitialElement& element) {
  if (element.symbol.empty()) return element.value;
  const auto found = module.variables.find(element.symbol);
  if (found == module.variables.end())
    throw PtxError{"initial value: the address of '" + std::string(element.symbol) + "' is not supported"};
  const std::uint64_t address = found->second.address + element.value;
  return (address & element.mask) >> (element.mask == 0 ? 0 : std::countr_zero(element.mask));
}

}  // namespace

void place_variables(PtxModule& module, const std::vector<Initialiser>& initialisers) {
  DeviceMemory& memory = DeviceMemory::get();
  for (auto& [name, variable] : module.variables) {
    const std::size_t bytes = std::max<std::size_t>(variable.bytes, 1);
    const std::string what = "__device__ variable " + std::string(name);
    void* place = memory.allocate(module.device, bytes, what.c_str());
    if (place == nullptr) throw PtxError{"no device memory for " + what};
    variable.address = reinterpret_cast<Address>(place);
    std::memset(memory.translate(variable.address), 0, bytes);
    memory.mark_written(variable.address, bytes);
  }
  for (const Initialiser& initialiser : initialisers) {
    std::byte* to = memory.translate(module.variables[initialiser.variable].address);
    for (const InitialElement& element : initialiser.elements) {
      const std::uint64_t value = value_of(module, element);
      std::memcpy(to, &value, initialiser.element_bytes);
      to += initialiser.element_bytes;
    }
  }
}

}  // namespace gpusim::ptx
