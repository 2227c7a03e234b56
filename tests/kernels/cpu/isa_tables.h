// The loops of each instruction set, for tests that run them all and not only those this machine would choose.
#pragma once

#include "kernels/cpu/simd/isa.h"

// Defines accessor_of(Isa), the family's table of that instruction set.
#if defined(__x86_64__)
#define TRIFOLD_TEST_TABLES(Table, accessor)                     \
  namespace trifold::cpu {                                       \
  namespace generic {                                            \
  extern const Table accessor##_table;                           \
  }                                                              \
  namespace avx2 {                                               \
  extern const Table accessor##_table;                           \
  }                                                              \
  namespace TRIFOLD_AVX512 {                                     \
  extern const Table accessor##_table;                           \
  }                                                              \
  static const Table& accessor##_of(Isa isa) {                   \
    return isa == Isa::avx512 ? TRIFOLD_AVX512::accessor##_table \
           : isa == Isa::avx2 ? avx2::accessor##_table           \
                              : generic::accessor##_table;       \
  }                                                              \
  }
#else
#define TRIFOLD_TEST_TABLES(Table, accessor) \
  namespace trifold::cpu {                   \
  namespace generic {                        \
  extern const Table accessor##_table;       \
  }                                          \
  static const Table& accessor##_of(Isa) {   \
    return generic::accessor##_table;        \
  }                                          \
  }
#endif
