// The loops of optimizer_loops.h.
#include "kernels/cpu/simd/optimizer_loops.h"

#include "kernels/cpu/simd/channel_rows.h"

namespace trifold::cpu::TRIFOLD_ISA {

extern const OptimizerLoops optimizer_loops_table;

namespace {

Vec rounded(double value) {
  return broadcast(static_cast<float>(value));
}

// decay * average + added, with the decay split into 0 or 1 and a small rest. A single float is too coarse near 1: an
// average settles at added / (1 - decay), where the rounding error of 0.999 becomes a relative error of 1.3e-5.
struct Average {
  Vec whole, rest;

  explicit Average(double decay)
      : whole(rounded(decay < 0.5 ? 0 : 1)), rest(rounded(decay < 0.5 ? decay : decay - 1)) {}
  TRIFOLD_INLINE Vec operator()(Vec average, Vec added) const { return fma(average, whole, fma(average, rest, added)); }
};

enum class Momentum { none, classic, nesterov };

template <Momentum kMomentum>
void sgd_as(const SgdArgs& args, Range elements) {
  float* weights = args.weights + elements.begin;
  const float* gradients = args.gradients + elements.begin;
  float* velocity = kMomentum == Momentum::none ? nullptr : args.velocity + elements.begin;
  const Average momentum(args.momentum);
  const Vec rate = rounded(-args.rate), decay = rounded(args.weight_decay);
  const Vec gradient_scale = rounded(args.gradient_scale);
  for_each_vector(elements, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
    const Vec weight = part.load(weights + i);
    const Vec g = fma(weight, decay, part.load(gradients + i) * gradient_scale);
    Vec step = g;
    if constexpr (kMomentum != Momentum::none) {
      step = momentum(part.load(velocity + i), g);
      part.store(velocity + i, step);
    }
    if constexpr (kMomentum == Momentum::nesterov) step = momentum(step, g);
    part.store(weights + i, fma(step, rate, weight));
  });
}

void sgd(const SgdArgs& args, Range elements) {
  if (args.velocity == nullptr) return sgd_as<Momentum::none>(args, elements);
  if (args.nesterov) return sgd_as<Momentum::nesterov>(args, elements);
  sgd_as<Momentum::classic>(args, elements);
}

// 1 - beta^updates, without the cancellation of a beta near 1.
double correction(double beta, std::int64_t updates) {
  return -__builtin_expm1(static_cast<double>(updates) * __builtin_log(beta));
}

template <bool kDecoupled>
void adam_as(const AdamArgs& args, Range elements) {
  float* weights = args.weights + elements.begin;
  const float* gradients = args.gradients + elements.begin;
  float* means = args.mean + elements.begin;
  float* squares = args.square + elements.begin;
  const Average mean_of(args.beta1), square_of(args.beta2);
  const Vec rest1 = rounded(1 - args.beta1), rest2 = rounded(1 - args.beta2);
  const Vec gradient_scale = rounded(args.gradient_scale), eps = rounded(args.eps);
  const Vec rate = rounded(-args.rate / correction(args.beta1, args.updates));
  const Vec root_correction = rounded(1 / __builtin_sqrt(correction(args.beta2, args.updates)));
  const Vec decay = rounded(kDecoupled ? -args.rate * args.weight_decay : args.weight_decay);
  for_each_vector(elements, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
    const Vec weight = part.load(weights + i);
    Vec g = part.load(gradients + i) * gradient_scale;
    if constexpr (!kDecoupled) g = fma(weight, decay, g);
    const Vec mean = mean_of(part.load(means + i), g * rest1);
    const Vec square = square_of(part.load(squares + i), g * g * rest2);
    part.store(means + i, mean);
    part.store(squares + i, square);
    const Vec direction = mean / fma(square_root(square), root_correction, eps);
    if constexpr (kDecoupled) {
      // Decay and step are added up first: a factor 1 - rate * weight_decay would round small decays away.
      part.store(weights + i, weight + fma(direction, rate, weight * decay));
    } else {
      part.store(weights + i, fma(direction, rate, weight));
    }
  });
}

void adam(const AdamArgs& args, Range elements) {
  adam_as<false>(args, elements);
}
void adamw(const AdamArgs& args, Range elements) {
  adam_as<true>(args, elements);
}

void adagrad(const AdagradArgs& args, Range elements) {
  float* weights = args.weights + elements.begin;
  const float* gradients = args.gradients + elements.begin;
  float* sums = args.sum + elements.begin;
  const Vec gradient_scale = rounded(args.gradient_scale), decay = rounded(args.weight_decay);
  const Vec rate = rounded(-args.rate), initial = rounded(args.initial), eps = rounded(args.eps);
  for_each_vector(elements, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
    const Vec weight = part.load(weights + i);
    const Vec g = fma(weight, decay, part.load(gradients + i) * gradient_scale);
    const Vec sum = fma(g, g, part.load(sums + i));
    part.store(sums + i, sum);
    part.store(weights + i, fma(g / (square_root(sum + initial) + eps), rate, weight));
  });
}

double sum_of_squares(const float* x, Range elements) {
  const float* start = x + elements.begin;
  const std::int64_t count = elements.end - elements.begin;
  double total = 0;
  if (count <= 0) return total;
  reduce_vectors(
      count / kLanes, static_cast<int>(count % kLanes),
      [&](std::int64_t i, auto part, Sums& sums) TRIFOLD_INLINE {
        const Vec value = part.load(start + i);
        sums.a = fma(value, value, sums.a);
      },
      [&](const Sums& sums) TRIFOLD_INLINE { total += sum_double(sums.a); });
  return total;
}

void scale(float* x, float factor, Range elements) {
  float* start = x + elements.begin;
  for_each_vector(elements, [&](std::int64_t i, auto part)
                                TRIFOLD_INLINE { part.store(start + i, part.load(start + i) * factor); });
}

}  // namespace

const OptimizerLoops optimizer_loops_table = {sgd, adam, adamw, adagrad, sum_of_squares, scale};

}  // namespace trifold::cpu::TRIFOLD_ISA
