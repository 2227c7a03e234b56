// One vector of floats, as wide as the instruction set this translation unit is compiled for, and the few operations
// the loops need. Files named *.isa.cpp include this; CMake compiles each of them once per instruction set, with
// TRIFOLD_ISA set to generic, avx2 or avx512 and the matching flags, into a namespace of that name. Such files use as
// little of the standard library as they can: an inline function shared with other files could be kept in its AVX form.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#ifndef TRIFOLD_ISA
#error "compile *.isa.cpp files through trifold_add_isa_sources (CMakeLists.txt)"
#endif

namespace trifold::cpu::TRIFOLD_ISA {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#else
inline constexpr int kLanes = 8;  // generic too: the compiler splits the vector into what the machine has
#endif

typedef float Vec __attribute__((vector_size(kLanes * sizeof(float))));
typedef float VecU __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
typedef std::int32_t IVec __attribute__((vector_size(kLanes * sizeof(float))));

inline Vec load(const float* p) {
  return *reinterpret_cast<const VecU*>(p);
}
inline void store(float* p, Vec v) {
  *reinterpret_cast<VecU*>(p) = v;
}
// x - 0 is x for every x, so the compiler leaves one instruction; x + 0 is not (for x = -0).
inline Vec broadcast(float x) {
  return x - Vec{};
}
inline Vec zero() {
  return Vec{};
}

inline Vec fma(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
  return (Vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
  return a * b + c;
#endif
}

#if defined(__AVX512F__)
// The maskz_ forms with every lane are the plain instructions; g++ 12 warns of an undefined value in the others.
inline constexpr __mmask16 kAllLanes = 0xffff;
#endif

// a > b ? a : b, and so b if either is NaN; min alike.
inline Vec max(Vec a, Vec b) {
#if defined(__AVX512F__)
  return (Vec)_mm512_maskz_max_ps(kAllLanes, (__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (Vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return a > b ? a : b;
#endif
}

inline Vec min(Vec a, Vec b) {
#if defined(__AVX512F__)
  return (Vec)_mm512_maskz_min_ps(kAllLanes, (__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (Vec)_mm256_min_ps((__m256)a, (__m256)b);
#else
  return a < b ? a : b;
#endif
}

// x where mask is all ones, else 0. Masks come from comparisons of Vec.
inline Vec keep(IVec mask, Vec x) {
  return (Vec)(mask & (IVec)x);
}

inline float sum(Vec v) {
  float total = 0;
  for (int i = 0; i < kLanes; ++i) total += v[i];
  return total;
}

// One bit per lane, lane 0 in the lowest: how masks are kept in memory (kLanes / 8 bytes a vector).
inline unsigned bits_of(IVec mask) {
#if defined(__AVX512F__)
  return _mm512_movepi32_mask((__m512i)mask);
#elif defined(__AVX2__)
  return static_cast<unsigned>(_mm256_movemask_ps((__m256)mask));
#else
  unsigned bits = 0;
  for (int i = 0; i < kLanes; ++i) bits |= (mask[i] < 0 ? 1u : 0u) << i;
  return bits;
#endif
}

inline IVec mask_of(unsigned bits) {
#if defined(__AVX512F__)
  return (IVec)_mm512_movm_epi32(static_cast<__mmask16>(bits));
#else
  IVec lane_bit;
  for (int i = 0; i < kLanes; ++i) lane_bit[i] = 1 << i;
  return ((IVec{} + static_cast<std::int32_t>(bits)) & lane_bit) == lane_bit;
#endif
}

// a where mask is all ones, else b.
inline Vec select(IVec mask, Vec a, Vec b) {
  return mask ? a : b;
}
inline IVec select(IVec mask, IVec a, IVec b) {
  return mask ? a : b;
}

inline Vec absolute(Vec x) {
  return (Vec)((IVec)x & 0x7fffffff);
}

// `size`, which is not negative, with the sign of x.
inline Vec with_sign_of(Vec x, Vec size) {
  return (Vec)((IVec)size | ((IVec)x & ~0x7fffffff));
}

inline Vec square_root(Vec x) {
#if defined(__AVX512F__)
  return (Vec)_mm512_maskz_sqrt_ps(kAllLanes, (__m512)x);
#elif defined(__AVX2__)
  return (Vec)_mm256_sqrt_ps((__m256)x);
#else
  for (int i = 0; i < kLanes; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

inline float largest(Vec v) {
  float result = v[0];
  for (int i = 1; i < kLanes; ++i) result = result > v[i] ? result : v[i];
  return result;
}

// All ones in the first `lanes` lanes.
inline IVec first_lanes(int lanes) {
  IVec index;
  for (int i = 0; i < kLanes; ++i) index[i] = i;
  return index < (IVec{} + lanes);
}

// The ends of runs that are not a multiple of kLanes long: `lanes` < kLanes floats, the others 0 and never touched.
#if defined(__AVX2__)
#define TRIFOLD_PARTIAL inline
#else
#define TRIFOLD_PARTIAL [[gnu::noinline]] inline  // long without masked loads, and rarely run
#endif
TRIFOLD_PARTIAL Vec load_partial(const float* p, int lanes) {
#if defined(__AVX512F__)
  return (Vec)_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << lanes) - 1), p);
#elif defined(__AVX2__)
  return (Vec)_mm256_maskload_ps(p, (__m256i)first_lanes(lanes));
#else
  Vec v{};
  for (int i = 0; i < kLanes; ++i) v[i] = i < lanes ? p[i] : 0.0f;
  return v;
#endif
}

TRIFOLD_PARTIAL void store_partial(float* p, Vec v, int lanes) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << lanes) - 1), (__m512)v);
#elif defined(__AVX2__)
  _mm256_maskstore_ps(p, (__m256i)first_lanes(lanes), (__m256)v);
#else
  for (int i = 0; i < kLanes; ++i) {
    if (i < lanes) p[i] = v[i];
  }
#endif
}

// Float partial sums added to doubles, lane by lane.
typedef double DVec __attribute__((vector_size(kLanes * sizeof(double))));
typedef double DVecU __attribute__((vector_size(kLanes * sizeof(double)), aligned(8), may_alias));

inline void add_to(double* totals, Vec v) {
  *reinterpret_cast<DVecU*>(totals) += __builtin_convertvector(v, DVec);
}

inline double sum_double(Vec v) {
  double total = 0;
  for (int i = 0; i < kLanes; ++i) total += v[i];
  return total;
}

// Small unsigned numbers kept a byte each.
inline IVec load_bytes(const std::uint8_t* p) {
#if defined(__AVX512F__)
  return (IVec)_mm512_maskz_cvtepu8_epi32(kAllLanes, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(__AVX2__)
  return (IVec)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#else
  IVec v;
  for (int i = 0; i < kLanes; ++i) v[i] = p[i];
  return v;
#endif
}

inline void store_bytes(std::uint8_t* p, IVec v) {
#if defined(__AVX512F__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_maskz_cvtepi32_epi8(kAllLanes, (__m512i)v));
#elif defined(__AVX2__)
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(words, words));
#else
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<std::uint8_t>(v[i]);
#endif
}

}  // namespace trifold::cpu::TRIFOLD_ISA
