// Images from raw pixels on the CPU: threads share the samples; each changes a copy of its sample.
#include "kernels/ops/prepare_images.h"

#include <algorithm>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/backend.h"
#include "kernels/cpu/image_changes.h"

namespace trifold::cpu {
namespace {

class PrepareKernel final : public Kernel {
 public:
  explicit PrepareKernel(const KernelRequest& request)
      : augmentations_(op_as<PrepareImages>(request).args.augmentations),
        channels_(op_as<PrepareImages>(request).args.channel_numbers()),
        samples_(request.in[0].shape[0]),
        image_{.channels = static_cast<int>(request.in[0].shape[1]),
               .height = static_cast<int>(request.in[0].shape[2]),
               .width = static_cast<int>(request.in[0].shape[3])},
        threads_(request.threads) {
    TRIFOLD_CHECK(request.in[0].dtype == DType::u8, "raw images are u8, not {}", to_string(request.in[0]));
  }

  std::size_t scratch_bytes() const override {
    return augmentations_.empty() ? 0 : static_cast<std::size_t>(threads_) * 2 * image_bytes();
  }

  void run(const StepContext& context) override {
    parallel([&](int thread, int threads) {
      const Range samples = share(samples_, thread, threads);
      for (std::int64_t sample = samples.begin; sample < samples.end; ++sample) prepare(context, sample, thread);
    });
  }

 private:
  std::size_t image_bytes() const { return static_cast<std::size_t>(image_.elements()); }

  void prepare(const StepContext& context, std::int64_t sample, int thread) {
    std::span<const std::uint8_t> pixels(in<std::uint8_t>(0) + sample * image_.elements(), image_bytes());
    if (!augmentations_.empty()) {
      auto* const memory =
          reinterpret_cast<std::uint8_t*>(scratch()) + static_cast<std::size_t>(thread) * 2 * image_bytes();
      const std::span<std::uint8_t> changed(memory, image_bytes());
      const std::span<std::uint8_t> spare(memory + image_bytes(), image_bytes());
      std::ranges::copy(pixels, changed.begin());
      RandomSequence random = augment_sequence(context.seed, context.first_sample + sample);
      change_image(image_, augmentations_, channels_, changed, spare, random);
      pixels = changed;
    }
    normalise_image(image_, channels_, pixels, {out(0) + sample * image_.elements(), image_bytes()});
  }

  std::vector<Augmentation> augmentations_;
  std::vector<ChannelNumbers> channels_;
  std::int64_t samples_;
  ImageShape image_;
  int threads_;
};

const RegisterKernel register_prepare_images_prepare(cpu_backend(), "prepare_images", make_kernel<PrepareKernel>);

}  // namespace
}  // namespace trifold::cpu
