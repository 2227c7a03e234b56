// The input pipeline's last steps on the GPU: raw pixels are changed at random and normalised in one pass. Gives the
// numbers of Augmenter (runtime/data/augment.h) for the same seed, epoch and position, to the bit, so that a job may
// move this work from the host to the device. Only for sources that draw nothing themselves while they decode.
#pragma once

#include <vector>

#include "runtime/core/cuda/cuda_device.h"

namespace trifold::cuda {

// One random change; a list of them is applied in order.
struct DeviceAugmentation {
  enum class Kind { crop, flip, cutout };
  Kind kind = Kind::flip;
  int size_px = 0;        // crop: zero pixels around the image; cutout: the square's side
  float probability = 0;  // flip
};

struct DeviceAugmentArgs {
  int channels = 0, height = 0, width = 0;
  bool bytes = true;                              // raw pixels are u8, white is 255; else f32, taken as they are
  std::vector<float> mean, std;                   // [C], of pixels from 0 to 1
  std::vector<DeviceAugmentation> augmentations;  // at most 8
  std::int64_t samples_per_epoch = 0;             // that are really used: steps times batch
};

class DeviceAugmenter {
 public:
  DeviceAugmenter(CudaDevice& device, const DeviceAugmentArgs& args);

  // `raw` and `images` are [N, C, H, W] in device memory. Sample i of the batch is the step's first sample plus i,
  // which says epoch and position; the seed is the step's.
  void augment_and_normalise(const void* raw, std::int64_t samples, float* images) const;  // training
  void normalise(const void* raw, std::int64_t samples, float* images) const;              // evaluation

 private:
  std::int64_t sample_elements() const { return std::int64_t{args_.channels} * args_.height * args_.width; }

  CudaDevice& device_;
  DeviceAugmentArgs args_;
  DeviceMemory channels_;  // [C] of ChannelNumbers (augment.cu)
};

}  // namespace trifold::cuda
