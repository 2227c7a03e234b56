// Winograd's three passes against plain loops in double precision, on every instruction set of this machine.
#include "kernels/cpu/winograd.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/parallel.h"
#include "kernels/cpu/isa_tables.h"

TRIFOLD_TEST_TABLES(WinogradLoops, winograd_loops)

namespace trifold::cpu {
namespace {

constexpr double kTolerance = 2e-5;  // of the largest value

struct Case {
  WinogradShape shape;
  int threads = 2;  // planned for
  int team = 2;     // that run it
  bool bias = false, relu = false, prologue = false, in_relu = true, statistics = false, center = false;
};

const WinogradLoops* loops_of(Isa isa) {
  return active_isa() >= isa ? &winograd_loops_of(isa) : nullptr;
}

// Aligned scratch with a guard on either side. It starts as NaN, so that a read of what was not written shows.
class GuardedScratch {
 public:
  explicit GuardedScratch(std::size_t bytes) : bytes_(bytes), storage_(bytes + 2 * kGuard + 64) {
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data()) + kGuard;
    begin_ = storage_.data() + kGuard + (64 - address % 64) % 64;
    std::memset(storage_.data(), kPattern, storage_.size());
    std::fill_n(reinterpret_cast<float*>(begin_), bytes / sizeof(float), std::numeric_limits<float>::quiet_NaN());
  }
  std::byte* data() { return begin_; }
  bool intact() const {
    const auto untouched = [](std::byte b) { return b == std::byte{kPattern}; };
    return std::all_of(begin_ - kGuard, begin_, untouched) &&
           std::all_of(begin_ + bytes_, begin_ + bytes_ + kGuard, untouched);
  }

 private:
  static constexpr std::size_t kGuard = 4096;
  static constexpr unsigned char kPattern = 0xA5;
  std::size_t bytes_;
  std::vector<std::byte> storage_;
  std::byte* begin_;
};

std::vector<float> random_values(std::size_t count, unsigned seed, float offset = 0) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float& v : values) v = uniform(engine) + offset;
  return values;
}

// The largest difference, relative to the largest expected value.
template <class Actual>
double error_of(const std::vector<Actual>& actual, const std::vector<double>& expected) {
  double worst = 0, largest = 1e-30;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(static_cast<double>(actual[i]))) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(static_cast<double>(actual[i]) - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return worst / largest;
}

class WinogradCheck {
 public:
  WinogradCheck(const Case& c, const WinogradLoops& loops)
      : c_(c), s_(c.shape), lanes_(loops.lanes), winograd_(c.shape, c.threads, loops) {
    set_thread_count(c.team);
    out_h_ = s_.height + 2 * s_.pad_h - 2;
    out_w_ = s_.width + 2 * s_.pad_w - 2;
    x_ = random_values(size(s_.batch * s_.in_channels * s_.height * s_.width), 1);
    dy_ = random_values(size(s_.batch * s_.out_channels * out_h_ * out_w_), 2);
    w_ = random_values(size(s_.out_channels * s_.in_channels * 9), 3);
    bias_ = random_values(size(s_.out_channels), 4);
    scale_ = random_values(size(s_.in_channels), 5, 1.5f);
    shift_ = random_values(size(s_.in_channels), 6);
    center_ = random_values(size(s_.out_channels), 7);
  }

