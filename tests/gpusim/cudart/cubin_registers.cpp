// Registers of kernels, from the ELF files that ptxas made: the upper byte of what a kernel's code section says of
// itself.
#include <cstring>
#include <map>
#include <stdexcept>
#include <unordered_map>

#include <elf.h>

#include "cudart/device_model.h"
#include "cudart/registration.h"

namespace gpusim {
namespace {

using Registers = std::unordered_map<std::string, int>;  // by mangled name

template <class Part>
Part part_at(const std::string& file, std::size_t place) {
  Part part;
  if (place + sizeof part > file.size()) throw std::runtime_error("a cubin is cut short");
  std::memcpy(&part, file.data() + place, sizeof part);
  return part;
}

Registers registers_in(const std::string& cubin) {
  constexpr std::string_view kCode = ".text.";
  constexpr int kRegistersShift = 24;
  Registers found;
  const auto header = part_at<Elf64_Ehdr>(cubin, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return found;
  const auto section = [&](std::size_t i) {
    return part_at<Elf64_Shdr>(cubin, header.e_shoff + i * header.e_shentsize);
  };
  const std::size_t names = section(header.e_shstrndx).sh_offset;
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr one = section(i);
    const std::string name = cubin.c_str() + names + one.sh_name;
    if (name.starts_with(kCode)) found[name.substr(kCode.size())] = static_cast<int>(one.sh_info >> kRegistersShift);
  }
  return found;
}

// Code of an older minor version of the same major one runs too.
Registers best_registers(const void* fat_binary) {
  const int capability = compute_capability();
  const CubinImage* best = nullptr;
  const std::vector<CubinImage> images = cubin_images(fat_binary);
  for (const CubinImage& image : images) {
    const bool runs = image.architecture / 10 == capability / 10 && image.architecture <= capability;
    if (runs && (!best || image.architecture > best->architecture)) best = &image;
  }
  return best ? registers_in(best->file) : Registers{};
}

}  // namespace

int registers_of(const RegisteredKernel& kernel) {
  static auto* by_binary = new std::map<const void*, Registers>;
  const void* binary = kernel.module->fat_binary;
  auto found = by_binary->find(binary);
  if (found == by_binary->end()) {
    Registers registers;
    try {
      registers = best_registers(binary);
    } catch (const std::runtime_error&) {  // then they are not known
    }
    found = by_binary->emplace(binary, std::move(registers)).first;
  }
  const auto registers = found->second.find(kernel.mangled_name);
  return registers == found->second.end() ? 0 : registers->second;
}

}  // namespace gpusim
