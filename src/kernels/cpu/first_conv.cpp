#include "kernels/cpu/first_conv.h"

#include <algorithm>

#include "core/divide.h"
#include "core/error.h"
#include "core/parallel.h"
#include "kernels/cpu/simd/isa.h"

TRIFOLD_DISPATCH(FirstConvLoops, first_conv_loops)

namespace trifold::cpu {
namespace {

constexpr std::int64_t kCopyFloats = 16 * 1024;  // aimed at for a padded copy: an eighth of L2

void check_size(std::size_t size, std::int64_t expected, const char* what) {
  TRIFOLD_CHECK(size == static_cast<std::size_t>(expected), "{} has {} elements, not {}", what, size, expected);
}

void check_scratch(std::span<std::byte> scratch, std::size_t needed) {
  TRIFOLD_CHECK(scratch.size() >= needed && reinterpret_cast<std::uintptr_t>(scratch.data()) % 64 == 0,
                "scratch of {} bytes, needs {} aligned ones", scratch.size(), needed);
}

}  // namespace

std::int64_t FirstConvShape::out_extent(int dim) const {
  const auto d = static_cast<std::size_t>(dim);
  const std::int64_t room = image[d] + 2 * pad[d] - (kernel[d] - 1) * dilation[d] - 1;
  return room < 0 ? 0 : room / stride[d] + 1;
}

std::int64_t FirstConvShape::stat_groups() const {
  return stat_group == 0 ? 1 : ceil_div(batch, stat_group);
}

bool FirstConv::supports(const FirstConvShape& shape, const FirstConvLoops& loops) {
  return shape.batch > 0 && shape.channels > 0 && shape.out > 0 && shape.out % loops.lanes == 0 &&
         shape.out_extent(0) > 0 && shape.out_extent(1) > 0;
}

FirstConv::FirstConv(const FirstConvShape& shape, int threads, const FirstConvLoops& loops)
    : shape_(shape),
      threads_(threads),
      loops_(&loops),
      out_height_(shape.out_extent(0)),
      out_width_(shape.out_extent(1)) {
  TRIFOLD_CHECK(supports(shape, loops) && threads > 0, "no first convolution to {}x{}x{} on {} threads", shape.out,
                out_height_, out_width_, threads);
  copy_columns_ = out_width_ + (shape.kernel[1] - 1) * shape.dilation[1] / shape.stride[1];
  copy_row_floats_ = shape.channels * shape.stride[1] * copy_columns_;

  const std::int64_t reach = (shape.kernel[0] - 1) * shape.dilation[0] + 1;  // input rows of one output row
  const std::int64_t rows_that_fit = (kCopyFloats / copy_row_floats_ - reach) / shape.stride[0] + 1;
  // At least four rows, or most of the copying would be of rows that the band before had.
  band_rows_ = std::min(out_height_, std::max<std::int64_t>(rows_that_fit, 4));
  bands_ = ceil_div(out_height_, band_rows_);
  copy_floats_ = round_up(((band_rows_ - 1) * shape.stride[0] + reach) * copy_row_floats_, 16);

  for (std::int64_t r = 0; r < shape.kernel[0]; ++r) {
    for (std::int64_t s = 0; s < shape.kernel[1]; ++s) {
      for (std::int64_t c = 0; c < shape.channels; ++c) {
        const std::int64_t column = s * shape.dilation[1];
        taps_.push_back(r * shape.dilation[0] * copy_row_floats_ + c * shape.stride[1] * copy_columns_ +
                        column % shape.stride[1] * copy_columns_ + column / shape.stride[1]);
      }
    }
  }
}

template <class Body>
void FirstConv::for_each_band(std::span<const float> x, int part, float* copy, Body&& body) const {
  const Range bands = share(shape_.batch * bands_, part, threads_);
  for (std::int64_t i = bands.begin; i < bands.end; ++i) {
    const std::int64_t sample = i / bands_;
    const std::int64_t row = i % bands_ * band_rows_;
    const std::int64_t rows = std::min(band_rows_, out_height_ - row);
    loops_->copy({.x = x.data() + sample * shape_.channels * shape_.image[0] * shape_.image[1],
                  .channels = shape_.channels,
                  .height = shape_.image[0],
                  .width = shape_.image[1],
                  .first_row = row * shape_.stride[0] - shape_.pad[0],
                  .rows = (rows - 1) * shape_.stride[0] + (shape_.kernel[0] - 1) * shape_.dilation[0] + 1,
                  .phases = shape_.stride[1],
                  .columns = copy_columns_,
                  .pad = shape_.pad[1],
                  .out = copy});
    body(sample, row,
         FirstConvBand{.x = copy,
                       .x_row_step = shape_.stride[0] * copy_row_floats_,
                       .taps = taps_.data(),
                       .tap_count = std::ssize(taps_),
                       .rows = rows,
                       .columns = out_width_,
                       .out_vectors = shape_.out / loops_->lanes,
                       .plane_floats = out_height_ * out_width_ * loops_->lanes});
  }
}

// Scratch: a padded copy for each part, then sums and sums of squares for each part, [part][2][groups][O].
std::size_t FirstConv::forward_scratch_bytes() const {
  const std::int64_t sums = 2 * shape_.stat_groups() * shape_.out;
  return static_cast<std::size_t>(threads_) *
         (static_cast<std::size_t>(copy_floats_) * sizeof(float) + static_cast<std::size_t>(sums) * sizeof(double));
}

void FirstConv::forward(const FirstConvForwardArgs& args, std::span<std::byte> scratch) const {
  const std::int64_t sample_floats = shape_.out * out_height_ * out_width_;
  const std::int64_t sums = shape_.stat_groups() * shape_.out;
  const bool statistics = !args.stat_sum.empty();
  check_size(args.x.size(), shape_.batch * shape_.channels * shape_.image[0] * shape_.image[1], "x");
  check_size(args.w.size(), shape_.out * std::ssize(taps_), "w");
  check_size(args.y.size(), shape_.batch * sample_floats, "y");
  if (!args.bias.empty()) check_size(args.bias.size(), shape_.out, "bias");
  if (!args.stat_center.empty()) check_size(args.stat_center.size(), shape_.out, "stat_center");
  if (statistics) check_size(args.stat_sum.size(), sums, "stat_sum");
  check_size(args.stat_sumsq.size(), statistics ? sums : 0, "stat_sumsq");
  check_scratch(scratch, forward_scratch_bytes());

  float* const copies = reinterpret_cast<float*>(scratch.data());
  double* const partial = reinterpret_cast<double*>(copies + threads_ * copy_floats_);
  const std::int64_t group = shape_.stat_group == 0 ? shape_.batch : shape_.stat_group;
  parallel([&](int thread, int team) {
    for (int part = thread; part < threads_; part += team) {
      double* const part_sums = partial + part * 2 * sums;
      if (statistics) std::fill_n(part_sums, 2 * sums, 0.0);
      for_each_band(args.x, part, copies + part * copy_floats_,
                    [&](std::int64_t sample, std::int64_t row, const FirstConvBand& band) {
                      double* const stat_sum = statistics ? part_sums + sample / group * shape_.out : nullptr;
                      loops_->forward({.band = band,
                                       .w = args.w.data(),
                                       .bias = args.bias.empty() ? nullptr : args.bias.data(),
                                       .relu = args.relu,
                                       .y = args.y.data() + sample * sample_floats + row * out_width_ * loops_->lanes,
                                       .stat_center = args.stat_center.empty() ? nullptr : args.stat_center.data(),
                                       .stat_sum = stat_sum,
                                       .stat_sumsq = statistics ? stat_sum + sums : nullptr});
                    });
    }
  });
  if (statistics) add_statistics(args, partial);
}

void FirstConv::add_statistics(const FirstConvForwardArgs& args, const double* partial) const {
  const std::size_t sums = args.stat_sum.size();
  for (std::size_t i = 0; i < sums; ++i) {
    double sum = 0, sumsq = 0;
    for (int part = 0; part < threads_; ++part) {
      const double* const part_sums = partial + static_cast<std::size_t>(part) * 2 * sums;
      sum += part_sums[i];
      sumsq += part_sums[sums + i];
    }
    args.stat_sum[i] = sum;
    args.stat_sumsq[i] = sumsq;
  }
}

// Scratch: a padded copy for each part, then dw and dbias for each part.
std::size_t FirstConv::backward_weights_scratch_bytes() const {
  const std::int64_t gradients = shape_.out * (std::ssize(taps_) + 1);
  return static_cast<std::size_t>(threads_ * (copy_floats_ + round_up(gradients, 16))) * sizeof(float);
}

void FirstConv::backward_weights(const FirstConvBackwardWeightsArgs& args, std::span<std::byte> scratch) const {
  const std::int64_t sample_floats = shape_.out * out_height_ * out_width_;
  const std::int64_t weights = shape_.out * std::ssize(taps_);
  check_size(args.x.size(), shape_.batch * shape_.channels * shape_.image[0] * shape_.image[1], "x");
  check_size(args.dy.size(), shape_.batch * sample_floats, "dy");
  check_size(args.dw.size(), weights, "dw");
  if (!args.dbias.empty()) check_size(args.dbias.size(), shape_.out, "dbias");
  check_scratch(scratch, backward_weights_scratch_bytes());

  float* const copies = reinterpret_cast<float*>(scratch.data());
  float* const partial = copies + threads_ * copy_floats_;
  const std::int64_t partial_floats = round_up(weights + shape_.out, 16);
  parallel([&](int thread, int team) {
    for (int part = thread; part < threads_; part += team) {
      float* const dw = partial + part * partial_floats;
      std::fill_n(dw, weights + shape_.out, 0.0f);
      for_each_band(
          args.x, part, copies + part * copy_floats_,
          [&](std::int64_t sample, std::int64_t row, const FirstConvBand& band) {
            loops_->backward_weights({.band = band,
                                      .dy = args.dy.data() + sample * sample_floats + row * out_width_ * loops_->lanes,
                                      .dw = dw,
                                      .dbias = args.dbias.empty() ? nullptr : dw + weights});
          });
    }
  });

  const auto add_parts = [&](std::span<float> to, const float* from) {
    for (float& value : to) {
      float sum = args.accumulate ? value : 0.0f;
      for (int part = 0; part < threads_; ++part) sum += from[part * partial_floats];
      value = sum;
      ++from;
    }
  };
  add_parts(args.dw, partial);
  add_parts(args.dbias, partial + weights);
}

}  // namespace trifold::cpu
