// A built-in image set for trying a network without a download: glyphs of a few strokes, drawn at a random place, size,
// slant and colour, lighter or darker than a cluttered, noisy background. A small CNN learns it; a linear model cannot,
// because no pixel of the set says anything by itself.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "runtime/data/dataset.h"

namespace trifold {

struct SyntheticOptions {
  std::int64_t train_samples = 10000;
  std::int64_t test_samples = 2000;
};

constexpr int kMostSyntheticClasses = 20;

struct SyntheticImage {
  ImageShape shape;
  std::uint64_t seed = 0;
  Split split = Split::train;
  std::int64_t index = 0;
  int label = 0;
};

// Draws one image, a function of its description alone, into `out` ([C, H, W]).
void draw_synthetic(const SyntheticImage& image, std::span<std::uint8_t> out);

// Draws the whole split, on all threads of this rank. Sample i has label i mod classes.
std::unique_ptr<Dataset> open_synthetic(const ImageShape& shape, int classes, std::uint64_t seed, Split split,
                                        const SyntheticOptions& options);

}  // namespace trifold
