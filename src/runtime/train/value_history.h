// The course of a value over a run of any length, in memory that is taken once: when it is full, neighbours become
// their mean, and from then on a point is a mean of twice as many values.
#pragma once

#include <cstddef>
#include <vector>

namespace trifold {

class ValueHistory {
 public:
  explicit ValueHistory(std::size_t most_points = 512) : most_(most_points) { points_.reserve(most_points); }

  void add(double value) {
    sum_ += value;
    if (++taken_ < values_a_point_) return;
    if (points_.size() == most_) halve();
    if (taken_ < values_a_point_) return;  // half a point, now that points are of twice as many
    points_.push_back(sum_ / static_cast<double>(taken_));
    sum_ = 0;
    taken_ = 0;
  }

  const std::vector<double>& points() const { return points_; }
  std::size_t values_a_point() const { return values_a_point_; }

 private:
  void halve() {
    for (std::size_t i = 0; i < points_.size() / 2; ++i) points_[i] = (points_[2 * i] + points_[2 * i + 1]) / 2;
    points_.resize(points_.size() / 2);
    values_a_point_ *= 2;
  }

  std::size_t most_;  // even
  std::size_t values_a_point_ = 1;
  std::vector<double> points_;
  double sum_ = 0;
  std::size_t taken_ = 0;  // values in the sum
};

}  // namespace trifold
