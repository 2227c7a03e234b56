// Draws for generated jobs: everything comes from one seed, so that a job can be made again from its number.
#pragma once

#include <initializer_list>
#include <vector>

#include "core/philox.h"

namespace trifold::test {

class Dice {
 public:
  explicit Dice(std::uint64_t seed, std::uint32_t stream = 0) : random_(seed, Purpose::sampler, stream) {}

  std::int64_t below(std::size_t count) { return random_.below(static_cast<std::uint32_t>(count)); }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + below(static_cast<std::size_t>(high - low + 1));
  }
  bool chance(double probability) { return random_.uniform() < probability; }
  double uniform(double low, double high) { return low + (high - low) * random_.uniform(); }

  template <class T>
  T pick(std::initializer_list<T> from) {
    return *(from.begin() + below(from.size()));
  }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(below(from.size()))];
  }

 private:
  RandomSequence random_;
};

}  // namespace trifold::test