  void forward() {
    std::vector<double> expected(dy_.size());
    each_product([&](std::size_t out, std::size_t in, std::size_t weight, std::int64_t channel) {
      expected[out] += read_x(in, channel) * w_[weight];
    });
    const std::int64_t group = s_.stat_group ? s_.stat_group : s_.batch;
    const std::int64_t groups = (s_.batch + group - 1) / group;
    std::vector<double> sum(size(groups * s_.out_channels)), sumsq(sum.size());
    for (std::int64_t n = 0; n < s_.batch; ++n) {
      for (std::int64_t o = 0; o < s_.out_channels; ++o) {
        for (std::int64_t p = 0; p < out_h_ * out_w_; ++p) {
          double& y = expected[at(n, o, p, s_.out_channels, out_h_ * out_w_)];
          if (c_.bias) y += bias_[size(o)];
          if (c_.relu) y = std::max(y, 0.0);
          const double centred = y - (c_.center ? center_[size(o)] : 0.0f);
          sum[size(n / group * s_.out_channels + o)] += centred;
          sumsq[size(n / group * s_.out_channels + o)] += centred * centred;
        }
      }
    }
    std::vector<float> y(dy_.size(), std::numeric_limits<float>::quiet_NaN());
    std::vector<double> stat_sum(sum.size(), -1), stat_sumsq(sum.size(), -1);
    GuardedScratch scratch(winograd_.forward_scratch_bytes());
    winograd_.forward({.x = x_.data(),
                       .weights = w_.data(),
                       .y = y.data(),
                       .bias = c_.bias ? bias_.data() : nullptr,
                       .relu = c_.relu,
                       .in_scale = c_.prologue ? scale_.data() : nullptr,
                       .in_shift = c_.prologue ? shift_.data() : nullptr,
                       .in_relu = c_.prologue && c_.in_relu,
                       .stat_center = c_.center ? center_.data() : nullptr,
                       .stat_sum = c_.statistics ? stat_sum.data() : nullptr,
                       .stat_sumsq = c_.statistics ? stat_sumsq.data() : nullptr},
                      scratch.data());
    EXPECT_TRUE(scratch.intact());
    EXPECT_LT(error_of(y, expected), kTolerance);
    if (c_.statistics) {
      EXPECT_LT(error_of(stat_sum, sum), kTolerance);
      EXPECT_LT(error_of(stat_sumsq, sumsq), kTolerance);
    }
  }

  void backward_data() {
    std::vector<double> expected(x_.size());
    each_product([&](std::size_t out, std::size_t in, std::size_t weight, std::int64_t) {
      expected[in] += static_cast<double>(dy_[out]) * w_[weight];
    });
    std::vector<float> dx(x_.size(), std::numeric_limits<float>::quiet_NaN());
    GuardedScratch scratch(winograd_.backward_data_scratch_bytes());
    winograd_.backward_data({.dy = dy_.data(), .weights = w_.data(), .dx = dx.data()}, scratch.data());
    EXPECT_TRUE(scratch.intact());
    EXPECT_LT(error_of(dx, expected), kTolerance);
  }

  void backward_weights() {
    std::vector<double> expected(w_.size()), expected_bias(bias_.size());
    each_product([&](std::size_t out, std::size_t in, std::size_t weight, std::int64_t channel) {
      expected[weight] += read_x(in, channel) * dy_[out];
    });
    for (std::int64_t n = 0; n < s_.batch; ++n) {
      for (std::int64_t o = 0; o < s_.out_channels; ++o) {
        for (std::int64_t p = 0; p < out_h_ * out_w_; ++p) {
          expected_bias[size(o)] += dy_[at(n, o, p, s_.out_channels, out_h_ * out_w_)];
        }
      }
    }
    std::vector<float> dw(w_.size(), std::numeric_limits<float>::quiet_NaN()), db(bias_.size());
    GuardedScratch scratch(winograd_.backward_weights_scratch_bytes());
    winograd_.backward_weights({.x = x_.data(),
                                .dy = dy_.data(),
                                .dw = dw.data(),
                                .db = c_.bias ? db.data() : nullptr,
                                .in_scale = c_.prologue ? scale_.data() : nullptr,
                                .in_shift = c_.prologue ? shift_.data() : nullptr,
                                .in_relu = c_.prologue && c_.in_relu},
                               scratch.data());
    EXPECT_TRUE(scratch.intact());
    EXPECT_LT(error_of(dw, expected), kTolerance);
    if (c_.bias) {
      EXPECT_LT(error_of(db, expected_bias), kTolerance);
    }
  }

 private:
  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

  std::size_t at(std::int64_t n, std::int64_t channel, std::int64_t pixel, std::int64_t channels,
                 std::int64_t pixels) const {
    return size(((n * (channels / lanes_) + channel / lanes_) * pixels + pixel) * lanes_ + channel % lanes_);
  }

  double read_x(std::size_t index, std::int64_t channel) const {
    const double x = x_[index];
    if (!c_.prologue) return x;
    const double y = x * scale_[size(channel)] + shift_[size(channel)];
    return c_.in_relu ? std::max(y, 0.0) : y;
  }

