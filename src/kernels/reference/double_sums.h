// Sums in double precision for outputs that many terms are added to in any order. They live in the kernel's scratch
// memory and are rounded to the type of the output once, when all terms are in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace trifold::reference {

class DoubleSums {
 public:
  static std::size_t bytes(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(double); }

  DoubleSums(std::byte* scratch, std::int64_t count) : sums_(reinterpret_cast<double*>(scratch)), count_(count) {
    std::fill(sums_, sums_ + count, 0.0);
  }

  double& operator[](std::int64_t index) { return sums_[index]; }

  template <class T>
  void store(T* to) const {
    for (std::int64_t i = 0; i < count_; ++i) to[i] = static_cast<T>(sums_[i]);
  }

 private:
  double* sums_;
  std::int64_t count_;
};

}  // namespace trifold::reference
