// A vector of floats as the formulas of activations/ use it. It is a class of this instruction set's own, so that the
// formulas compiled for one set are never taken for those of another. For *.isa.cpp files only.
#pragma once

#include "kernels/cpu/simd/vec_math.h"

namespace trifold::cpu::TRIFOLD_ISA {

#define TRIFOLD_NUMBER friend __attribute__((always_inline)) inline

struct VecNumber {
  Vec lanes;

  VecNumber(Vec value) : lanes(value) {}
  VecNumber(double number) : lanes(broadcast(static_cast<float>(number))) {}

  TRIFOLD_NUMBER VecNumber operator-(VecNumber a) { return -a.lanes; }
  TRIFOLD_NUMBER VecNumber operator+(VecNumber a, VecNumber b) { return a.lanes + b.lanes; }
  TRIFOLD_NUMBER VecNumber operator-(VecNumber a, VecNumber b) { return a.lanes - b.lanes; }
  TRIFOLD_NUMBER VecNumber operator*(VecNumber a, VecNumber b) { return a.lanes * b.lanes; }
  TRIFOLD_NUMBER VecNumber operator/(VecNumber a, VecNumber b) { return a.lanes / b.lanes; }
  TRIFOLD_NUMBER IVec operator<(VecNumber a, VecNumber b) { return a.lanes < b.lanes; }
  TRIFOLD_NUMBER IVec operator>(VecNumber a, VecNumber b) { return a.lanes > b.lanes; }

  TRIFOLD_NUMBER VecNumber select(IVec mask, VecNumber a, VecNumber b) {
    return TRIFOLD_ISA::select(mask, a.lanes, b.lanes);
  }
  TRIFOLD_NUMBER VecNumber max(VecNumber a, VecNumber b) { return TRIFOLD_ISA::max(a.lanes, b.lanes); }
  TRIFOLD_NUMBER VecNumber min(VecNumber a, VecNumber b) { return TRIFOLD_ISA::min(a.lanes, b.lanes); }
  TRIFOLD_NUMBER VecNumber fma(VecNumber a, VecNumber b, VecNumber c) {
    return TRIFOLD_ISA::fma(a.lanes, b.lanes, c.lanes);
  }
  TRIFOLD_NUMBER VecNumber exp(VecNumber x) { return exponential(x.lanes); }
  TRIFOLD_NUMBER VecNumber tanh(VecNumber x) { return hyperbolic_tangent(x.lanes); }
  TRIFOLD_NUMBER Normal normal(VecNumber x) { return normal_at(x.lanes); }
};

#undef TRIFOLD_NUMBER

}  // namespace trifold::cpu::TRIFOLD_ISA
