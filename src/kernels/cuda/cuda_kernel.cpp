#include "kernels/cuda/cuda_kernel.h"

namespace trifold::cuda {

ImageView image_view(const TensorDesc& desc) {
  ImageView view{.samples = desc.shape.batch(), .channels = desc.shape.channels(), .pixels = desc.shape.pixels()};
  if (desc.layout.plain()) return view;
  TRIFOLD_CHECK(desc.layout.order == Order::channel_block && desc.layout.block == view.channels,
                "CUDA kernels read plain and channels-last activations, not {}", to_string(desc));
  view.block = desc.layout.block;
  return view;
}

}  // namespace trifold::cuda
