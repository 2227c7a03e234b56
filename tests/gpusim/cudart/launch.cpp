// Kernel launches: the call configuration stack of <<<>>>, the checks of the real runtime, and the work that is
// enqueued.
#include <cstring>
#include <vector>

#include <cuda_runtime_api.h>

#include "cudart/api_call.h"
#include "cudart/device_model.h"
#include "cudart/occupancy.h"
#include "cudart/registration.h"
#include "cudart/statistics.h"
#include "engine/activity.h"
#include "engine/device_faults.h"

using namespace gpusim;

namespace {

struct Configuration {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  bool cooperative = false;
};
thread_local std::vector<Configuration> configurations;

std::string text_of(const dim3& dim) {
  return "(" + std::to_string(dim.x) + "," + std::to_string(dim.y) + "," + std::to_string(dim.z) + ")";
}

bool is_within(const dim3& dim, const int (&limit)[3]) {
  const auto fits = [](unsigned value, int most) { return value >= 1 && value <= static_cast<unsigned>(most); };
  return fits(dim.x, limit[0]) && fits(dim.y, limit[1]) && fits(dim.z, limit[2]);
}

struct Refusal {
  cudaError_t code = cudaErrorInvalidConfiguration;
  std::string text;
};

std::optional<Refusal> check(const Configuration& asked, const RegisteredKernel& kernel,
                             const KernelResources& resources, int device) {
  const std::uint64_t threads = std::uint64_t{asked.block.x} * asked.block.y * asked.block.z;
  if (!is_within(asked.block, kMaxBlockDim) || threads > kMaxThreadsPerBlock) {
    return Refusal{cudaErrorInvalidConfiguration, "block " + text_of(asked.block) + " is outside of the limits"};
  }
  if (!is_within(asked.grid, kMaxGridDim)) {
    return Refusal{cudaErrorInvalidConfiguration, "grid " + text_of(asked.grid) + " is outside of the limits"};
  }
  if (threads > static_cast<std::uint64_t>(resources.max_threads_per_block)) {
    return Refusal{cudaErrorInvalidValue, std::to_string(threads) + " threads a block: __launch_bounds__ allows " +
                                              std::to_string(resources.max_threads_per_block)};
  }
  const auto opt_in = static_cast<std::size_t>(kernel.dynamic_shared_opt_in_bytes[static_cast<std::size_t>(device)]);
  const std::size_t wanted = resources.static_shared_bytes + asked.shared_bytes;
  const bool allowed =
      wanted <= kSharedBytesPerBlock || (asked.shared_bytes <= opt_in && wanted <= kSharedBytesPerBlockOptIn);
  if (!allowed) {
    return Refusal{cudaErrorInvalidValue,
                   std::to_string(resources.static_shared_bytes) + " static and " + std::to_string(asked.shared_bytes) +
                       " dynamic bytes of shared memory: the limit is " + std::to_string(kSharedBytesPerBlock) +
                       ", or what cudaFuncSetAttribute allowed (" + std::to_string(opt_in) + ")"};
  }
  if (asked.cooperative) {
    const std::uint64_t blocks = std::uint64_t{asked.grid.x} * asked.grid.y * asked.grid.z;
    const int resident =
        kMultiprocessors * blocks_per_multiprocessor(resources, static_cast<int>(threads), asked.shared_bytes);
    if (blocks > static_cast<std::uint64_t>(resident)) {
      return Refusal{cudaErrorCooperativeLaunchTooLarge, "a cooperative grid of " + std::to_string(blocks) +
                                                             " blocks: the device holds " + std::to_string(resident) +
                                                             " at once"};
    }
  }
  return std::nullopt;
}

// On the simulated clock: a launch costs 2 us, and a thousand threads 1 us. Not a claim about any device.
std::uint64_t cost_ns(const Launch& launch) {
  return 2000 + launch.grid.count() * launch.block.count();
}

cudaError_t launch(ApiCall& call, RegisteredKernel* kernel, const Configuration& asked, void** arguments) {
  if (!kernel) return call.refuse(cudaErrorInvalidDeviceFunction, "not a kernel of this program");
  if (const auto lost = call.device_lost()) return *lost;
  CUstream_st* stream = call.stream_for_work(asked.stream);
  if (!stream) return call.error;
  const int device = current_device();
  if (stream->device != device) {
    return call.refuse(cudaErrorInvalidResourceHandle, "kernel " + kernel->name + " is launched on device " +
                                                           std::to_string(device) + " into a stream of device " +
                                                           std::to_string(stream->device));
  }
  PtxKernel* lowered = kernel_on(*kernel, device);
  if (!lowered) return call.fail(cudaErrorNoKernelImageForDevice);
  const KernelResources resources = resources_of(*lowered);
  if (const auto refusal = check(asked, *kernel, resources, device)) {
    return call.refuse(refusal->code, "kernel " + kernel->name + ": " + refusal->text, Finding::invalid_launch);
  }
  Launch shape{.grid = {asked.grid.x, asked.grid.y, asked.grid.z},
               .block = {asked.block.x, asked.block.y, asked.block.z},
               .dynamic_shared_bytes = asked.shared_bytes,
               .parameters = {},
               .statistics = nullptr,
               .cooperative = asked.cooperative};
  WorkDetails details{.kernel = kernel->mangled_name,
                      .grid = {asked.grid.x, asked.grid.y, asked.grid.z},
                      .block = {asked.block.x, asked.block.y, asked.block.z},
                      .static_shared_bytes = resources.static_shared_bytes,
                      .dynamic_shared_bytes = asked.shared_bytes,
                      .local_bytes = resources.local_bytes};
  if (activity_has_listener()) details.registers = registers_of(*kernel);
  const auto parameters = std::make_shared<const std::vector<std::byte>>(pack_arguments(*lowered, arguments));
  Work work{.what = "kernel " + kernel->name,
            .run =
                [=, name = kernel->name] {
                  Launch now = shape;
                  now.parameters = *parameters;
                  LaunchRecord record(name, now);
                  if (!run_kernel(*lowered, now)) mark_faulted(device, last_finding());
                },
            .kind = WorkKind::kernel,
            .cost_ns = cost_ns(shape),
            .details = std::move(details)};
  enqueue(asked.stream, std::move(work));
  return cudaSuccess;
}

}  // namespace

