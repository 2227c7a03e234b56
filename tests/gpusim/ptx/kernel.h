// The PTX engine's interface: modules of PTX text, and kernels that run on 32 lanes at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/device_memory.h"
#include "include/gpusim.h"

namespace gpusim {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

class PtxModule;
class PtxKernel;

// Parses; throws PtxError naming the PTX line and what is not understood. Global variables are allocated and
// initialised on `device`.
struct PtxError {
  std::string text;
};
std::shared_ptr<PtxModule> load_module(std::string ptx, int device);
PtxKernel* find_kernel(PtxModule& module, std::string_view mangled_name);  // null: no such entry. Lowers it; may throw.

struct GlobalVariable {
  Address address = 0;
  std::size_t bytes = 0;
};
bool find_variable(PtxModule& module, std::string_view name, GlobalVariable& variable);

struct KernelResources {
  std::size_t static_shared_bytes = 0;
  std::size_t local_bytes = 0;  // a thread
  std::size_t parameter_bytes = 0;
  int registers_estimate = 0;        // virtual registers: ptxas decides the real number
  int max_threads_per_block = 1024;  // of .maxntid
  int ptx_target = 75;
};
KernelResources resources_of(const PtxKernel& kernel);

// The parameter block of a launch, from an array of pointers to the arguments.
std::vector<std::byte> pack_arguments(const PtxKernel& kernel, void** arguments);

struct Launch {
  Dim3 grid;
  Dim3 block;
  std::size_t dynamic_shared_bytes = 0;
  std::span<const std::byte> parameters;
  GpusimLaunch* statistics = nullptr;  // null: not counted
  bool cooperative = false;            // blocks may wait for each other: they take turns
};
// Runs all blocks. False after a fault (already reported): the device's error is then sticky, as on a real one.
bool run_kernel(PtxKernel& kernel, const Launch& launch);

// Lines of our kernels that ran, as an lcov tracefile (GPUSIM_COVERAGE=file, written at exit).
void write_coverage(std::span<PtxModule* const> modules, const std::string& file);

}  // namespace gpusim
