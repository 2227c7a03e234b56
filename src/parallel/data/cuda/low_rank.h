// The matrices of a flat gradient and their products of two thin ones, for PowerSGD: M [rows, columns] is p q' with
// p [rows, rank] on the left and q [columns, rank] on the right. Those of all matrices lie one after the other, and
// each pass takes them all in one launch of the compute stream. Every sum has one order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cuda/cuda_device.h"
#include "kernels/ops/gradient_exchange.h"

namespace trifold::cuda {

struct ThinMatrix;
struct PlainRun;

class LowRankProduct {
 public:
  // Of a gradient of so many elements.
  LowRankProduct(const LowRankAllReduce& op, std::int64_t elements, CudaDevice& device);

  std::size_t left_elements() const { return left_; }
  std::size_t right_elements() const { return right_; }
  std::size_t plain_elements() const { return plain_; }  // of the gradient, in no matrix

  void multiply(const float* gradient, const float* right, float* left) const;             // p = M q
  void multiply_transposed(const float* gradient, const float* left, float* right) const;  // q = M' p
  void make_orthonormal(float* left) const;  // by Gram and Schmidt; a column that is nothing new becomes zero
  void subtract(const float* left, const float* right, float* gradient) const;  // M -= p q'
  void put(const float* left, const float* right, float* gradient) const;       // M = p q'

  // What is in no matrix, side by side.
  void pack_plain(const float* gradient, float* plain) const;
  void put_plain(const float* plain, float* gradient, float* cleared) const;  // and zeros in its place in `cleared`

 private:
  const ThinMatrix* matrices() const;
  const PlainRun* runs() const;
  // Blocks along x of a grid that has one row for each of `count`: all rows together fill the GPU.
  unsigned blocks_across(std::int64_t largest, int per_block, int count) const;

  const CudaDevice& device_;
  int rank_;
  int matrix_count_ = 0;
  int run_count_ = 0;
  std::int64_t most_rows_ = 0, most_columns_ = 0, most_elements_ = 0;  // of a matrix
  std::int64_t longest_run_ = 0;
  std::size_t left_ = 0, right_ = 0, plain_ = 0;
  DeviceMemory tables_;
};

}  // namespace trifold::cuda
