// A set of labelled images (or rows of numbers) that can be read by index. Immutable once opened: any number of threads
// may read at the same time. Pixels come raw and plain, [C, H, W]; augment.h turns them into what a network reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/image_shape.h"
#include "core/philox.h"

namespace trifold {

enum class Split { train, test };

constexpr const char* name_of(Split split) {
  return split == Split::train ? "train" : "test";
}

// Images are stored as bytes (0..255) and scaled while being normalised; rows of numbers are floats already.
enum class PixelType { u8, f32 };

class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  Dataset(Dataset&&) = delete;
  Dataset& operator=(Dataset&&) = delete;
  virtual ~Dataset() = default;

  virtual std::int64_t size() const = 0;
  virtual ImageShape image_shape() const = 0;
  virtual PixelType pixel_type() const { return PixelType::u8; }
  virtual int classes() const = 0;  // 0 where the targets are numbers
  virtual std::string class_name(int label) const { return std::to_string(label); }
  virtual int label(std::int64_t index) const = 0;  // 0 where the targets are numbers
  virtual int target_width() const { return 0; }    // floats a sample has as its target; 0 where it has a label
  virtual bool has_times() const { return false; }
  virtual double time(std::int64_t index) const;             // when the sample was taken; only with has_times()
  virtual std::string origin(std::int64_t index) const = 0;  // where sample `index` came from, for messages

  // Fill `out` (image_shape().elements() long). Only the overload of pixel_type() may be called. `random` is null for
  // evaluation; a source that crops at random while it decodes draws from it (augmentations have numbers of their own).
  virtual void read_pixels(std::int64_t index, RandomSequence* random, std::span<std::uint8_t> out) const;
  virtual void read_pixels(std::int64_t index, RandomSequence* random, std::span<float> out) const;
  // Fills `out` (target_width() long).
  virtual void read_targets(std::int64_t index, std::span<float> out) const;
};

// Refuses a set with a label outside 0..classes-1, naming the file, the sample and the label. Nothing to check where
// the targets are numbers.
void check_labels(const Dataset& dataset, int classes);

}  // namespace trifold
