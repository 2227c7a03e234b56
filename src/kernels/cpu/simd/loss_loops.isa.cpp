// The loops of loss_loops.h. A row is read three times (largest, sum of exponentials, result) while it is in the cache.
#include "kernels/cpu/simd/loss_loops.h"

#include "kernels/cpu/simd/channel_rows.h"
#include "kernels/cpu/simd/vec_math.h"

namespace trifold::cpu::TRIFOLD_ISA {

extern const LossLoops loss_loops_table;

namespace {

float largest_of(const float* x, std::int64_t count) {
  if (count < kLanes) {
    float result = x[0];
    for (std::int64_t i = 1; i < count; ++i) result = result > x[i] ? result : x[i];
    return result;
  }
  Vec best = load(x);
  for (std::int64_t i = kLanes; i + kLanes <= count; i += kLanes) best = max(best, load(x + i));
  return largest(max(best, load(x + count - kLanes)));  // the last vector overlaps the one before
}

template <class Body>
TRIFOLD_INLINE inline double sum_of(std::int64_t count, Body body) {
  double total = 0;
  reduce_vectors(
      count / kLanes, static_cast<int>(count % kLanes),
      [&](std::int64_t i, auto part, Sums& sums) TRIFOLD_INLINE { sums.a += part.valid(body(i, part)); },
      [&](const Sums& sums) TRIFOLD_INLINE { total += sum_double(sums.a); });
  return total;
}

// The sum of exp(x - top), which is at least 1 as top is the largest. Writes the terms to `exponentials` where given.
double sum_exponentials(const float* x, float top, std::int64_t count, float* exponentials) {
  return sum_of(count, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
    const Vec e = exponential(part.load(x + i) - top);
    if (exponentials != nullptr) part.store(exponentials + i, e);
    return e;
  });
}

// The label holds the first of the row's largest values.
bool is_first_largest(const float* x, float top, std::int32_t label) {
  if (!(x[label] == top)) return false;
  for (std::int32_t i = 0; i < label; ++i) {
    if (x[i] == top) return false;
  }
  return true;
}

void fill_zero(float* p, std::int64_t count) {
  std::memset(p, 0, static_cast<std::size_t>(count) * sizeof(float));
}

void log_softmax_forward(const LogSoftmaxForwardArgs& args, Range rows) {
  for (std::int64_t n = rows.begin; n < rows.end; ++n) {
    const float* x = args.x + n * args.classes;
    float* y = args.y + n * args.classes;
    const float top = largest_of(x, args.classes);
    const float log_of_sum = static_cast<float>(__builtin_log(sum_exponentials(x, top, args.classes, nullptr)));
    for_each_vector(Range{0, args.classes}, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
      part.store(y + i, (part.load(x + i) - top) - log_of_sum);
    });
  }
}

void log_softmax_backward(const LogSoftmaxBackwardArgs& args, Range rows) {
  for (std::int64_t n = rows.begin; n < rows.end; ++n) {
    const std::int64_t start = n * args.classes;
    const float* dy = args.dy + start;
    const float* y = args.y + start;
    float* dx = args.dx + start;
    const float total = static_cast<float>(
        sum_of(args.classes, [&](std::int64_t i, auto part) TRIFOLD_INLINE { return part.load(dy + i); }));
    for_each_vector(Range{0, args.classes}, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
      part.store(dx + i, part.load(dy + i) - exponential(part.load(y + i)) * total);
    });
  }
}

// The mean of x - from, each times its weight where there are weights.
double mean_difference(const float* x, float from, std::int64_t count, const float* weights) {
  const double sum =
      weights == nullptr
          ? sum_of(count, [&](std::int64_t i, auto part) TRIFOLD_INLINE { return part.load(x + i) - from; })
          : sum_of(count, [&](std::int64_t i, auto part)
                              TRIFOLD_INLINE { return (part.load(x + i) - from) * part.load(weights + i); });
  return sum / static_cast<double>(count);
}

// What a row's targets are made of: label_share at its label, and smoothing / K times the class's weight everywhere.
struct Targets {
  double smoothing = 0;
  double mean_weight = 1;  // of all classes

  explicit Targets(const CrossEntropyArgs& args) : smoothing(args.smoothing) {
    if (args.class_weights == nullptr || args.smoothing == 0) return;
    const auto weight = [&](std::int64_t i, auto part) TRIFOLD_INLINE { return part.load(args.class_weights + i); };
    mean_weight = sum_of(args.classes, weight) / static_cast<double>(args.classes);
  }

