// The loops of each instruction set, for tests that run them all and not only those this machine would choose.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "kernels/cpu/simd/isa.h"

namespace trifold::cpu {

// Of a test that has an instruction set as its parameter.
inline std::string name_of_isa(const ::testing::TestParamInfo<Isa>& test) {
  return std::string(isa_name(test.param));
}

}  // namespace trifold::cpu

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
