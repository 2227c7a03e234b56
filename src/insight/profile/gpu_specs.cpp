#include "insight/profile/gpu_specs.h"

#include <algorithm>
#include <array>
#include <string>

namespace trifold {
namespace {

constexpr double kSchedulers = 4;  // of a multiprocessor, an instruction a cycle each: all of these since Volta
constexpr int kWarp = 32;
constexpr int kRegistersEach = 65536;  // of a multiprocessor
constexpr int kRegisterUnit = 256;     // that a warp gets them in
constexpr int kWarpUnit = 4;           // warps that registers are divided among
constexpr std::int64_t kSharedUnit = 128;
constexpr std::int64_t kReserved = 1024;

// Sources: NVIDIA's data sheets (T4, A10, A100 80GB SXM, L4, L40S, H100 SXM) and architecture whitepapers (Turing,
// Ampere GA100 and GA102, Ada, Hopper, GeForce RTX 4090), without sparsity; limits of a multiprocessor from the table
// of compute capabilities in the CUDA C++ Programming Guide. Links are half of the two-way figures. RTX 4090: tensor
// cores with sums in fp32.
constexpr std::array kGpus = {
    GpuSpec{"t4", "T4", 40, 1.59, 8.1, 65, 320, 16, 16, 1024, 16, 64, false},
    GpuSpec{"a10", "A10", 72, 1.695, 31.2, 125, 600, 32, 32, 1536, 16, 100, true},
    GpuSpec{"a100", "A100", 108, 1.41, 19.5, 312, 2039, 300, 32, 2048, 32, 164, true},
    GpuSpec{"l4", "L4", 58, 2.04, 30.3, 121, 300, 32, 32, 1536, 24, 100, true},
    GpuSpec{"l40s", "L40S", 142, 2.52, 91.6, 362, 864, 32, 32, 1536, 24, 100, true},
    GpuSpec{"rtx4090", "RTX 4090", 128, 2.52, 82.6, 165.2, 1008, 32, 32, 1536, 24, 100, true},
    GpuSpec{"h100", "H100", 132, 1.98, 66.9, 989.4, 3352, 450, 64, 2048, 32, 228, true},
};

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

std::span<const GpuSpec> known_gpus() {
  return kGpus;
}

const GpuSpec* find_gpu_spec(std::string_view key) {
  const auto* const found = std::ranges::find(kGpus, key, &GpuSpec::key);
  return found == kGpus.end() ? nullptr : found;
}

// As a whole word: "A10" is no part of "A100".
const GpuSpec* spec_of_device(std::string_view name) {
  for (const GpuSpec& gpu : kGpus) {
    const std::string_view wanted = gpu.name;
    const std::size_t at = name.find(wanted);
    if (at == std::string_view::npos) continue;
    const auto is_word = [&](std::size_t i) { return i < name.size() && name[i] != ' ' && name[i] != '-'; };
    if (!is_word(at + wanted.size()) && (at == 0 || !is_word(at - 1))) return &gpu;
  }
  return nullptr;
}

double occupancy_of(const GpuSpec& gpu, const BlockNeeds& needs) {
  if (needs.threads <= 0) return 0;
  const int warps = static_cast<int>(rounded_up(needs.threads, kWarp) / kWarp);
  const int most_warps = gpu.threads_each / kWarp;
  std::int64_t blocks = std::min(gpu.blocks_each, most_warps / warps);
  if (needs.registers > 0) {
    const std::int64_t a_warp = rounded_up(std::int64_t{needs.registers} * kWarp, kRegisterUnit);
    const std::int64_t fitting = kRegistersEach / a_warp / kWarpUnit * kWarpUnit;
    blocks = std::min(blocks, fitting / warps);
  }
  const std::int64_t shared = rounded_up(needs.shared_bytes, kSharedUnit) + (gpu.reserves_shared ? kReserved : 0);
  if (shared > 0) blocks = std::min(blocks, (std::int64_t{gpu.shared_kib_each} << 10) / shared);
  return static_cast<double>(blocks * warps) / most_warps;
}

GpuLimit limit_of(const GpuSpec& gpu, const GpuWork& work) {
  const double peak = 1e9 * (work.tensor_cores ? gpu.half_tflops : gpu.fp32_tflops);  // FLOPs a millisecond
  const double issued = 1e6 * kSchedulers * gpu.multiprocessors * gpu.clock_ghz;      // instructions a millisecond
  const double compute_ms = work.flops / peak;
  const double memory_ms = work.bytes / gpu.memory_gbps / 1e6;
  GpuLimit limit{.roof_ms = std::max(compute_ms, memory_ms)};
  const auto consider = [&](double ms, const char* bound) {
    if (ms > limit.ms) limit.ms = ms, limit.bound = bound;
  };
  consider(compute_ms, "compute");
  consider(memory_ms, "memory");
  consider(work.warp_instructions / issued, "instructions");
  consider(work.link_bytes / gpu.link_gbps / 1e6, "link");
  consider(work.host_bytes / gpu.host_gbps / 1e6, "host link");
  consider(work.launches * kShortestKernelUs / 1e3, "latency");
  return limit;
}

}  // namespace trifold
