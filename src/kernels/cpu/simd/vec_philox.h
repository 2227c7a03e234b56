// Philox4x32-10 on vectors: the numbers of core/philox.h, one block a lane. For *.isa.cpp files only.
#pragma once

#include <utility>

#include "core/philox.h"
#include "kernels/cpu/simd/vec.h"

namespace trifold::cpu::TRIFOLD_ISA {

typedef std::uint32_t UVec __attribute__((vector_size(kLanes * sizeof(std::uint32_t))));

struct WideProduct {
  UVec high, low;
};

inline WideProduct multiply_wide(UVec a, std::uint32_t factor) {
#if defined(__AVX512F__)
  const __m512i f = _mm512_set1_epi32(static_cast<int>(factor));
  const __m512i even = _mm512_maskz_mul_epu32(0xff, (__m512i)a, f);
  const __m512i odd = _mm512_maskz_mul_epu32(0xff, _mm512_maskz_srli_epi64(0xff, (__m512i)a, 32), f);
  const UVec high = (UVec)_mm512_mask_blend_epi32(0xaaaa, _mm512_maskz_srli_epi64(0xff, even, 32), odd);
  return {high, a * factor};
#elif defined(__AVX2__)
  const __m256i f = _mm256_set1_epi32(static_cast<int>(factor));
  const __m256i even = _mm256_mul_epu32((__m256i)a, f);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)a, 32), f);
  const UVec high = (UVec)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
  return {high, a * factor};
#else
  WideProduct product{};
  for (int i = 0; i < kLanes; ++i) {
    const std::uint64_t wide = static_cast<std::uint64_t>(a[i]) * factor;
    product.high[i] = static_cast<std::uint32_t>(wide >> 32);
    product.low[i] = static_cast<std::uint32_t>(wide);
  }
  return product;
#endif
}

// The four numbers of kLanes blocks: word j of lane i is number j of block i.
struct RandomWords {
  UVec word[4];
};

// The stream of one sample; see random_block.
struct RandomStream {
  std::uint32_t key0, key1, stream, sample_low, sample_high;

  RandomStream(std::uint64_t seed, Purpose purpose, std::uint32_t of_stream, std::uint64_t sample)
      : key0(static_cast<std::uint32_t>(seed)),
        key1(static_cast<std::uint32_t>((seed ^ (static_cast<std::uint64_t>(purpose) << 56)) >> 32)),
        stream(of_stream),
        sample_low(static_cast<std::uint32_t>(sample)),
        sample_high(static_cast<std::uint32_t>(sample >> 32)) {}

  RandomWords operator()(UVec blocks) const {
    UVec c0 = blocks, c1 = UVec{} + stream, c2 = UVec{} + sample_low, c3 = UVec{} + sample_high;
    std::uint32_t k0 = key0, k1 = key1;
    for (int round = 0; round < 10; ++round) {
      const WideProduct product0 = multiply_wide(c0, 0xD2511F53u), product1 = multiply_wide(c2, 0xCD9E8D57u);
      c0 = product1.high ^ c1 ^ k0;
      c1 = product1.low;
      c2 = product0.high ^ c3 ^ k1;
      c3 = product0.low;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
  }
};

// [0, 1), as uniform_from_bits.
inline Vec uniform_from(UVec bits) {
  return __builtin_convertvector((IVec)(bits >> 8), Vec) * 0x1.0p-24f;
}

template <int... kLane>
inline UVec interleave_low(UVec a, UVec b, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(a, b, (kLane / 2 + (kLane % 2) * kLanes)...);
}

template <int... kLane>
inline UVec interleave_high(UVec a, UVec b, std::integer_sequence<int, kLane...>) {
  return __builtin_shufflevector(a, b, (kLanes / 2 + kLane / 2 + (kLane % 2) * kLanes)...);
}

// The words block after block: 4 * kLanes consecutive numbers where the lanes held consecutive blocks.
inline RandomWords in_order(const RandomWords& r) {
  constexpr std::make_integer_sequence<int, kLanes> lanes;
  const UVec low02 = interleave_low(r.word[0], r.word[2], lanes), high02 = interleave_high(r.word[0], r.word[2], lanes);
  const UVec low13 = interleave_low(r.word[1], r.word[3], lanes), high13 = interleave_high(r.word[1], r.word[3], lanes);
  return {{interleave_low(low02, low13, lanes), interleave_high(low02, low13, lanes),
           interleave_low(high02, high13, lanes), interleave_high(high02, high13, lanes)}};
}

}  // namespace trifold::cpu::TRIFOLD_ISA
