// In which order an epoch visits the samples: a pure function of (seed, epoch), whatever the number of ranks and
// threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/dataset.h"

namespace trifold {

enum class SampleOrder {
  sequential,  // 0, 1, 2, ...; for evaluation
  shuffled,    // a new permutation every epoch
  balanced,    // every class equally often (to one sample), in a new shuffled order every epoch
};

class Sampler {
 public:
  Sampler(const Dataset& dataset, SampleOrder order, std::uint64_t seed);

  std::int64_t size() const { return size_; }  // positions in an epoch: the size of the set

  // Fills `indices` (size() long) with the samples at positions 0, 1, ... of `epoch`. Allocates nothing; not const,
  // because a balanced draw uses room of its own: every loader has its own Sampler.
  void fill_epoch(std::int64_t epoch, std::span<std::int64_t> indices);

 private:
  void fill_balanced(std::int64_t epoch, std::span<std::int64_t> indices);

  SampleOrder order_;
  std::uint64_t seed_;
  std::int64_t size_;
  std::vector<std::int64_t> members_;      // balanced: samples sorted by class
  std::vector<std::int64_t> drawn_;        // balanced: one class's members, shuffled
  std::vector<std::int64_t> class_begin_;  // balanced: where each class that occurs begins in members_, and the end
  std::vector<std::int64_t> class_order_;  // balanced: the classes that occur, shuffled
};

// How many samples each class has: [classes].
std::vector<std::int64_t> class_counts(const Dataset& dataset, int classes);

// Loss weights that give every class the same say: n / (k * count), k being the classes that occur; 0 for one that does
// not. What scikit-learn calls "balanced".
std::vector<float> balanced_class_weights(std::span<const std::int64_t> counts);

}  // namespace trifold
