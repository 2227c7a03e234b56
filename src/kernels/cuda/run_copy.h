// Copies of runs: stretches of the same length, each the same way from the last, as the channels of samples, the rows
// of planes and the blocks of matrices are. Many parts, between different memory, take few launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/cuda/cuda_device.h"

namespace trifold::cuda {

// All extents are even numbers of bytes.
struct RunCopy {
  const std::byte* from = nullptr;  // null: nothing is read, every 4 bytes become `fill`
  std::byte* to = nullptr;
  std::int64_t from_run = 0;  // from one run to the next, in bytes
  std::int64_t to_run = 0;
  std::int64_t bytes = 0;  // to copy of each run
  std::uint32_t fill = 0;
};

// On the compute stream. Every part has `runs` of them; no part writes what another reads or writes.
void copy_runs(std::span<const RunCopy> parts, std::int64_t runs, const CudaDevice& device);

}  // namespace trifold::cuda
