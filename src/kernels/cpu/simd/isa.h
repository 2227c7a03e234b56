// Which instruction set our own loops run on. A family of loops (batch_norm_loops.h, say) declares a struct of function
// pointers and an accessor; its *.isa.cpp defines one table per instruction set; TRIFOLD_DISPATCH defines the accessor.
#pragma once

namespace trifold::cpu {

enum class Isa { generic, avx2, avx512 };

// The widest set that this machine executes and TRIFOLD_MAX_ISA (generic, avx2, avx512) allows. Decided once.
Isa active_isa();
const char* isa_name(Isa isa);

// Lanes of a vector: also the channel block of blocked activations (nChw8c, nChw16c).
int simd_lanes();

}  // namespace trifold::cpu

// A build for this machine alone may leave out what it does not execute.
#if defined(TRIFOLD_NO_AVX512)
#define TRIFOLD_AVX512 avx2
#else
#define TRIFOLD_AVX512 avx512
#endif

#if defined(__x86_64__)
#define TRIFOLD_DISPATCH(Table, accessor)        \
  namespace trifold::cpu {                       \
  namespace generic {                            \
  extern const Table accessor##_table;           \
  }                                              \
  namespace avx2 {                               \
  extern const Table accessor##_table;           \
  }                                              \
  namespace TRIFOLD_AVX512 {                     \
  extern const Table accessor##_table;           \
  }                                              \
  const Table& accessor() {                      \
    switch (active_isa()) {                      \
      case Isa::avx512:                          \
        return TRIFOLD_AVX512::accessor##_table; \
      case Isa::avx2:                            \
        return avx2::accessor##_table;           \
      case Isa::generic:                         \
        break;                                   \
    }                                            \
    return generic::accessor##_table;            \
  }                                              \
  }
#else
#define TRIFOLD_DISPATCH(Table, accessor) \
  namespace trifold::cpu {                \
  namespace generic {                     \
  extern const Table accessor##_table;    \
  }                                       \
  const Table& accessor() {               \
    return generic::accessor##_table;     \
  }                                       \
  }
#endif
