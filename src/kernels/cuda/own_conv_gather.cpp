#include "kernels/cuda/own_conv_gather.h"

#include "core/error.h"

namespace trifold::cuda {

GatherPlan::GatherPlan(const Conv2dArgs& args, const ConvShape& conv, bool is_backward, Device& device)
    : shape(conv),
      backward(is_backward),
      rows(backward ? backward_axis(args, shape, 0) : forward_axis(args, shape, 0)),
      columns(backward ? backward_axis(args, shape, 1) : forward_axis(args, shape, 1)),
      out_channels(backward ? shape.in_channels : shape.out_channels),
      source_channels(backward ? shape.out_channels : shape.in_channels),
      tile_rows(out_channels <= 32 ? 32 : 64) {
  std::vector<AxisClass> table = rows.by_class;
  table.insert(table.end(), columns.by_class.begin(), columns.by_class.end());
  classes = DeviceMemory(device, table.size() * sizeof(AxisClass));
  device.upload(classes.data(), table.data(), table.size() * sizeof(AxisClass));
}

std::size_t GatherPlan::laid_weight_bytes() const {
  if (direct()) return 0;
  return static_cast<std::size_t>(shape.groups) * static_cast<std::size_t>(source_channels) *
         static_cast<std::size_t>(shape.taps()) * static_cast<std::size_t>(padded_channels()) * sizeof(float);
}

int GatherPlan::most_class_pixels() const {
  // The first class has the most: the others begin later.
  return rows.by_class[0].pixels * columns.by_class[0].pixels;
}

unsigned GatherPlan::classes_of_all_groups() const {
  const int count = shape.groups * rows.classes * columns.classes;
  TRIFOLD_CHECK(count <= 65535, "{} groups with strides {} and {} are too many for one launch", shape.groups,
                rows.classes, columns.classes);
  return static_cast<unsigned>(count);
}

void launch_gather(const GatherPlan& plan, const GatherTensors& tensors, cudaStream_t stream) {
  if (plan.direct())
    launch_gather_direct(plan, tensors, stream);
  else
    launch_gather_product(plan, tensors, stream);
}

}  // namespace trifold::cuda
