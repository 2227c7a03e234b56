// GPUs by name: what their data sheets promise, and what that would allow a piece of work. Nothing here is measured.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace trifold {

struct GpuSpec {
  const char* key = "";   // of --gpu
  const char* name = "";  // also what the driver calls it, in part
  int multiprocessors = 0;
  double clock_ghz = 0;          // boost
  double fp32_tflops = 0;        // without tensor cores
  double half_tflops = 0;        // fp16 and bf16 by tensor cores, dense, sums in fp32
  double memory_gbps = 0;        // of the card's memory
  double link_gbps = 0;          // to another GPU, one way: NVLink, else PCIe
  double host_gbps = 0;          // to the host, one way
  int threads_each = 0;          // that a multiprocessor holds
  int blocks_each = 0;           // that it holds
  int shared_kib_each = 0;       // shared memory that it has for blocks
  bool reserves_shared = false;  // 1 KiB of it for the system in every block
};

std::span<const GpuSpec> known_gpus();
const GpuSpec* find_gpu_spec(std::string_view key);    // null: not known
const GpuSpec* spec_of_device(std::string_view name);  // "NVIDIA A100-SXM4-80GB"; null: not known

// Share of a multiprocessor's warps that can be there at once, by what a block takes. registers 0: not known, no limit.
struct BlockNeeds {
  int threads = 0;
  int registers = 0;  // a thread
  std::int64_t shared_bytes = 0;
};
double occupancy_of(const GpuSpec& gpu, const BlockNeeds& needs);

// A piece of work, and the shortest time that each limit would allow it.
struct GpuWork {
  double flops = 0;
  bool tensor_cores = false;     // 16-bit products of matrices
  double bytes = 0;              // that it must read and write
  double warp_instructions = 0;  // 0: not counted
  double launches = 0;
  double link_bytes = 0;
  double host_bytes = 0;
};
struct GpuLimit {
  double ms = 0;           // the longest of all
  double roof_ms = 0;      // the longest of arithmetic and memory alone; 0 of what has neither
  const char* bound = "";  // "compute", "memory", "instructions", "latency", "link", "host link"
};
GpuLimit limit_of(const GpuSpec& gpu, const GpuWork& work);

inline constexpr double kShortestKernelUs = 2;  // assumed of every kernel: what an empty one takes on these GPUs, about

}  // namespace trifold
