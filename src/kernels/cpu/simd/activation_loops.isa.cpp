// The loops of activation_loops.h.
#include "kernels/cpu/simd/activation_loops.h"

#include "kernels/cpu/simd/channel_rows.h"
#include "kernels/cpu/simd/vec_number.h"

namespace trifold::cpu::TRIFOLD_ISA {

extern const ActivationLoops activation_loops_table;

namespace {

template <class Function>
void forward(const ActivationForwardArgs& args, Range elements) {
  const float* x = args.x + elements.begin;
  float* y = args.y + elements.begin;
  const VecNumber parameters[] = {args.parameters[0], args.parameters[1]};
  for_each_vector(elements, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
    part.store(y + i, AppliedActivation<Function>::value(VecNumber(part.load(x + i)), parameters).lanes);
  });
}

template <class Function>
void backward(const ActivationBackwardArgs& args, Range elements) {
  const float* dy = args.dy + elements.begin;
  const float* saved = args.saved + elements.begin;
  float* dx = args.dx + elements.begin;
  const VecNumber parameters[] = {args.parameters[0], args.parameters[1]};
  for_each_vector(elements, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
    const VecNumber kept = part.load(saved + i);
    part.store(dx + i, AppliedActivation<Function>::gradient(VecNumber(part.load(dy + i)), kept, parameters).lanes);
  });
}

}  // namespace

#define TRIFOLD_FORWARD(name, Function) forward<Function>,
#define TRIFOLD_BACKWARD(name, Function) backward<Function>,
const ActivationLoops activation_loops_table = {{TRIFOLD_FOR_EACH_ACTIVATION(TRIFOLD_FORWARD)},
                                                {TRIFOLD_FOR_EACH_ACTIVATION(TRIFOLD_BACKWARD)}};

}  // namespace trifold::cpu::TRIFOLD_ISA
