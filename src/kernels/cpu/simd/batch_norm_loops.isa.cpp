// The loops of batch_norm_loops.h. Every variant is a template instance: inner loops hold no branches.
#include "kernels/cpu/simd/batch_norm_loops.h"

#include "kernels/cpu/simd/channel_rows.h"

namespace trifold::cpu::TRIFOLD_ISA {

// Tables are defined below; the declaration gives them external linkage.
extern const BatchNormLoops batch_norm_loops_table;

namespace {

enum class Residual { none, plain, scaled };
enum class Relu { none, plain, mask };
enum class Gate { none, from_x, mask };

void center(const BatchNormCenterArgs& args, Range samples) {
  constexpr int kValues = 8;
  // Multiples of the golden ratio: equal steps may all fall into one column of the images, such as a black edge.
  constexpr std::uint64_t kStep = 0x9E3779B9;  // of 2^32
  const std::int64_t pixels = args.view.pixels, values = (samples.end - samples.begin) * pixels;
  const float* places[kValues];  // in the first channel
  for (int k = 0; k < kValues; ++k) {
    const std::uint64_t fraction = (static_cast<std::uint64_t>(k) * kStep + 0x80000000) & 0xFFFFFFFF;
    const auto value = static_cast<std::int64_t>(static_cast<std::uint64_t>(values) * fraction >> 32);
    places[k] = args.x + (samples.begin + value / pixels) * sample_elements(args.view) +
                value % pixels * (args.view.blocked ? kLanes : 1);
  }
  for_each_row(args.view, [&](const Row& row, auto channel) TRIFOLD_INLINE {
    const auto value = [&](int k) TRIFOLD_INLINE { return channel.leading(places[k] + row.offset); };
    // Sums of pairs do not round where all values are equal.
    const Vec sum = ((value(0) + value(1)) + (value(2) + value(3))) + ((value(4) + value(5)) + (value(6) + value(7)));
    channel.set(args.center, sum * broadcast(1.0f / kValues));
  });
}

void statistics(const BatchNormStatisticsArgs& args, Range samples) {
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    const float* sample = args.x + n * sample_elements(args.view);
    for_each_row(args.view, [&](const Row& row, auto channel) TRIFOLD_INLINE {
      const float* x = sample + row.offset;
      const Vec center = channel(args.center);
      reduce_vectors(
          row.vectors, row.tail,
          [&](std::int64_t i, auto part, Sums& sums) TRIFOLD_INLINE {
            const Vec difference = part.valid(part.load(x + i) - center);
            sums.a += difference;
            sums.b = fma(difference, difference, sums.b);
          },
          [&](const Sums& sums) TRIFOLD_INLINE {
            channel.add(args.sum, sums.a);
            channel.add(args.sum_squares, sums.b);
          });
    });
  }
}

template <Residual kResidual, Relu kRelu>
void apply_as(const BatchNormApplyArgs& args, Range samples) {
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    const std::int64_t start = n * sample_elements(args.view);
    const std::int64_t mask_start = n * mask_bytes(args.view);
    for_each_row(args.view, [&](const Row& row, auto channel) TRIFOLD_INLINE {
      const std::int64_t offset = start + row.offset;
      const float* x = args.x + offset;
      const float* residual = kResidual == Residual::none ? nullptr : args.residual + offset;
      float* y = args.y + offset;
      std::uint8_t* mask = kRelu == Relu::mask ? args.mask + mask_start + row.mask_offset : nullptr;
      const Vec mean = channel(args.mean), scale = channel(args.scale), shift = channel(args.shift);
      Vec residual_scale{};
      if constexpr (kResidual == Residual::scaled) residual_scale = channel(args.residual_scale);
      for_each_vector(row.vectors, row.tail, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
        Vec value = fma(part.load(x + i) - mean, scale, shift);
        if constexpr (kResidual == Residual::plain) value += part.load(residual + i);
        if constexpr (kResidual == Residual::scaled) value = fma(part.load(residual + i), residual_scale, value);
        if constexpr (kRelu == Relu::mask) part.store_mask(mask + i / 8, value > zero());
        if constexpr (kRelu != Relu::none) value = max(zero(), value);  // in this order a NaN stays a NaN
        part.store(y + i, value);
      });
    });
  }
}

template <Residual kResidual>
void apply_with(const BatchNormApplyArgs& args, Range samples) {
  if (!args.relu) return apply_as<kResidual, Relu::none>(args, samples);
  if (args.mask == nullptr) return apply_as<kResidual, Relu::plain>(args, samples);
  apply_as<kResidual, Relu::mask>(args, samples);
}

void apply(const BatchNormApplyArgs& args, Range samples) {
  if (args.residual == nullptr) return apply_with<Residual::none>(args, samples);
  if (args.residual_scale == nullptr) return apply_with<Residual::plain>(args, samples);
  apply_with<Residual::scaled>(args, samples);
}

// The gate of one row.
template <Gate kGate>
struct RowGate {
  const std::uint8_t* mask = nullptr;
  Vec scale{}, shift{};

  template <class Channel>
  RowGate(const ReluGate& gate, std::int64_t mask_offset, const Channel& channel) {
    if constexpr (kGate == Gate::mask) mask = gate.mask + mask_offset;
    if constexpr (kGate == Gate::from_x) {
      scale = channel(gate.scale);
      shift = channel(gate.shift);
    }
  }