  // Calls body(index of y, index of x, index of w, input channel) for every product of the direct convolution.
  template <class Body>
  void each_product(Body&& body) const {
    for (std::int64_t n = 0; n < s_.batch; ++n) {
      for (std::int64_t o = 0; o < s_.out_channels; ++o) {
        for (std::int64_t i = 0; i < s_.in_channels; ++i) {
          const std::int64_t block = o / lanes_ * (s_.in_channels / lanes_) + i / lanes_;
          for (std::int64_t k = 0; k < 9; ++k) {
            const std::size_t weight = size(((block * 9 + k) * lanes_ + i % lanes_) * lanes_ + o % lanes_);
            for (std::int64_t h = 0; h < out_h_; ++h) {
              const std::int64_t in_h = h + k / 3 - s_.pad_h;
              if (in_h < 0 || in_h >= s_.height) continue;
              for (std::int64_t w = 0; w < out_w_; ++w) {
                const std::int64_t in_w = w + k % 3 - s_.pad_w;
                if (in_w < 0 || in_w >= s_.width) continue;
                body(at(n, o, h * out_w_ + w, s_.out_channels, out_h_ * out_w_),
                     at(n, i, in_h * s_.width + in_w, s_.in_channels, s_.height * s_.width), weight, i);
              }
            }
          }
        }
      }
    }
  }

  Case c_;
  WinogradShape s_;
  std::int64_t lanes_;
  Winograd winograd_;
  std::int64_t out_h_ = 0, out_w_ = 0;
  std::vector<float> x_, dy_, w_, bias_, scale_, shift_, center_;
};

class WinogradTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    loops_ = loops_of(GetParam());
    if (!loops_) GTEST_SKIP() << isa_name(GetParam()) << " does not run on this machine";
    threads_before_ = thread_count();
  }
  void TearDown() override {
    if (loops_) set_thread_count(threads_before_);
  }

  void check(const Case& c) {
    const WinogradShape& s = c.shape;
    SCOPED_TRACE(testing::Message() << "batch " << s.batch << ", " << s.in_channels << " -> " << s.out_channels << ", "
                                    << s.height << "x" << s.width << ", pad " << s.pad_h << "," << s.pad_w
                                    << ", threads " << c.threads);
    ASSERT_TRUE(Winograd::supports(s, *loops_));
    WinogradCheck run(c, *loops_);
    run.forward();
    run.backward_data();
    run.backward_weights();
  }

  const WinogradLoops* loops_ = nullptr;
  int threads_before_ = 1;
};

TEST_P(WinogradTest, EverySizeAndPadding) {
  const std::int64_t v = loops_->lanes;
  for (const auto& [h, w] :
       std::vector<std::pair<int, int>>{{1, 1}, {3, 3}, {5, 7}, {7, 7}, {14, 14}, {13, 9}, {4, 45}}) {
    for (const int pad_h : {0, 1, 2}) {
      for (const int pad_w : {0, 1, 2}) {
        const WinogradShape shape{.batch = 3,
                                  .in_channels = v,
                                  .out_channels = 2 * v,
                                  .height = h,
                                  .width = w,
                                  .pad_h = pad_h,
                                  .pad_w = pad_w};
        if (h + 2 * pad_h <= 2 || w + 2 * pad_w <= 2) {
          EXPECT_FALSE(Winograd::supports(shape, *loops_));
          continue;
        }
        check({.shape = shape, .bias = pad_h == 1, .relu = pad_w == 1, .prologue = pad_h != 2, .statistics = true});
      }
    }
  }
}

TEST_P(WinogradTest, EveryChannelCount) {
  const std::int64_t v = loops_->lanes;
  for (const std::int64_t in : {v, 2 * v, 3 * v, 8 * v}) {
    for (const std::int64_t out : {v, 2 * v, 3 * v, 8 * v}) {
      check({.shape = {
                 .batch = 1, .in_channels = in, .out_channels = out, .height = 7, .width = 6, .pad_h = 1, .pad_w = 1}});
    }
  }
}

// Wide enough for the plan that shares tiles among threads, with a remainder in every blocked dimension.
TEST_P(WinogradTest, ManyChannels) {
  const std::int64_t v = loops_->lanes;
  for (const int threads : {1, 2, 3}) {
    check({.shape = {.batch = 2,
                     .in_channels = 19 * v,
                     .out_channels = 15 * v,
                     .height = 6,
                     .width = 5,
                     .pad_h = 1,
                     .pad_w = 1,
                     .stat_group = 1},
           .threads = threads,
           .bias = true,
           .relu = true,
           .prologue = true,
           .statistics = true,
           .center = true});
  }
}

