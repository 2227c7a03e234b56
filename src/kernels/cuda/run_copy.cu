#include <algorithm>
#include <numeric>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/fast_divide.cuh"
#include "kernels/cuda/run_copy.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;

// A part in items of the size that one load or store moves.
struct ItemCopy {
  const std::byte* from;
  std::byte* to;
  std::int64_t from_run, to_run;  // from one run to the next
  FastDivisor items;              // to copy of each run
  std::uint32_t fill;
};

// One launch copies several parts: blockIdx.y is the part.
constexpr std::size_t kPartsPerLaunch = 8;
struct ItemCopies {
  ItemCopy parts[kPartsPerLaunch];
  std::int64_t runs;
};

template <class Item>
__device__ __forceinline__ Item filled_item(std::uint32_t fill) {
  if constexpr (sizeof(Item) == 16)
    return {fill, fill, fill, fill};
  else if constexpr (sizeof(Item) == 8)
    return {fill, fill};
  else
    return static_cast<Item>(fill);
}

template <class Item>
__global__ void __launch_bounds__(kThreads) copy_items(ItemCopies copies) {
  const ItemCopy& part = copies.parts[blockIdx.y];
  const auto* from = reinterpret_cast<const Item*>(part.from);
  auto* to = reinterpret_cast<Item*>(part.to);
  const std::uint32_t items = part.items.divisor();
  const std::uint32_t total = static_cast<std::uint32_t>(copies.runs * items);
  for (std::uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < total; i += gridDim.x * kThreads) {
    std::uint32_t item;
    const std::int64_t run = part.items.divide(i, &item);
    to[run * part.to_run + item] = from == nullptr ? filled_item<Item>(part.fill) : from[run * part.from_run + item];
  }
}

// The largest power of two, up to 16, that everything of the part is a multiple of.
std::int64_t unit_of(const RunCopy& part, std::int64_t runs) {
  const auto misalignment = [](const std::byte* memory) {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory) % 16);
  };
  std::int64_t unit = std::gcd(std::int64_t{16}, std::gcd(misalignment(part.to), part.bytes));
  if (part.from != nullptr) unit = std::gcd(unit, misalignment(part.from));
  return runs == 1 ? unit : std::gcd(unit, std::gcd(part.from != nullptr ? part.from_run : 0, part.to_run));
}

void launch(std::int64_t unit, dim3 grid, const ItemCopies& copies, cudaStream_t stream) {
  if (unit == 16)
    copy_items<uint4><<<grid, kThreads, 0, stream>>>(copies);
  else if (unit == 8)
    copy_items<uint2><<<grid, kThreads, 0, stream>>>(copies);
  else if (unit == 4)
    copy_items<unsigned><<<grid, kThreads, 0, stream>>>(copies);
  else
    copy_items<unsigned short><<<grid, kThreads, 0, stream>>>(copies);
  check_launch("copy_items");
}

}  // namespace

void copy_runs(std::span<const RunCopy> parts, std::int64_t runs, const CudaDevice& device) {
  if (runs == 0) return;
  for (; !parts.empty(); parts = parts.subspan(std::min(kPartsPerLaunch, parts.size()))) {
    const std::span<const RunCopy> these = parts.first(std::min(kPartsPerLaunch, parts.size()));
    std::int64_t unit = 16;
    for (const RunCopy& part : these) unit = std::gcd(unit, unit_of(part, runs));
    TRIFOLD_CHECK(unit >= 2, "runs of odd numbers of bytes");
    ItemCopies copies{};
    copies.runs = runs;
    std::int64_t most = 0;
    unsigned count = 0;
    for (const RunCopy& part : these) {
      if (part.bytes == 0) continue;
      most = std::max(most, runs * part.bytes / unit);
      copies.parts[count++] = {.from = part.from,
                               .to = part.to,
                               .from_run = part.from_run / unit,
                               .to_run = part.to_run / unit,
                               .items = FastDivisor(part.bytes / unit),
                               .fill = part.fill};
    }
    TRIFOLD_CHECK(most < (std::int64_t{1} << 31), "a part of {} items is too large", most);
    if (count > 0) launch(unit, dim3(blocks_for(most, kThreads, device), count), copies, device.compute());
  }
}

}  // namespace trifold::cuda
