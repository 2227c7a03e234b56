// Arrays for loops that could write beyond their end: between guards that must survive, and full of NaN at first, so
// that a read of what was not written shows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/philox.h"

namespace trifold::cpu {

// Elements (or scratch, as floats) with a guard on either side; 64-byte aligned.
template <class T>
class GuardedArray {
 public:
  explicit GuardedArray(std::int64_t count, T fill = NAN) : count_(static_cast<std::size_t>(count)) {
    storage_.assign(count_ + 2 * kGuard + 64 / sizeof(T), kPattern);
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data() + kGuard);
    offset_ = kGuard + (64 - address % 64) % 64 / sizeof(T);
    std::fill_n(storage_.data() + offset_, count_, fill);
  }
  std::span<T> span() { return {storage_.data() + offset_, count_}; }
  std::span<std::byte> bytes() { return std::as_writable_bytes(span()); }
  void expect_intact(const std::string& what) const {
    for (std::size_t i = 0; i < storage_.size(); ++i) {
      if (i >= offset_ && i < offset_ + count_) continue;
      ASSERT_EQ(storage_[i], kPattern) << what << ": guard " << static_cast<std::ptrdiff_t>(i - offset_) << " of "
                                       << count_;
    }
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr T kPattern = 12345.75;
  std::size_t count_;
  std::size_t offset_;
  std::vector<T> storage_;
};

inline GuardedArray<float> scratch_of(std::size_t bytes) {
  return GuardedArray<float>(static_cast<std::int64_t>((bytes + sizeof(float) - 1) / sizeof(float)));
}

inline std::vector<float> random_floats(std::int64_t count, std::uint32_t stream) {
  RandomSequence random(7, Purpose::synthetic, stream);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = random.uniform(-1, 1);
  return values;
}

}  // namespace trifold::cpu
