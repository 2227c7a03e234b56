#include "kernels/cpu/simd/isa.h"

#include <cstdlib>
#include <string_view>

namespace trifold::cpu {
namespace {

Isa detect() {
#if defined(__x86_64__)
  const char* limit = std::getenv("TRIFOLD_MAX_ISA");
  const std::string_view allowed = limit ? limit : "avx512";
  if (allowed == "generic") return Isa::generic;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (avx512 && allowed == "avx512") return Isa::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::avx2;
#endif
  return Isa::generic;
}

}  // namespace

Isa active_isa() {
  static const Isa isa = detect();
  return isa;
}

const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return "avx512";
    case Isa::avx2:
      return "avx2";
    case Isa::generic:
      break;
  }
  return "generic";
}

int simd_lanes() {
  return active_isa() == Isa::avx512 ? 16 : 8;
}

}  // namespace trifold::cpu
