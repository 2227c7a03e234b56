// Images from raw pixels, pixel by pixel: the changes are walked back, last first, to where the pixel came from.
#include "kernels/ops/prepare_images.h"

#include "core/error.h"
#include "kernels/backend.h"
#include "kernels/reference/element_type.h"

namespace trifold::reference {
namespace {

struct Place {
  std::int64_t row = 0;
  std::int64_t column = 0;
};

// What an augmentation drew for one sample.
struct Drawn {
  Augmentation augmentation;
  bool flipped = false;
  Place corner;  // of the crop's window or the cutout's square, on the image
};

template <class T>
class PrepareKernel final : public Kernel {
 public:
  explicit PrepareKernel(const KernelRequest& request)
      : args_(op_as<PrepareImages>(request).args), channels_(args_.channel_numbers()), shape_(request.in[0].shape) {
    TRIFOLD_CHECK(request.in[0].dtype == DType::u8, "raw images are u8, not {}", to_string(request.in[0]));
  }

  void run(const StepContext& context) override {
    for (std::int64_t n = 0; n < shape_[0]; ++n) {
      const std::vector<Drawn> drawn = draw(context, n);
      for (std::int64_t c = 0; c < shape_[1]; ++c)
        for (std::int64_t row = 0; row < height(); ++row)
          for (std::int64_t column = 0; column < width(); ++column) prepare(drawn, n, c, {row, column});
    }
  }

 private:
  std::int64_t height() const { return shape_[2]; }
  std::int64_t width() const { return shape_[3]; }

  std::vector<Drawn> draw(const StepContext& context, std::int64_t sample) const {
    RandomSequence random = augment_sequence(context.seed, context.first_sample + sample);
    const auto below = [&](std::int64_t count) {
      return static_cast<std::int64_t>(random.below(static_cast<std::uint32_t>(count)));
    };
    std::vector<Drawn> drawn;
    for (const Augmentation& augmentation : args_.augmentations) {
      Drawn next{.augmentation = augmentation, .flipped = false, .corner = {}};
      if (const auto* crop = std::get_if<RandomCrop>(&augmentation)) {
        next.corner.row = below(2 * crop->padding_px + 1) - crop->padding_px;
        next.corner.column = below(2 * crop->padding_px + 1) - crop->padding_px;
      } else if (const auto* flip = std::get_if<HorizontalFlip>(&augmentation)) {
        next.flipped = random.uniform() < flip->probability;
      } else {
        const int side = std::get<Cutout>(augmentation).side_px;
        next.corner.row = below(height()) - side / 2;
        next.corner.column = below(width()) - side / 2;
      }
      drawn.push_back(next);
    }
    return drawn;
  }

  void prepare(const std::vector<Drawn>& drawn, std::int64_t n, std::int64_t c, Place place) {
    const std::int64_t plane = (n * shape_[1] + c) * height() * width();
    const double mean = args_.mean[static_cast<std::size_t>(c)];
    const double deviation = args_.deviation[static_cast<std::size_t>(c)];
    const double raw = raw_pixel(drawn, in<std::uint8_t>(0) + plane, c, place);
    out<T>(0)[plane + place.row * width() + place.column] = static_cast<T>((raw / 255 - mean) / deviation);
  }

  double raw_pixel(const std::vector<Drawn>& drawn, const std::uint8_t* plane, std::int64_t c, Place place) const {
    for (auto change = drawn.rbegin(); change != drawn.rend(); ++change) {
      if (const auto* cutout = std::get_if<Cutout>(&change->augmentation)) {
        const std::int64_t down = place.row - change->corner.row;
        const std::int64_t right = place.column - change->corner.column;
        if (down >= 0 && down < cutout->side_px && right >= 0 && right < cutout->side_px)
          return channels_[static_cast<std::size_t>(c)].blank;
      } else if (std::holds_alternative<RandomCrop>(change->augmentation)) {
        place.row += change->corner.row;
        place.column += change->corner.column;
        if (place.row < 0 || place.row >= height() || place.column < 0 || place.column >= width()) return 0;
      } else if (change->flipped) {
        place.column = width() - 1 - place.column;
      }
    }
    return plane[place.row * width() + place.column];
  }

  PrepareImagesArgs args_;
  std::vector<ChannelNumbers> channels_;
  Shape shape_;
};

const RegisterKernel register_prepare_images_prepare(reference_backend(), "prepare_images",
                                                     make_for_type<PrepareKernel<float>, PrepareKernel<double>>);

}  // namespace
}  // namespace trifold::reference
