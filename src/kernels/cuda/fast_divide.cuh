// Division of indices below 2^31 by a divisor that is known before the launch: one multiplication and a shift instead
// of the twenty instructions of an integer division (Granlund and Montgomery, PLDI 1994).
#pragma once

#include <cstdint>

namespace trifold::cuda {

class FastDivisor {
 public:
  FastDivisor() = default;
  explicit FastDivisor(std::int64_t divisor) : divisor_(static_cast<std::uint32_t>(divisor)) {
    while ((std::uint64_t{1} << shift_) < divisor_) ++shift_;
    const std::uint64_t power = std::uint64_t{1} << (32 + shift_);
    multiplier_ = static_cast<std::uint32_t>((power + divisor_ - 1) / divisor_ - (std::uint64_t{1} << 32));
  }

  __device__ __forceinline__ std::uint32_t divide(std::uint32_t n) const {
    return (__umulhi(n, multiplier_) + n) >> shift_;
  }
  __device__ __forceinline__ std::uint32_t divide(std::uint32_t n, std::uint32_t* rest) const {
    const std::uint32_t quotient = divide(n);
    *rest = n - quotient * divisor_;
    return quotient;
  }
  __host__ __device__ std::uint32_t divisor() const { return divisor_; }

 private:
  std::uint32_t divisor_ = 1;
  std::uint32_t multiplier_ = 0;
  std::uint32_t shift_ = 0;
};

}  // namespace trifold::cuda
