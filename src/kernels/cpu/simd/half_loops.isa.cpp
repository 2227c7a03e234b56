// The loops of half_loops.h.
#include "kernels/cpu/simd/half_loops.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

#include "core/half.h"

namespace trifold::cpu::TRIFOLD_ISA {

extern const HalfLoops half_loops_table;

namespace {

void f16_to_float(const std::uint16_t* from, float* to, Range elements) {
  std::int64_t i = elements.begin;
#ifdef __F16C__
  for (; i + 8 <= elements.end; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
#endif
  for (; i < elements.end; ++i) to[i] = float_from_f16(from[i]);
}

void float_to_f16(const float* from, std::uint16_t* to, Range elements) {
  std::int64_t i = elements.begin;
#ifdef __F16C__
  for (; i + 8 <= elements.end; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
  for (; i < elements.end; ++i) to[i] = f16_from_float(from[i]);
}

void bf16_to_float(const std::uint16_t* from, float* to, Range elements) {
  for (std::int64_t i = elements.begin; i < elements.end; ++i) to[i] = float_from_bf16(from[i]);
}

void float_to_bf16(const float* from, std::uint16_t* to, Range elements) {
  for (std::int64_t i = elements.begin; i < elements.end; ++i) to[i] = bf16_from_float(from[i]);
}

}  // namespace

const HalfLoops half_loops_table = {f16_to_float, bf16_to_float, float_to_f16, float_to_bf16};

}  // namespace trifold::cpu::TRIFOLD_ISA
