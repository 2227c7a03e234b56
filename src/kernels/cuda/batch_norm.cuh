// What batch norm's forward and backward kernels must do in exactly the same way: the backward part undoes a relu by
// asking again whether the normalised value was positive.
#pragma once

#include "kernels/cuda/columns.cuh"

namespace trifold::cuda {

// What batch norm does to a channel of a group.
struct ChannelNorm {
  float mean, scale, beta;
};

// Where the statistics [groups, C] and parameters [C] lie.
struct NormArgs {
  const float* mean;
  const float* istd;
  const float* gamma;
  const float* beta;

  __device__ __forceinline__ ChannelNorm of(std::int64_t group, int channels, int channel) const {
    const std::int64_t at = group * channels + channel;
    return {mean[at], __fmul_rn(gamma[channel], istd[at]), beta[channel]};
  }
};

__device__ __forceinline__ float normalised(float x, float mean, float scale, float beta) {
  return __fmaf_rn(__fsub_rn(x, mean), scale, beta);
}

// A mask holds one bit an element in the order of memory, lowest first. The bits from `element` on that share its byte.
__device__ __forceinline__ unsigned mask_bits(const std::uint8_t* mask, std::int64_t element) {
  return static_cast<unsigned>(mask[element / 8]) >> (element % 8);
}

}  // namespace trifold::cuda
