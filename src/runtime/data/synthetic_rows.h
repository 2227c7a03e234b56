// A built-in set of rows of numbers, after Guyon's "Madelon" as scikit-learn's make_classification draws it: clusters
// around the corners of a cube in a few informative features, features that are mixtures of those, and noise. What a
// linear model learns of it is what logistic regression is shown on.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/data/dataset.h"

namespace trifold {

constexpr int kMostInformativeFeatures = 16;  // the corners of their cube are drawn from

struct SyntheticRowsOptions {
  std::int64_t train_samples = 1000;
  std::int64_t test_samples = 200;
  int informative = 2;    // features; the first
  int redundant = 2;      // mixtures of the informative ones; the next. The rest is noise
  int clusters = 2;       // a class
  double separation = 1;  // half the side of the cube; a cluster's deviation is 1
  double flipped = 0.01;  // share of samples whose label is drawn anew
};

// Rows fill `shape`, [features, 1, 1] say. Where clusters lie depends on the seed alone, and sample i on (seed, split,
// i); both splits are of one distribution. Sample i is of class i mod classes, but for the flipped.
std::unique_ptr<Dataset> open_synthetic_rows(const ImageShape& shape, int classes, std::uint64_t seed, Split split,
                                             const SyntheticRowsOptions& options);

}  // namespace trifold
