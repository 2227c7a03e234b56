// "cast" on the CPU, and the conversion behind it.
#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/backend.h"
#include "kernels/cpu/half.h"
#include "kernels/cpu/simd/element_loops.h"
#include "kernels/cpu/simd/half_loops.h"
#include "kernels/ops/shape_ops.h"

namespace trifold::cpu {
namespace {

constexpr std::int64_t kCastGrain = 4096;

// A stretch at a time goes through floats that stay in the cache.
constexpr std::int64_t kStretch = 2048;

void to_float(DType type, const std::byte* from, std::int64_t first, std::int64_t count, float* to) {
  const auto* halves = reinterpret_cast<const std::uint16_t*>(from) + first;
  if (type == DType::f16)
    half_loops().f16_to_float(halves, to, {0, count});
  else if (type == DType::bf16)
    half_loops().bf16_to_float(halves, to, {0, count});
  else
    std::memcpy(to, reinterpret_cast<const float*>(from) + first, static_cast<std::size_t>(count) * sizeof(float));
}

void from_float(DType type, const float* from, std::byte* to, std::int64_t first, std::int64_t count) {
  auto* halves = reinterpret_cast<std::uint16_t*>(to) + first;
  if (type == DType::f16)
    half_loops().float_to_f16(from, halves, {0, count});
  else if (type == DType::bf16)
    half_loops().float_to_bf16(from, halves, {0, count});
  else
    std::memcpy(reinterpret_cast<float*>(to) + first, from, static_cast<std::size_t>(count) * sizeof(float));
}

class CastKernel final : public Kernel {
 public:
  explicit CastKernel(const KernelRequest& request)
      : scaled_(op_as<Cast>(request).scaled), from_(request.in[0]), to_(request.out[0]) {}

  void run(const StepContext&) override {
    convert(from_.dtype, in<std::byte>(0), to_.dtype, out<std::byte>(0), from_.elements(), scaled_ ? in(1)[0] : 1.0f);
  }

 private:
  bool scaled_;
  TensorDesc from_;
  TensorDesc to_;
};

const RegisterKernel register_cast(cpu_backend(), "cast", make_kernel<CastKernel>);

}  // namespace

void convert(DType from_type, const std::byte* from, DType to_type, std::byte* to, std::int64_t elements, float scale) {
  parallel_for(
      elements,
      [&](Range range) {
        std::array<float, kStretch> values;
        for (std::int64_t i = range.begin; i < range.end; i += kStretch) {
          const std::int64_t count = std::min(kStretch, range.end - i);
          to_float(from_type, from, i, count, values.data());
          if (scale != 1) element_loops().scale(values.data(), scale, values.data(), {0, count});
          from_float(to_type, values.data(), to, i, count);
        }
      },
      kCastGrain);
}

}  // namespace trifold::cpu