GPUSIM_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, CUstream_st* stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}

GPUSIM_API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, void* stream) {
  if (configurations.empty()) return cudaErrorMissingConfiguration;
  const Configuration top = configurations.back();
  configurations.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared_bytes = top.shared_bytes;
  std::memcpy(stream, &top.stream, sizeof top.stream);
  return cudaSuccess;
}

GPUSIM_API cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_stub) {
  ApiCall call("cudaGetKernel");
  auto* found = find_registered_kernel(host_stub);
  if (!found) return call.refuse(cudaErrorInvalidDeviceFunction, "not a kernel of this program");
  *kernel = reinterpret_cast<cudaKernel_t>(found);
  return cudaSuccess;
}

GPUSIM_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                          std::size_t shared_bytes, cudaStream_t stream) {
  ApiCall call("kernel launch");
  return launch(call, reinterpret_cast<RegisteredKernel*>(kernel), {grid, block, shared_bytes, stream}, arguments);
}

GPUSIM_API cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                               std::size_t shared_bytes, cudaStream_t stream) {
  return __cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, per_thread(stream));
}

GPUSIM_API cudaError_t cudaLaunchKernel(const void* host_stub, dim3 grid, dim3 block, void** arguments,
                                        std::size_t shared_bytes, cudaStream_t stream) {
  ApiCall call("cudaLaunchKernel");
  return launch(call, find_registered_kernel(host_stub), {grid, block, shared_bytes, stream}, arguments);
}

GPUSIM_API cudaError_t cudaLaunchKernel_ptsz(const void* host_stub, dim3 grid, dim3 block, void** arguments,
                                             std::size_t shared_bytes, cudaStream_t stream) {
  return cudaLaunchKernel(host_stub, grid, block, arguments, shared_bytes, per_thread(stream));
}

GPUSIM_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* host_stub, void** arguments) {
  ApiCall call("cudaLaunchKernelExC");
  Configuration asked{config->gridDim, config->blockDim, config->dynamicSmemBytes, config->stream};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const auto attribute = config->attrs[i].id;
    if (attribute == cudaLaunchAttributeCooperative) {
      asked.cooperative = config->attrs[i].val.cooperative != 0;
      continue;
    }
    // These two change when a kernel runs, never what it computes in a program that is ordered correctly.
    const bool harmless = attribute == cudaLaunchAttributeIgnore || attribute == cudaLaunchAttributePriority;
    if (!harmless) return call.unsupported("launch attribute " + std::to_string(static_cast<int>(attribute)));
  }
  return launch(call, find_registered_kernel(host_stub), asked, arguments);
}

GPUSIM_API cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config, const void* host_stub,
                                                void** arguments) {
  cudaLaunchConfig_t own_stream = *config;
  own_stream.stream = per_thread(config->stream);
  return cudaLaunchKernelExC(&own_stream, host_stub, arguments);
}

GPUSIM_API cudaError_t cudaLaunchCooperativeKernel(const void* host_stub, dim3 grid, dim3 block, void** arguments,
                                                   std::size_t shared_bytes, cudaStream_t stream) {
  ApiCall call("cudaLaunchCooperativeKernel");
  return launch(call, find_registered_kernel(host_stub), {grid, block, shared_bytes, stream, true}, arguments);
}

GPUSIM_API cudaError_t cudaLaunchCooperativeKernel_ptsz(const void* host_stub, dim3 grid, dim3 block, void** arguments,
                                                        std::size_t shared_bytes, cudaStream_t stream) {
  return cudaLaunchCooperativeKernel(host_stub, grid, block, arguments, shared_bytes, per_thread(stream));
}
