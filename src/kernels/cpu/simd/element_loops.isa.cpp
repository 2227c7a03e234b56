// The loops of element_loops.h.
#include "kernels/cpu/simd/element_loops.h"

#include "kernels/cpu/simd/channel_rows.h"

namespace trifold::cpu::TRIFOLD_ISA {

extern const ElementLoops element_loops_table;

namespace {

// The layout does not matter here: the samples are one run.
template <bool kRelu>
void add_flat(const AddArgs& args, Range samples) {
  const std::int64_t size = sample_elements(args.view), start = samples.begin * size;
  const float* a = args.a + start;
  const float* b = args.b + start;
  float* y = args.y + start;
  for_each_vector(Range{0, (samples.end - samples.begin) * size}, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
    const Vec value = part.load(a + i) + part.load(b + i);
    part.store(y + i, kRelu ? max(zero(), value) : value);
  });
}

void add_with_mask(const AddArgs& args, Range samples) {
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    const std::int64_t start = n * sample_elements(args.view), mask_start = n * mask_bytes(args.view);
    for_each_row(args.view, [&](const Row& row, auto) TRIFOLD_INLINE {
      const float* a = args.a + start + row.offset;
      const float* b = args.b + start + row.offset;
      float* y = args.y + start + row.offset;
      std::uint8_t* mask = args.mask + mask_start + row.mask_offset;
      for_each_vector(row.vectors, row.tail, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
        const Vec value = part.load(a + i) + part.load(b + i);
        part.store_mask(mask + i / 8, value > zero());
        part.store(y + i, max(zero(), value));
      });
    });
  }
}

void add(const AddArgs& args, Range samples) {
  if (!args.relu) return add_flat<false>(args, samples);
  if (args.mask == nullptr) return add_flat<true>(args, samples);
  add_with_mask(args, samples);
}

void mask_backward(const MaskBackwardArgs& args, Range samples) {
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    const std::int64_t start = n * sample_elements(args.view), mask_start = n * mask_bytes(args.view);
    for_each_row(args.view, [&](const Row& row, auto) TRIFOLD_INLINE {
      const float* dy = args.dy + start + row.offset;
      float* dx = args.dx + start + row.offset;
      const std::uint8_t* mask = args.mask + mask_start + row.mask_offset;
      for_each_vector(row.vectors, row.tail, [&](std::int64_t i, auto part) TRIFOLD_INLINE {
        part.store(dx + i, keep(part.load_mask(mask + i / 8), part.load(dy + i)));
      });
    });
  }
}

void bias_add(const BiasAddArgs& args, Range samples) {
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    const std::int64_t start = n * sample_elements(args.view);
    for_each_row(args.view, [&](const Row& row, auto channel) TRIFOLD_INLINE {
      const float* x = args.x + start + row.offset;
      float* y = args.y + start + row.offset;
      const Vec bias = channel(args.bias);
      for_each_vector(row.vectors, row.tail,
                      [&](std::int64_t i, auto part) TRIFOLD_INLINE { part.store(y + i, part.load(x + i) + bias); });
    });
  }
}

void channel_sum(const ChannelSumArgs& args, Range samples) {
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    const float* sample = args.x + n * sample_elements(args.view);
    for_each_row(args.view, [&](const Row& row, auto channel) TRIFOLD_INLINE {
      const float* x = sample + row.offset;
      reduce_vectors(
          row.vectors, row.tail,
          [&](std::int64_t i, auto part, Sums& sums) TRIFOLD_INLINE { sums.a += part.load(x + i); },
          [&](const Sums& sums) TRIFOLD_INLINE { channel.add(args.sum, sums.a); });
    });
  }
}

void add_in_place(const float* x, float* y, Range elements) {
  const float* from = x + elements.begin;
  float* to = y + elements.begin;
  for_each_vector(elements, [&](std::int64_t i, auto part)
                                TRIFOLD_INLINE { part.store(to + i, part.load(to + i) + part.load(from + i)); });
}

void scale(const float* x, float factor, float* y, Range elements) {
  const float* from = x + elements.begin;
  float* to = y + elements.begin;
  for_each_vector(elements,
                  [&](std::int64_t i, auto part) TRIFOLD_INLINE { part.store(to + i, part.load(from + i) * factor); });
}

}  // namespace

const ElementLoops element_loops_table = {add, mask_backward, bias_add, channel_sum, add_in_place, scale};

}  // namespace trifold::cpu::TRIFOLD_ISA
