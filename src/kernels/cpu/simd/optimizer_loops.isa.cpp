// The loops of optimizer_loops.h.
#include "kernels/cpu/simd/optimizer_loops.h"

#include "kernels/cpu/simd/channel_rows.h"

namespace trifold::cpu::TRIFOLD_ISA {

extern const OptimizerLoops optimizer_loops_table;

namespace {

enum class Momentum { none, classic, nesterov };

template <Momentum kMomentum>
void sgd_as(const SgdArgs& args, Range elements) {
  float* weights = args.weights + elements.begin;
  const float* gradients = args.gradients + elements.begin;
  float* velocity = kMomentum == Momentum::none ? nullptr : args.velocity + elements.begin;
  const Vec rate = broadcast(-args.rate), momentum = broadcast(args.momentum), decay = broadcast(args.weight_decay);
  const Vec gradient_scale = broadcast(args.gradient_scale);
  for_each_vector(elements, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
    const Vec weight = part.load(weights + i);
    const Vec g = fma(weight, decay, part.load(gradients + i) * gradient_scale);
    Vec step = g;
    if constexpr (kMomentum != Momentum::none) {
      step = fma(part.load(velocity + i), momentum, g);
      part.store(velocity + i, step);
    }
    if constexpr (kMomentum == Momentum::nesterov) step = fma(step, momentum, g);
    part.store(weights + i, fma(step, rate, weight));
  });
}

void sgd(const SgdArgs& args, Range elements) {
  if (args.velocity == nullptr) return sgd_as<Momentum::none>(args, elements);
  if (args.nesterov) return sgd_as<Momentum::nesterov>(args, elements);
  sgd_as<Momentum::classic>(args, elements);
}

template <bool kDecoupled>
void adam_as(const AdamArgs& args, Range elements) {
  float* weights = args.weights + elements.begin;
  const float* gradients = args.gradients + elements.begin;
  float* means = args.mean + elements.begin;
  float* squares = args.square + elements.begin;
  const Vec gradient_scale = broadcast(args.gradient_scale), decay = broadcast(args.weight_decay);
  const Vec beta1 = broadcast(args.beta1), beta2 = broadcast(args.beta2), eps = broadcast(args.eps);
  const Vec rest1 = broadcast(1.0f - args.beta1), rest2 = broadcast(1.0f - args.beta2);
  const Vec rate = broadcast(static_cast<float>(-args.rate / args.mean_correction));
  const Vec root_correction = broadcast(static_cast<float>(1.0 / __builtin_sqrt(args.square_correction)));
  const Vec shrink = broadcast(1.0f - args.rate * args.weight_decay);
  for_each_vector(elements, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
    Vec weight = part.load(weights + i);
    Vec g = part.load(gradients + i) * gradient_scale;
    if constexpr (kDecoupled) {
      weight *= shrink;
    } else {
      g = fma(weight, decay, g);
    }
    const Vec mean = fma(part.load(means + i), beta1, g * rest1);
    const Vec square = fma(part.load(squares + i), beta2, g * g * rest2);
    part.store(means + i, mean);
    part.store(squares + i, square);
    part.store(weights + i, fma(mean / fma(square_root(square), root_correction, eps), rate, weight));
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
  const Vec gradient_scale = broadcast(args.gradient_scale), decay = broadcast(args.weight_decay);
  const Vec rate = broadcast(-args.rate), initial = broadcast(args.initial), eps = broadcast(args.eps);
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
