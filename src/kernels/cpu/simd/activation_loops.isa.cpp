// The loops of activation_loops.h.
#include "kernels/cpu/simd/activation_loops.h"

#include "kernels/cpu/simd/channel_rows.h"
#include "kernels/cpu/simd/vec_math.h"

namespace trifold::cpu::TRIFOLD_ISA {

extern const ActivationLoops activation_loops_table;

namespace {

template <class Function>
TRIFOLD_INLINE inline void forward(const ActivationForwardArgs& args, Range elements, Function function) {
  const float* x = args.x + elements.begin;
  float* y = args.y + elements.begin;
  for_each_vector(elements,
                  [&](std::int64_t i, auto part) TRIFOLD_INLINE { part.store(y + i, function(part.load(x + i))); });
}

// derivative(saved, dy) is dx.
template <class Derivative>
TRIFOLD_INLINE inline void backward(const ActivationBackwardArgs& args, Range elements, Derivative derivative) {
  const float* dy = args.dy + elements.begin;
  const float* saved = args.saved + elements.begin;
  float* dx = args.dx + elements.begin;
  for_each_vector(elements, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
    part.store(dx + i, derivative(part.load(saved + i), part.load(dy + i)));
  });
}

void relu(const ActivationForwardArgs& args, Range elements) {
  forward(args, elements, [](Vec x) TRIFOLD_INLINE { return max(zero(), x); });
}

void leaky_relu(const ActivationForwardArgs& args, Range elements) {
  const Vec slope = broadcast(args.slope);
  forward(args, elements, [=](Vec x) TRIFOLD_INLINE { return select(x > zero(), x, x * slope); });
}

void gelu(const ActivationForwardArgs& args, Range elements) {
  forward(args, elements, [](Vec x) TRIFOLD_INLINE { return x * normal_at(x).below; });
}

void sigmoid(const ActivationForwardArgs& args, Range elements) {
  forward(args, elements, [](Vec x) TRIFOLD_INLINE { return logistic(x); });
}

void tanh(const ActivationForwardArgs& args, Range elements) {
  forward(args, elements, [](Vec x) TRIFOLD_INLINE { return hyperbolic_tangent(x); });
}

void relu_backward(const ActivationBackwardArgs& args, Range elements) {
  backward(args, elements, [](Vec y, Vec dy) TRIFOLD_INLINE { return keep(y > zero(), dy); });
}

void leaky_relu_backward(const ActivationBackwardArgs& args, Range elements) {
  const Vec slope = broadcast(args.slope);
  backward(args, elements, [=](Vec y, Vec dy) TRIFOLD_INLINE { return select(y > zero(), dy, dy * slope); });
}

void gelu_backward(const ActivationBackwardArgs& args, Range elements) {
  const Vec inverse_root_two_pi = broadcast(0.39894228040f);
  backward(args, elements, [=](Vec x, Vec dy) TRIFOLD_INLINE {
    const Normal normal = normal_at(x);
    return dy * fma(x * normal.bell, inverse_root_two_pi, normal.below);
  });
}

void sigmoid_backward(const ActivationBackwardArgs& args, Range elements) {
  backward(args, elements, [](Vec y, Vec dy) TRIFOLD_INLINE { return dy * y * (1.0f - y); });
}

void tanh_backward(const ActivationBackwardArgs& args, Range elements) {
  backward(args, elements, [](Vec y, Vec dy) TRIFOLD_INLINE { return dy * (1.0f - y * y); });
}

}  // namespace

const ActivationLoops activation_loops_table = {
    relu,          leaky_relu,          gelu,          sigmoid,          tanh,
    relu_backward, leaky_relu_backward, gelu_backward, sigmoid_backward, tanh_backward};

}  // namespace trifold::cpu::TRIFOLD_ISA
