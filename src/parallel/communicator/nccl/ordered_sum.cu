#include <numeric>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/fast_divide.cuh"
#include "parallel/communicator/nccl/ordered_sum.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;

// In items of the elements that one load or store moves.
struct ItemTerm {
  const std::byte* from;
  std::int64_t from_run;
  std::uint32_t begin, end;
};
struct SumArgs {
  ItemTerm terms[kMostTerms];
  int count;
  std::uint32_t total;  // items of the sum
  FastDivisor items;    // of a run of it
  std::byte* to;
};

template <class T, int kCount>
__global__ void __launch_bounds__(kThreads) add_terms(SumArgs args) {
  auto* to = reinterpret_cast<T*>(args.to);
  for (std::uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < args.total; i += gridDim.x * kThreads) {
    std::uint32_t item;
    const std::int64_t run = args.items.divide(i, &item);
    float sum[kCount] = {};
    for (int t = 0; t < args.count; ++t) {
      const ItemTerm& term = args.terms[t];
      if (item < term.begin || item >= term.end) continue;
      float values[kCount];
      load_floats(reinterpret_cast<const T*>(term.from) + (run * term.from_run + item - term.begin) * kCount, values);
#pragma unroll
      for (int k = 0; k < kCount; ++k) sum[k] += values[k];
    }
    store_floats(to + std::int64_t{i} * kCount, sum);
  }
}

// The most elements, up to 16 bytes, that every place and extent is a multiple of.
std::int64_t elements_per_item(const OrderedSum& sum) {
  const auto size = static_cast<std::int64_t>(size_of(sum.dtype));
  std::int64_t count = std::gcd(16 / size, sum.run_elements);
  const auto align = [&](const std::byte* memory) {
    count = std::gcd(count, static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory) % 16) / size);
  };
  align(sum.to);
  for (const SumTerm& term : sum.terms) {
    align(term.from);
    count = std::gcd(count, std::gcd(term.begin, term.end));
    if (sum.runs > 1) count = std::gcd(count, term.from_run);
  }
  return count;
}

template <class T, int kCount>
void launch(const SumArgs& args, const CudaDevice& device) {
  add_terms<T, kCount><<<blocks_for(args.total, kThreads, device), kThreads, 0, device.compute()>>>(args);
  check_launch("add_terms");
}

}  // namespace

void sum_in_order(const OrderedSum& sum, const CudaDevice& device) {
  if (sum.runs * sum.run_elements == 0) return;
  TRIFOLD_CHECK(sum.terms.size() <= kMostTerms, "a sum over {} ranks; {} is the most", sum.terms.size(), kMostTerms);
  const std::int64_t per_item = elements_per_item(sum);
  const std::int64_t total = sum.runs * sum.run_elements / per_item;
  TRIFOLD_CHECK(total < (std::int64_t{1} << 31), "a sum of {} items is too large", total);
  SumArgs args{};
  args.count = static_cast<int>(sum.terms.size());
  args.total = static_cast<std::uint32_t>(total);
  args.items = FastDivisor(sum.run_elements / per_item);
  args.to = sum.to;
  for (std::size_t t = 0; t < sum.terms.size(); ++t) {
    const SumTerm& term = sum.terms[t];
    args.terms[t] = {.from = term.from,
                     .from_run = term.from_run / per_item,
                     .begin = static_cast<std::uint32_t>(term.begin / per_item),
                     .end = static_cast<std::uint32_t>(term.end / per_item)};
  }
  with_element(sum.dtype, [&](auto element) {
    using T = typename decltype(element)::type;
    if constexpr (sizeof(T) == 2)
      if (per_item == 8) return launch<T, 8>(args, device);
    if (per_item == 4) return launch<T, 4>(args, device);
    if (per_item == 2) return launch<T, 2>(args, device);
    launch<T, 1>(args, device);
  });
}

}  // namespace trifold::cuda
