// The kernels and variables of the program, as nvcc's host stubs register them before main. A module is loaded on a
// device when one of its kernels or variables is first used there.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "cudart/fat_binary.h"
#include "ptx/kernel.h"

namespace gpusim {

struct RegisteredModule {
  const void* fat_binary = nullptr;
  std::vector<PtxImage> images;
  std::string unusable;  // why there are no images
  std::array<std::shared_ptr<PtxModule>, kMaxDevices> loaded;
};

struct RegisteredKernel {
  std::string mangled_name;
  std::string name;  // demangled, without its arguments
  RegisteredModule* module = nullptr;
  std::array<PtxKernel*, kMaxDevices> lowered = {};
  std::array<int, kMaxDevices> dynamic_shared_opt_in_bytes = {};  // cudaFuncSetAttribute; 0: not asked for
  std::array<int, kMaxDevices> shared_carveout = {};
};

// Null: no such kernel.
RegisteredKernel* find_registered_kernel(const void* host_stub);

// The kernel on a device, loaded now if need be. Null with a report: the PTX is missing or not understood.
PtxKernel* kernel_on(RegisteredKernel& kernel, int device);
int ptx_architecture(const RegisteredKernel& kernel);

// How many registers ptxas gave a thread of it, from the compiled code in the fat binary that fits the device best; 0
// when there is only PTX.
int registers_of(const RegisteredKernel& kernel);

// False: no such variable (no report), or its module does not load (reported).
bool variable_on(const void* host_variable, int device, GlobalVariable& variable);

void unload_modules_of(int device);  // cudaDeviceReset

}  // namespace gpusim