  template <class Part>
  TRIFOLD_INLINE Vec operator()(Vec d, Vec from_mean, std::int64_t i, const Part& part) const {
    if constexpr (kGate == Gate::mask) return keep(part.load_mask(mask + i / 8), d);
    if constexpr (kGate == Gate::from_x) return keep(fma(from_mean, scale, shift) > zero(), d);
    return d;
  }
};

template <Gate kGate, bool kSecondGradient, bool kSecondX, bool kWrite>
void backward_reduce_as(const BatchNormBackwardReduceArgs& args, Range samples) {
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    const std::int64_t start = n * sample_elements(args.view);
    const std::int64_t mask_start = n * mask_bytes(args.view);
    for_each_row(args.view, [&](const Row& row, auto channel) TRIFOLD_INLINE {
      const std::int64_t offset = start + row.offset;
      const float* dy = args.dy + offset;
      const float* dy2 = kSecondGradient ? args.dy2 + offset : nullptr;
      const float* x = args.x + offset;
      const float* x2 = kSecondX ? args.x2 + offset : nullptr;
      float* d_out = kWrite ? args.d + offset : nullptr;
      const RowGate<kGate> gate(args.gate, mask_start + row.mask_offset, channel);
      const Vec mean = channel(args.mean);
      Vec mean2{};
      if constexpr (kSecondX) mean2 = channel(args.mean2);
      reduce_vectors(
          row.vectors, row.tail,
          [&](std::int64_t i, auto part, Sums& sums) TRIFOLD_INLINE {
            // The other lanes of a part are 0 in dy and so in every product.
            Vec d = part.load(dy + i);
            if constexpr (kSecondGradient) d += part.load(dy2 + i);
            const Vec from_mean = part.load(x + i) - mean;
            d = gate(d, from_mean, i, part);
            sums.a += d;
            sums.b = fma(d, from_mean, sums.b);
            if constexpr (kSecondX) sums.c = fma(d, part.load(x2 + i) - mean2, sums.c);
            if constexpr (kWrite) part.store(d_out + i, d);
          },
          [&](const Sums& sums) TRIFOLD_INLINE {
            channel.add(args.sum_d, sums.a);
            channel.add(args.sum_dx, sums.b);
            if constexpr (kSecondX) channel.add(args.sum_dx2, sums.c);
          });
    });
  }
}

template <Gate kGate, bool kSecondGradient>
void backward_reduce_with(const BatchNormBackwardReduceArgs& args, Range samples) {
  const bool second_x = args.x2 != nullptr, write = args.d != nullptr;
  if (second_x && write) return backward_reduce_as<kGate, kSecondGradient, true, true>(args, samples);
  if (second_x) return backward_reduce_as<kGate, kSecondGradient, true, false>(args, samples);
  if (write) return backward_reduce_as<kGate, kSecondGradient, false, true>(args, samples);
  backward_reduce_as<kGate, kSecondGradient, false, false>(args, samples);
}

template <Gate kGate>
void backward_reduce_gated(const BatchNormBackwardReduceArgs& args, Range samples) {
  if (args.dy2 != nullptr) return backward_reduce_with<kGate, true>(args, samples);
  backward_reduce_with<kGate, false>(args, samples);
}

void backward_reduce(const BatchNormBackwardReduceArgs& args, Range samples) {
  if (args.gate.mask != nullptr) return backward_reduce_gated<Gate::mask>(args, samples);
  if (args.gate.scale != nullptr) return backward_reduce_gated<Gate::from_x>(args, samples);
  backward_reduce_gated<Gate::none>(args, samples);
}

template <Gate kGate>
void backward_input_as(const BatchNormBackwardInputArgs& args, Range samples) {
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    const std::int64_t start = n * sample_elements(args.view);
    const std::int64_t mask_start = n * mask_bytes(args.view);
    for_each_row(args.view, [&](const Row& row, auto channel) TRIFOLD_INLINE {
      const std::int64_t offset = start + row.offset;
      const float* d_in = args.d + offset;
      const float* x = args.x + offset;
      float* dx = args.dx + offset;
      const RowGate<kGate> gate(args.gate, mask_start + row.mask_offset, channel);
      const Vec mean = channel(args.mean), p = channel(args.p), q = channel(args.q), r = channel(args.r);
      for_each_vector(row.vectors, row.tail, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
        const Vec from_mean = part.load(x + i) - mean;
        const Vec d = gate(part.load(d_in + i), from_mean, i, part);
        part.store(dx + i, fma(p, d, fma(q, from_mean, r)));
      });
    });
  }
}

void backward_input(const BatchNormBackwardInputArgs& args, Range samples) {
  if (args.gate.mask != nullptr) return backward_input_as<Gate::mask>(args, samples);
  if (args.gate.scale != nullptr) return backward_input_as<Gate::from_x>(args, samples);
  backward_input_as<Gate::none>(args, samples);
}

}  // namespace

const BatchNormLoops batch_norm_loops_table = {center, statistics, apply, backward_reduce, backward_input};

}  // namespace trifold::cpu::TRIFOLD_ISA