  double label_share(const CrossEntropyArgs& args, std::int32_t label) const {
    return (args.class_weights == nullptr ? 1.0 : args.class_weights[label]) * (1 - smoothing);
  }
  double sum(const CrossEntropyArgs& args, double label_share) const {
    return args.class_weights == nullptr ? 1.0 : label_share + smoothing * mean_weight;
  }
};

// gradient = body(i, part, -factor * smoothing / K * weight), for all classes
template <class Body>
TRIFOLD_INLINE inline void store_gradient(const CrossEntropyArgs& args, float* gradient, Body body) {
  const Vec everywhere = broadcast(-args.factor * args.smoothing / static_cast<float>(args.classes));
  if (args.class_weights == nullptr || args.smoothing == 0) {
    for_each_vector(Range{0, args.classes}, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
      part.store(gradient + i, body(i, part, everywhere));
    });
  } else {
    for_each_vector(Range{0, args.classes}, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
      part.store(gradient + i, body(i, part, part.load(args.class_weights + i) * everywhere));
    });
  }
}

LossReport softmax_cross_entropy(const CrossEntropyArgs& args, Range rows) {
  LossReport report;
  const Targets targets(args);
  for (std::int64_t n = rows.begin; n < rows.end; ++n) {
    const float* x = args.input + n * args.classes;
    float* gradient = args.gradient == nullptr ? nullptr : args.gradient + n * args.classes;
    const std::int32_t label = args.labels[n];
    if (label < 0) {
      if (gradient != nullptr) fill_zero(gradient, args.classes);
      continue;
    }
    // Everything that is read from x comes before sum_exponentials, which may write over it. Logits are taken relative
    // to the largest, so that no size of theirs costs digits of the loss.
    const float top = largest_of(x, args.classes);
    const double at_label = static_cast<double>(x[label]) - top;
    const double mean = args.smoothing > 0 ? mean_difference(x, top, args.classes, args.class_weights) : 0;
    const double label_share = targets.label_share(args, label);
    const double target_sum = targets.sum(args, label_share);
    report.correct += is_first_largest(x, top, label) ? 1 : 0;
    const double sum = sum_exponentials(x, top, args.classes, gradient);
    report.loss += target_sum * __builtin_log(sum) - label_share * at_label - targets.smoothing * mean;
    if (gradient == nullptr) continue;
    const Vec scale = broadcast(static_cast<float>(args.factor * target_sum / sum));
    store_gradient(args, gradient, [&](std::int64_t i, auto part, Vec everywhere) TRIFOLD_INLINE {
      return fma(part.load(gradient + i), scale, everywhere);
    });
    gradient[label] -= static_cast<float>(args.factor * label_share);
  }
  return report;
}

LossReport nll(const CrossEntropyArgs& args, Range rows) {
  LossReport report;
  const Targets targets(args);
  for (std::int64_t n = rows.begin; n < rows.end; ++n) {
    const float* log_p = args.input + n * args.classes;
    float* gradient = args.gradient == nullptr ? nullptr : args.gradient + n * args.classes;
    const std::int32_t label = args.labels[n];
    if (label < 0) {
      if (gradient != nullptr) fill_zero(gradient, args.classes);
      continue;
    }
    const double mean = args.smoothing > 0 ? mean_difference(log_p, 0, args.classes, args.class_weights) : 0;
    const double label_share = targets.label_share(args, label);
    report.correct += is_first_largest(log_p, largest_of(log_p, args.classes), label) ? 1 : 0;
    report.loss -= label_share * static_cast<double>(log_p[label]) + targets.smoothing * mean;
    if (gradient == nullptr) continue;
    store_gradient(args, gradient, [](std::int64_t, auto, Vec everywhere) TRIFOLD_INLINE { return everywhere; });
    gradient[label] -= static_cast<float>(args.factor * label_share);
  }
  return report;
}

LossReport squared_error(const SquaredErrorArgs& args, Range rows) {
  LossReport report;
  const Vec scale = broadcast(2 * args.factor);
  for (std::int64_t n = rows.begin; n < rows.end; ++n) {
    const float* y = args.y + n * args.features;
    const float* target = args.target + n * args.features;
    float* gradient = args.gradient == nullptr ? nullptr : args.gradient + n * args.features;
    if (args.labels != nullptr && args.labels[n] < 0) {
      if (gradient != nullptr) fill_zero(gradient, args.features);
      continue;
    }
    report.loss += sum_of(args.features, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
      const Vec difference = part.load(y + i) - part.load(target + i);
      if (gradient != nullptr) part.store(gradient + i, difference * scale);
      return difference * difference;
    });
  }
  return report;
}

}  // namespace

const LossLoops loss_loops_table = {log_softmax_forward, log_softmax_backward, softmax_cross_entropy, nll,
                                    squared_error};

}  // namespace trifold::cpu::TRIFOLD_ISA
