#include "runtime/data/dataset.h"

#include "core/error.h"

namespace trifold {

void Dataset::read_pixels(std::int64_t index, RandomSequence*, std::span<std::uint8_t>) const {
  TRIFOLD_CHECK(false, "{} has no byte pixels", origin(index));
}

void Dataset::read_pixels(std::int64_t index, RandomSequence*, std::span<float>) const {
  TRIFOLD_CHECK(false, "{} has no float pixels", origin(index));
}

void Dataset::read_targets(std::int64_t index, std::span<float>) const {
  TRIFOLD_CHECK(false, "{} has a label, not numbers, as its target", origin(index));
}

double Dataset::time(std::int64_t index) const {
  TRIFOLD_CHECK(false, "{} has no time", origin(index));
}

void check_labels(const Dataset& dataset, int classes) {
  if (dataset.target_width() > 0) return;
  for (std::int64_t index = 0; index < dataset.size(); ++index) {
    const int label = dataset.label(index);
    if (label >= 0 && label < classes) continue;
    fail_input(
        "{}: sample {} has label {}, but the model has {} classes (labels 0..{}); set model.classes to {} or more, "
        "or correct the labels",
        dataset.origin(index), index, label, classes, classes - 1, label + 1);
  }
}

}  // namespace trifold
