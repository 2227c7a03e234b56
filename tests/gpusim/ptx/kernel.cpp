// The engine's interface: modules, kernels, launches.
#include "ptx/kernel.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "ptx/execution.h"
#include "ptx/grid.h"
#include "ptx/lowering.h"
#include "ptx/parser.h"

namespace gpusim {

PtxModule::PtxModule(std::string ptx, int the_device)
    : device(the_device), text(std::move(ptx)), tokenized(ptx::tokenize(text)) {
  ptx::parse_module(*this);
}

PtxModule::~PtxModule() {
  for (const auto& [name, variable] : variables)
    if (variable.address != 0) DeviceMemory::get().release(reinterpret_cast<void*>(variable.address));
}

std::shared_ptr<PtxModule> load_module(std::string ptx, int device) {
  return std::make_shared<PtxModule>(std::move(ptx), device);
}

PtxKernel* find_kernel(PtxModule& module, std::string_view mangled_name) {
  if (const auto known = module.kernels.find(mangled_name); known != module.kernels.end()) return known->second.get();
  const auto function = module.functions.find(mangled_name);
  if (function == module.functions.end() || !function->second.is_entry) return nullptr;
  auto kernel = std::make_unique<PtxKernel>();
  kernel->module = &module;
  kernel->function = &function->second;
  ptx::Lowering(*kernel).run();
  return module.kernels.emplace(mangled_name, std::move(kernel)).first->second.get();
}

bool find_variable(PtxModule& module, std::string_view name, GlobalVariable& variable) {
  const auto found = module.variables.find(name);
  if (found == module.variables.end()) return false;
  variable = found->second;
  return true;
}

KernelResources resources_of(const PtxKernel& kernel) {
  KernelResources resources;
  resources.static_shared_bytes = kernel.static_shared_bytes;
  resources.local_bytes = kernel.local_bytes;
  resources.parameter_bytes = kernel.parameter_bytes;
  resources.registers_estimate = static_cast<int>(kernel.register_count);
  if (kernel.function->max_threads > 0) resources.max_threads_per_block = kernel.function->max_threads;
  resources.ptx_target = kernel.module->tokenized.target;
  return resources;
}

std::vector<std::byte> pack_arguments(const PtxKernel& kernel, void** arguments) {
  std::vector<std::byte> block(kernel.parameter_bytes);
  const auto& parameters = kernel.function->parameters;
  for (std::size_t at = 0; at < parameters.size(); ++at)
    std::memcpy(block.data() + parameters[at].offset, arguments[at], parameters[at].bytes);
  return block;
}

namespace {

void fill_statistics(const PtxKernel& kernel, const Launch& launch, const ptx::InstructionCounts& counts) {
  GpusimLaunch& statistics = *launch.statistics;
  std::snprintf(statistics.kernel, sizeof statistics.kernel, "%s", kernel.display_name.c_str());
  const Dim3 sizes[] = {launch.grid, launch.block};
  std::uint32_t* outputs[] = {statistics.grid, statistics.block};
  for (std::size_t at = 0; at < 2; ++at) {
    outputs[at][0] = sizes[at].x;
    outputs[at][1] = sizes[at].y;
    outputs[at][2] = sizes[at].z;
  }
  statistics.warp_instructions = counts.warps;
  statistics.lane_instructions = counts.lanes;
}

}  // namespace

bool run_kernel(PtxKernel& kernel, const Launch& launch) {
  if (launch.parameters.size() < kernel.parameter_bytes) {
    report(Finding::invalid_launch, "kernel " + kernel.display_name + " needs " +
                                        std::to_string(kernel.parameter_bytes) + " parameter bytes, got " +
                                        std::to_string(launch.parameters.size()));
    return false;
  }
  if (launch.grid.count() == 0 || launch.block.count() == 0 || launch.block.count() > 1024 ||
      launch.grid.count() > 0xffffffffU) {
    report(Finding::invalid_launch, "kernel " + kernel.display_name + ": impossible grid or block");
    return false;
  }
  if (launch.statistics != nullptr) *launch.statistics = {};
  ptx::InstructionCounts counts;
  bool succeeded = true;
  try {
    ptx::run_grid(kernel, launch, counts);
  } catch (const ptx::Fault& fault) {
    report(fault.finding, fault.text);
    succeeded = false;
  }
  if (launch.statistics != nullptr) fill_statistics(kernel, launch, counts);
  return succeeded;
}

}  // namespace gpusim
