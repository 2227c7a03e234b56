#include "kernels/cuda/top_k.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/core/philox.h"

namespace trifold::cuda {
namespace {

constexpr std::int64_t kCount = 3001;

class TopKTest : public testing::Test {
 protected:
  TopKTest() {
    RandomSequence random(5, Purpose::synthetic);
    for (std::int64_t i = 0; i < kCount; ++i) gradient_.push_back(std::round(40 * random.normal()) / 8);  // many ties
    device_.upload(on_device_.data(), gradient_.data(), kCount * sizeof(float));
  }

  const float* gradient() const { return reinterpret_cast<const float*>(on_device_.data()); }
  float* values() const { return reinterpret_cast<float*>(values_.data()); }
  std::int32_t* indices() const { return reinterpret_cast<std::int32_t*>(indices_.data()); }

  void expect_selected(const std::vector<std::int32_t>& expected) {
    std::vector<std::int32_t> found(expected.size());
    std::vector<float> found_values(expected.size());
    device_.download(found.data(), indices_.data(), found.size() * sizeof(std::int32_t));
    device_.download(found_values.data(), values_.data(), found.size() * sizeof(float));
    EXPECT_EQ(found, expected);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(found_values[i], gradient_[static_cast<std::size_t>(expected[i])]) << i;
  }

  CudaDevice device_{0};
  TopK top_k_{device_, kCount};
  std::vector<float> gradient_;
  DeviceMemory on_device_{device_, kCount * sizeof(float)};
  DeviceMemory values_{device_, kCount * sizeof(float)};
  DeviceMemory indices_{device_, kCount * sizeof(std::int32_t)};
};

TEST_F(TopKTest, SelectsTheLargestMagnitudesInOrder) {
  std::vector<std::int32_t> order(kCount);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) {
    return std::abs(gradient_[static_cast<std::size_t>(a)]) > std::abs(gradient_[static_cast<std::size_t>(b)]);
  });
  for (const std::int64_t k : {std::int64_t{1}, std::int64_t{30}, kCount}) {
    top_k_.select_largest({.gradient = gradient(), .count = kCount, .k = k, .values = values(), .indices = indices()},
                          device_.compute());
    expect_selected({order.begin(), order.begin() + k});
  }
}

TEST_F(TopKTest, SelectsFromAThresholdOn) {
  const DeviceMemory selected(device_, sizeof(std::int32_t));
  for (const float threshold : {0.0f, 5.0f, 1e6f}) {
    top_k_.select_from_threshold({.gradient = gradient(),
                                  .count = kCount,
                                  .threshold = threshold,
                                  .values = values(),
                                  .indices = indices(),
                                  .selected = reinterpret_cast<std::int32_t*>(selected.data())},
                                 device_.compute());
    std::vector<std::int32_t> expected;
    for (std::int32_t i = 0; i < kCount; ++i)
      if (std::abs(gradient_[static_cast<std::size_t>(i)]) >= threshold) expected.push_back(i);
    std::int32_t count = -1;
    device_.download(&count, selected.data(), sizeof(count));
    ASSERT_EQ(count, static_cast<std::int32_t>(expected.size())) << threshold;
    expect_selected(expected);
  }
}

}  // namespace
}  // namespace trifold::cuda
