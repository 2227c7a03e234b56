// The gathering convolution for thin groups (depthwise among them), where a matrix product would multiply mostly
// padding: every thread sums one output pixel of one channel, neighbours in a warp read neighbouring pixels.
#include <algorithm>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/own_conv_gather.cuh"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;

// grid: runs of a class's pixels, output channels of a group, classes of each group.
template <class T>
__global__ void __launch_bounds__(kThreads) gather_direct(const T* __restrict__ source, const T* __restrict__ weights,
                                                          T* __restrict__ out, const GatherArgs args) {
  const GatherClass c(args);
  const int pixel = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (pixel >= c.pixels) return;
  const GatherPixel at(args, c, pixel);
  const int channel = static_cast<int>(blockIdx.y);  // of the group's outputs
  const int taps = args.rows.kernel_extent * args.columns.kernel_extent;
  const int plane = args.rows.source_extent * args.columns.source_extent;

  // OIHW: forward sums over I, backward over O.
  const int channels_apart = args.backward ? args.out_channels * taps : taps;
  const int own_weights = channel * (args.backward ? taps : args.source_channels * taps);
  const T* w = weights + static_cast<std::int64_t>(c.group) * args.out_channels * args.source_channels * taps +
               own_weights + c.row.first_tap * args.columns.kernel_extent + c.column.first_tap;
  const T* x = source + (static_cast<std::int64_t>(at.sample) * args.groups + c.group) * args.source_channels * plane;

  float sum = 0;
  for (int i = 0; i < args.source_channels; ++i, x += plane, w += channels_apart) {
    for (int r = 0; r < c.row.taps; ++r) {
      const int row = at.source_row + r * args.rows.source_per_tap;
      if (static_cast<unsigned>(row) >= static_cast<unsigned>(args.rows.source_extent)) continue;
      const T* x_row = x + row * args.columns.source_extent;
      const T* w_row = w + r * args.rows.tap_stride * args.columns.kernel_extent;
      for (int s = 0; s < c.column.taps; ++s) {
        const int column = at.source_column + s * args.columns.source_per_tap;
        if (static_cast<unsigned>(column) >= static_cast<unsigned>(args.columns.source_extent)) continue;
        sum = fmaf(to_float(w_row[s * args.columns.tap_stride]), to_float(x_row[column]), sum);
      }
    }
  }
  const int out_channel = c.group * args.out_channels + channel;
  if (args.bias != nullptr) sum += args.bias[out_channel];
  if (args.relu) sum = fmaxf(sum, 0.0f);
  const std::int64_t out_plane = args.rows.out_extent * args.columns.out_extent;
  out[(static_cast<std::int64_t>(at.sample) * args.groups * args.out_channels + out_channel) * out_plane +
      at.out_place] = from_float<T>(sum);
}

}  // namespace

void launch_gather_direct(const GatherPlan& plan, const GatherTensors& tensors, cudaStream_t stream) {
  const int pixels = plan.shape.samples * plan.most_class_pixels();
  if (pixels == 0) return;
  const dim3 grid(static_cast<unsigned>((pixels + kThreads - 1) / kThreads), static_cast<unsigned>(plan.out_channels),
                  plan.classes_of_all_groups());
  with_element(tensors.dtype, [&](auto element) {
    using T = typename decltype(element)::type;
    gather_direct<T><<<grid, kThreads, 0, stream>>>(static_cast<const T*>(tensors.source),
                                                    static_cast<const T*>(tensors.weights),
                                                    static_cast<T*>(tensors.out), gather_args(plan, tensors));
    check_launch("gather_direct");
  });
}

}  // namespace trifold::cuda
