// Gradients added up with fewer bytes, on backends whose memory is the host's. What compression leaves unsaid lies in
// the kernel's own memory: it is no part of a checkpoint, so a run that is resumed begins with none of it.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/half.h"
#include "core/philox.h"
#include "kernels/backend.h"
#include "kernels/ops/gradient_exchange.h"
#include "parallel/rank_groups.h"

namespace trifold {
namespace {

std::size_t in_lines(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

class GradientExchangeKernel : public Kernel {
 public:
  explicit GradientExchangeKernel(const KernelRequest& request)
      : ranks_(request.ranks),
        axis_(op_as<GradientExchange>(request).axis),
        size_(static_cast<std::size_t>(op_as<GradientExchange>(request).ranks)),
        elements_(static_cast<std::size_t>(request.in[0].elements())) {}

  std::string implementation() const override { return name_of(axis_); }

 protected:
  Communicator& group() const {
    TRIFOLD_CHECK(ranks_ != nullptr, "the program was compiled without its ranks");
    return ranks_->along(axis_);
  }
  std::size_t size() const { return size_; }
  std::size_t elements() const { return elements_; }

 private:
  const RankGroups* ranks_;
  Axis axis_;
  std::size_t size_;
  std::size_t elements_;
};

class HalfAllReduceKernel final : public GradientExchangeKernel {
 public:
  explicit HalfAllReduceKernel(const KernelRequest& request)
      : GradientExchangeKernel(request),
        to_half_(op_as<HalfAllReduce>(request).wire == DType::f16 ? f16_from_float : bf16_from_float),
        from_half_(op_as<HalfAllReduce>(request).wire == DType::f16 ? float_from_f16 : float_from_bf16),
        part_((elements() + size() - 1) / size()) {}

  std::size_t scratch_bytes() const override { return 2 * in_lines(part_ * size() * sizeof(std::uint16_t)); }

  void run(const StepContext&) override {
    const std::size_t padded = part_ * size();
    auto* mine = reinterpret_cast<std::uint16_t*>(scratch());
    auto* terms = reinterpret_cast<std::uint16_t*>(scratch() + in_lines(padded * sizeof(std::uint16_t)));
    std::transform(in(0), in(0) + elements(), mine, to_half_);
    std::fill(mine + elements(), mine + padded, std::uint16_t{0});
    const auto bytes = [](std::uint16_t* first, std::size_t count) {
      return std::as_writable_bytes(std::span<std::uint16_t>(first, count));
    };
    group().wait(group().all_to_all(bytes(mine, padded), bytes(terms, padded)));
    std::uint16_t* sum = mine + static_cast<std::size_t>(group().rank()) * part_;
    for (std::size_t i = 0; i < part_; ++i) {
      float total = 0;
      for (std::size_t rank = 0; rank < size(); ++rank) total += from_half_(terms[rank * part_ + i]);
      sum[i] = to_half_(total);
    }
    group().wait(group().all_gather(bytes(sum, part_), bytes(mine, padded)));
    std::transform(mine, mine + elements(), out(0), from_half_);
  }

 private:
  std::uint16_t (*to_half_)(float);
  float (*from_half_)(std::uint16_t);
  std::size_t part_;  // that a rank adds up
};

class TopKAllReduceKernel final : public GradientExchangeKernel {
 public:
  explicit TopKAllReduceKernel(const KernelRequest& request)
      : GradientExchangeKernel(request), keep_(static_cast<std::size_t>(op_as<TopKAllReduce>(request).keep)) {
    TRIFOLD_CHECK(keep_ > 0 && keep_ <= elements(), "{} of {} gradients", keep_, elements());
  }

  std::size_t lasting_bytes() const override {
    return in_lines(elements() * sizeof(float)) + in_lines(elements() * sizeof(std::uint32_t)) +
           in_lines(keep_ * sizeof(Chosen)) + in_lines(size() * keep_ * sizeof(Chosen));
  }

  void run(const StepContext&) override {
    std::byte* next = scratch();
    const auto take = [&](std::size_t bytes) { return std::exchange(next, next + in_lines(bytes)); };
    auto* unsaid = reinterpret_cast<float*>(take(elements() * sizeof(float)));
    auto* order = reinterpret_cast<std::uint32_t*>(take(elements() * sizeof(std::uint32_t)));
    auto* chosen = reinterpret_cast<Chosen*>(take(keep_ * sizeof(Chosen)));
    auto* all = reinterpret_cast<Chosen*>(take(size() * keep_ * sizeof(Chosen)));

    for (std::size_t i = 0; i < elements(); ++i) unsaid[i] += in(0)[i];
    std::iota(order, order + elements(), 0U);
    // Of equal ones the first: every run chooses the same.
    std::nth_element(order, order + keep_ - 1, order + elements(), [&](std::uint32_t a, std::uint32_t b) {
      const float x = std::abs(unsaid[a]), y = std::abs(unsaid[b]);
      return x != y ? x > y : a < b;
    });
    std::sort(order, order + keep_);
    for (std::size_t i = 0; i < keep_; ++i) chosen[i] = {order[i], std::exchange(unsaid[order[i]], 0.0f)};
    group().wait(group().all_gather(std::as_bytes(std::span<const Chosen>(chosen, keep_)),
                                    std::as_writable_bytes(std::span<Chosen>(all, size() * keep_))));
    std::fill(out(0), out(0) + elements(), 0.0f);
    for (std::size_t i = 0; i < size() * keep_; ++i) out(0)[all[i].index] += all[i].value;
  }

 private:
  struct Chosen {
    std::uint32_t index;
    float value;
  };
  std::size_t keep_;
};

// The thin matrices of all parameters lie together, so that each kind is one exchange; with the left ones goes what is
// no matrix.
class LowRankAllReduceKernel final : public GradientExchangeKernel {
 public:
  explicit LowRankAllReduceKernel(const KernelRequest& request)
      : GradientExchangeKernel(request),
        op_(op_as<LowRankAllReduce>(request)),
        rank_(static_cast<std::size_t>(op_.rank)) {
    plain_ = elements();
    for (const auto& matrix : op_.matrices) {
      plain_ -= static_cast<std::size_t>(matrix.rows * matrix.columns);
      left_ += static_cast<std::size_t>(matrix.rows) * rank_;
      right_ += static_cast<std::size_t>(matrix.columns) * rank_;
    }
  }

  std::size_t lasting_bytes() const override {
    return in_lines(elements() * sizeof(float)) + in_lines((left_ + plain_) * sizeof(float)) +
           in_lines(right_ * sizeof(float));
  }

  void run(const StepContext&) override {
    auto* unsaid = reinterpret_cast<float*>(scratch());
    auto* left = unsaid + in_lines(elements() * sizeof(float)) / sizeof(float);
    float* right = left + in_lines((left_ + plain_) * sizeof(float)) / sizeof(float);
    if (!begun_) draw(right);
    begun_ = true;
    for (std::size_t i = 0; i < elements(); ++i) unsaid[i] += in(0)[i];

    for_each_matrix(left, right, [&](const auto& matrix, float* p, float* q) { multiply(unsaid, matrix, q, p); });
    copy_plain(unsaid, left + left_);
    group().wait(group().all_reduce({left, left_ + plain_}));
    for_each_matrix(left, right, [&](const auto& matrix, float* p, float* q) {
      make_orthonormal(p, static_cast<std::size_t>(matrix.rows));
      multiply_transposed(unsaid, matrix, p, q);
      // What this rank's part of the product does not say.
      add_product(unsaid, matrix, p, q, -1);
    });
    group().wait(group().all_reduce({right, right_}));

    put_plain(left + left_, unsaid);
    for_each_matrix(left, right, [&](const auto& matrix, float* p, float* q) {
      std::fill(out(0) + matrix.begin, out(0) + matrix.end(), 0.0f);
      add_product(out(0), matrix, p, q, 1);
    });
  }

 private:
  using Matrix = LowRankAllReduce::Matrix;

  template <class Do>
  void for_each_matrix(float* left, float* right, Do work) const {
    for (const Matrix& matrix : op_.matrices) {
      work(matrix, left, right);
      left += static_cast<std::size_t>(matrix.rows) * rank_;
      right += static_cast<std::size_t>(matrix.columns) * rank_;
    }
  }

  // The same on every rank.
  void draw(float* right) const {
    RandomSequence random(0, Purpose::synthetic, 1, 0);
    for (std::size_t i = 0; i < right_; ++i) right[i] = random.uniform(-1, 1);
  }

  // p [rows, rank] = M q
  void multiply(const float* from, const Matrix& matrix, const float* q, float* p) const {
    for (std::int64_t row = 0; row < matrix.rows; ++row)
      for (std::size_t k = 0; k < rank_; ++k) {
        const float* m = from + matrix.begin + row * matrix.columns;
        float sum = 0;
        for (std::int64_t column = 0; column < matrix.columns; ++column)
          sum += m[column] * q[static_cast<std::size_t>(column) * rank_ + k];
        p[static_cast<std::size_t>(row) * rank_ + k] = sum;
      }
  }

  // q [columns, rank] = M' p
  void multiply_transposed(const float* from, const Matrix& matrix, const float* p, float* q) const {
    std::fill(q, q + static_cast<std::size_t>(matrix.columns) * rank_, 0.0f);
    for (std::int64_t row = 0; row < matrix.rows; ++row) {
      const float* m = from + matrix.begin + row * matrix.columns;
      for (std::int64_t column = 0; column < matrix.columns; ++column)
        for (std::size_t k = 0; k < rank_; ++k)
          q[static_cast<std::size_t>(column) * rank_ + k] += m[column] * p[static_cast<std::size_t>(row) * rank_ + k];
    }
  }

  // to += sign p q'
  void add_product(float* to, const Matrix& matrix, const float* p, const float* q, float sign) const {
    for (std::int64_t row = 0; row < matrix.rows; ++row)
      for (std::int64_t column = 0; column < matrix.columns; ++column) {
        float sum = 0;
        for (std::size_t k = 0; k < rank_; ++k)
          sum += p[static_cast<std::size_t>(row) * rank_ + k] * q[static_cast<std::size_t>(column) * rank_ + k];
        to[matrix.begin + row * matrix.columns + column] += sign * sum;
      }
  }

  // Gram-Schmidt; a column that is nothing new becomes zero.
  void make_orthonormal(float* p, std::size_t rows) const {
    const auto dot = [&](std::size_t a, std::size_t b) {
      double sum = 0;
      for (std::size_t row = 0; row < rows; ++row) sum += static_cast<double>(p[row * rank_ + a]) * p[row * rank_ + b];
      return sum;
    };
    for (std::size_t k = 0; k < rank_; ++k) {
      const double before = dot(k, k);
      for (std::size_t done = 0; done < k; ++done) {
        const auto along = static_cast<float>(dot(k, done));
        for (std::size_t row = 0; row < rows; ++row) p[row * rank_ + k] -= along * p[row * rank_ + done];
      }
      const double left = dot(k, k);
      const auto scale = left > 1e-10 * before ? static_cast<float>(1 / std::sqrt(left)) : 0.0f;
      for (std::size_t row = 0; row < rows; ++row) p[row * rank_ + k] *= scale;
    }
  }

  template <class Do>
  void for_each_plain_run(Do work) const {
    std::int64_t begin = 0;
    for (const Matrix& matrix : op_.matrices) {
      work(begin, matrix.begin);
      begin = matrix.end();
    }
    work(begin, static_cast<std::int64_t>(elements()));
  }
  void copy_plain(const float* from, float* to) const {
    for_each_plain_run([&](std::int64_t begin, std::int64_t end) { to = std::copy(from + begin, from + end, to); });
  }
  // All of it was said.
  void put_plain(const float* from, float* unsaid) const {
    for_each_plain_run([&](std::int64_t begin, std::int64_t end) {
      std::copy(from, from + (end - begin), out(0) + begin);
      from += end - begin;
      std::fill(unsaid + begin, unsaid + end, 0.0f);
    });
  }

  LowRankAllReduce op_;
  std::size_t rank_;
  std::size_t plain_ = 0, left_ = 0, right_ = 0;  // elements
  bool begun_ = false;
};

class AverageKernel final : public GradientExchangeKernel {
 public:
  using GradientExchangeKernel::GradientExchangeKernel;

  void run(const StepContext&) override {
    if (out(0) != in(0)) std::copy_n(in(0), elements(), out(0));
    group().wait(group().all_reduce({out(0), elements()}));
    const float share = 1 / static_cast<float>(size());
    for (std::size_t i = 0; i < elements(); ++i) out(0)[i] *= share;
  }
};

const RegisterKernel register_gradient_exchange_kernels_cpu_half(cpu_backend(), "all_reduce.half",
                                                                 make_kernel<HalfAllReduceKernel>);
const RegisterKernel register_gradient_exchange_kernels_cpu_top_k(cpu_backend(), "all_reduce.top_k",
                                                                  make_kernel<TopKAllReduceKernel>);
const RegisterKernel register_gradient_exchange_kernels_cpu_low_rank(cpu_backend(), "all_reduce.low_rank",
                                                                     make_kernel<LowRankAllReduceKernel>);
const RegisterKernel register_gradient_exchange_kernels_cpu_average(cpu_backend(), "average",
                                                                    make_kernel<AverageKernel>);

}  // namespace
}  // namespace trifold
