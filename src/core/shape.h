// The extents of a tensor, outermost first: [N, C, H, W] for images, [N, F] for feature rows, [O, I/G, R, S] for
// convolution weights. A value type of at most five dims that never allocates.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace trifold {

class Shape {
 public:
  static constexpr int kMaxRank = 5;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);

  int rank() const { return rank_; }
  std::int64_t operator[](int dim) const { return dims_[static_cast<std::size_t>(dim)]; }
  std::int64_t& operator[](int dim) { return dims_[static_cast<std::size_t>(dim)]; }
  void push_back(std::int64_t extent);

  std::int64_t elements() const;  // 1 for a scalar (rank 0)
  bool operator==(const Shape& other) const = default;

  // [N, C, H, W] and [N, F] seen as [N, C, pixels]: what channel-wise loops need.
  std::int64_t batch() const { return rank_ > 0 ? dims_[0] : 1; }
  std::int64_t channels() const { return rank_ > 1 ? dims_[1] : 1; }
  std::int64_t pixels() const;

 private:
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  // "16x64x56x56"

}  // namespace trifold