// Several blocks of tiles, each shared by all threads: the plan for few tiles a thread, and that for weight gradients.
TEST_P(WinogradTest, SeveralSharedBlocksOfTiles) {
  check(
      {.shape = {.batch = 1, .in_channels = 16, .out_channels = 32, .height = 46, .width = 47, .pad_h = 1, .pad_w = 1},
       .threads = 20,
       .statistics = true});
  check(
      {.shape = {.batch = 1, .in_channels = 48, .out_channels = 48, .height = 65, .width = 66, .pad_h = 1, .pad_w = 1},
       .threads = 1,
       .bias = true});
}

TEST_P(WinogradTest, ManyTilesOfFewChannels) {
  for (const int threads : {1, 2, 5}) {
    check({.shape = {.batch = 5,
                     .in_channels = 16,
                     .out_channels = 32,
                     .height = 21,
                     .width = 19,
                     .pad_h = 1,
                     .pad_w = 1,
                     .stat_group = 2},
           .threads = threads,
           .bias = true,
           .prologue = true,
           .in_relu = false,
           .statistics = true,
           .center = true});
  }
}

TEST_P(WinogradTest, MoreThreadsThanTiles) {
  check({.shape = {.batch = 1, .in_channels = 16, .out_channels = 16, .height = 3, .width = 3, .pad_h = 1, .pad_w = 1},
         .threads = 4,
         .bias = true,
         .statistics = true});
}

// A smaller team than planned runs the same parts: equal to the bit.
TEST_P(WinogradTest, ResultDependsOnPlannedThreadsOnly) {
  const WinogradShape shape{
      .batch = 5, .in_channels = 32, .out_channels = 32, .height = 13, .width = 13, .pad_h = 1, .pad_w = 1};
  const Winograd winograd(shape, 3, *loops_);
  const std::vector<float> x = random_values(5 * 32 * 13 * 13, 1), dy = random_values(x.size(), 2);
  std::vector<std::vector<float>> results;
  for (const int team : {1, 2, 3, 3}) {
    set_thread_count(team);
    GuardedScratch scratch(winograd.backward_weights_scratch_bytes());
    std::vector<float> dw(32 * 32 * 9);
    winograd.backward_weights({.x = x.data(), .dy = dy.data(), .dw = dw.data()}, scratch.data());
    results.push_back(dw);
  }
  for (const auto& dw : results) EXPECT_EQ(dw, results.front());
}

// A value that is not a number must reach the loss, or nobody learns of it.
TEST_P(WinogradTest, NanIsNotHiddenByRelu) {
  const WinogradShape shape{
      .batch = 1, .in_channels = 16, .out_channels = 16, .height = 4, .width = 4, .pad_h = 1, .pad_w = 1};
  const Winograd winograd(shape, 1, *loops_);
  std::vector<float> x = random_values(16 * 16, 1), w = random_values(16 * 16 * 9, 2), y(x.size()), ones(16, 1.0f);
  x[0] = std::numeric_limits<float>::quiet_NaN();
  GuardedScratch scratch(winograd.forward_scratch_bytes());
  winograd.forward({.x = x.data(),
                    .weights = w.data(),
                    .y = y.data(),
                    .relu = true,
                    .in_scale = ones.data(),
                    .in_shift = ones.data(),
                    .in_relu = true},
                   scratch.data());
  EXPECT_TRUE(std::isnan(y[0]));
}

TEST_P(WinogradTest, RefusesChannelsThatDoNotFillAVector) {
  EXPECT_FALSE(
      Winograd::supports({.batch = 1, .in_channels = 3, .out_channels = 16, .height = 8, .width = 8}, *loops_));
  EXPECT_FALSE(Winograd::supports(
      {.batch = 1, .in_channels = 16, .out_channels = 16, .height = 8, .width = 8, .pad_h = 3}, *loops_));
}

INSTANTIATE_TEST_SUITE_P(Isas, WinogradTest, testing::Values(Isa::generic, Isa::avx2, Isa::avx512), name_of_isa);

}  // namespace
}  // namespace trifold::cpu
