// Between float and the 16-bit types, on the calling thread, over a range of elements. Rounded to the nearest even.
#pragma once

#include <cstdint>

#include "core/parallel.h"

namespace trifold::cpu {

struct HalfLoops {
  void (*f16_to_float)(const std::uint16_t* from, float* to, Range elements);
  void (*bf16_to_float)(const std::uint16_t* from, float* to, Range elements);
  void (*float_to_f16)(const float* from, std::uint16_t* to, Range elements);
  void (*float_to_bf16)(const float* from, std::uint16_t* to, Range elements);
};

const HalfLoops& half_loops();

}  // namespace trifold::cpu
