// What both gathering kernels share: their arguments, and where an output pixel and its source lie.
#pragma once

#include "kernels/cuda/own_conv_gather.h"

namespace trifold::cuda {

struct GatherAxisArgs {
  const AxisClass* by_class;
  int classes;
  int tap_stride;
  int source_per_tap;
  int source_per_pixel;
  int out_extent;
  int source_extent;
  int kernel_extent;
};

struct GatherArgs {
  GatherAxisArgs rows, columns;
  int samples;
  int groups;
  int out_channels;     // of a group
  int source_channels;  // of a group
  int padded_channels;
  bool backward;
  bool relu;
  const float* bias;
};

inline GatherAxisArgs axis_args(const GatherAxis& axis, const AxisClass* by_class) {
  return {.by_class = by_class,
          .classes = axis.classes,
          .tap_stride = axis.tap_stride,
          .source_per_tap = axis.source_per_tap,
          .source_per_pixel = axis.source_per_pixel,
          .out_extent = axis.out_extent,
          .source_extent = axis.source_extent,
          .kernel_extent = axis.kernel_extent};
}

inline GatherArgs gather_args(const GatherPlan& plan, const GatherTensors& tensors) {
  const auto* classes = reinterpret_cast<const AxisClass*>(plan.classes.data());
  return {.rows = axis_args(plan.rows, classes),
          .columns = axis_args(plan.columns, classes + plan.rows.classes),
          .samples = plan.shape.samples,
          .groups = plan.shape.groups,
          .out_channels = plan.out_channels,
          .source_channels = plan.source_channels,
          .padded_channels = plan.padded_channels(),
          .backward = plan.backward,
          .relu = tensors.relu,
          .bias = tensors.bias};
}

// The classes of rows and columns that blockIdx.z stands for, and the group beside them.
struct GatherClass {
  AxisClass row, column;
  int row_index, column_index;
  int group;
  int pixels;  // over all samples

  __device__ __forceinline__ explicit GatherClass(const GatherArgs& args) {
    const int class_count = args.rows.classes * args.columns.classes;
    group = static_cast<int>(blockIdx.z) / class_count;
    const int index = static_cast<int>(blockIdx.z) % class_count;
    row_index = index / args.columns.classes;
    column_index = index % args.columns.classes;
    row = args.rows.by_class[row_index];
    column = args.columns.by_class[column_index];
    pixels = args.samples * row.pixels * column.pixels;
  }
};

// One of a class's pixels: its sample, its place in an output plane, and the source place of its first tap.
struct GatherPixel {
  int sample, out_place, source_row, source_column;

  // A division a thread, before the loop: not worth a table.
  __device__ __forceinline__ GatherPixel(const GatherArgs& args, const GatherClass& c, int pixel) {
    const int line = pixel / c.column.pixels;
    const int column = pixel - line * c.column.pixels;
    sample = line / c.row.pixels;
    const int row = line - sample * c.row.pixels;
    out_place = (c.row_index + row * args.rows.classes) * args.columns.out_extent +  //
                c.column_index + column * args.columns.classes;
    source_row = c.row.source_begin + row * args.rows.source_per_pixel;
    source_column = c.column.source_begin + column * args.columns.source_per_pixel;
  }
};

// Steps through (channel, tap row, tap column), the last fastest, and keeps the distances they stand for.
struct TapWalk {
  int row = 0, column = 0;  // source rows and columns from the first tap
  int plane = 0;            // source elements from the group's first channel
  int tap_row = 0, tap_column = 0;

  __device__ __forceinline__ void advance(const GatherArgs& args, const GatherClass& c, int plane_elements) {
    ++tap_column;
    column += args.columns.source_per_tap;
    if (tap_column == c.column.taps) {
      tap_column = 0;
      column = 0;
      ++tap_row;
      row += args.rows.source_per_tap;
      if (tap_row == c.row.taps) {
        tap_row = 0;
        row = 0;
        plane += plane_elements;
      }
    }
  }
};

}  // namespace trifold::cuda
