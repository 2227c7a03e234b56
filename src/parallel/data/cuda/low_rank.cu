#include <algorithm>
#include <vector>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/fast_divide.cuh"
#include "kernels/cuda/reduce.cuh"
#include "parallel/data/cuda/low_rank.h"

namespace trifold::cuda {

// A matrix of the gradient: where it begins, and where its thin ones do among all others.
struct ThinMatrix {
  std::int64_t begin;
  std::int64_t left_at, right_at;
  int rows;
  FastDivisor columns;
};

// What lies between two matrices.
struct PlainRun {
  std::int64_t begin;
  std::int64_t packed_at;
  std::int64_t count;
};

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kAtOnce = 4;  // columns of a thin matrix in one pass over the gradient

// A warp has a row of M.
__global__ void __launch_bounds__(kThreads)
    multiply_matrices(const ThinMatrix* __restrict__ matrices, int rank, const float* __restrict__ gradient,
                      const float* __restrict__ right, float* __restrict__ left) {
  const ThinMatrix matrix = matrices[blockIdx.y];
  const int columns = static_cast<int>(matrix.columns.divisor());
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float* q = right + matrix.right_at;
  for (int row = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32; row < matrix.rows;
       row += static_cast<int>(gridDim.x) * kWarps) {
    const float* m = gradient + matrix.begin + std::int64_t{row} * columns;
    for (int first = 0; first < rank; first += kAtOnce) {
      float sums[kAtOnce] = {};
      for (int column = lane; column < columns; column += 32) {
        const float value = m[column];
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k)
          if (first + k < rank) sums[k] += value * q[std::int64_t{column} * rank + first + k];
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const float sum = warp_sum(sums[k]);
        if (lane == 0 && first + k < rank) left[matrix.left_at + std::int64_t{row} * rank + first + k] = sum;
      }
    }
  }
}

// A block has 32 columns of M; each of its warps takes every eighth row, and their sums are added in order.
__global__ void __launch_bounds__(kThreads)
    multiply_matrices_transposed(const ThinMatrix* __restrict__ matrices, int rank, const float* __restrict__ gradient,
                                 const float* __restrict__ left, float* __restrict__ right) {
  __shared__ float sums_of_warps[kAtOnce][kWarps][32];
  const ThinMatrix matrix = matrices[blockIdx.y];
  const int columns = static_cast<int>(matrix.columns.divisor());
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const float* p = left + matrix.left_at;
  for (int tile = static_cast<int>(blockIdx.x) * 32; tile < columns; tile += static_cast<int>(gridDim.x) * 32) {
    const int column = tile + lane;
    for (int first = 0; first < rank; first += kAtOnce) {
      float sums[kAtOnce] = {};
      if (column < columns)
        for (int row = warp; row < matrix.rows; row += kWarps) {
          const float value = gradient[matrix.begin + std::int64_t{row} * columns + column];
#pragma unroll
          for (int k = 0; k < kAtOnce; ++k)
            if (first + k < rank) sums[k] += value * p[std::int64_t{row} * rank + first + k];
        }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) sums_of_warps[k][warp][lane] = sums[k];
      __syncthreads();
      if (warp < kAtOnce && first + warp < rank && column < columns) {
        float sum = 0;
#pragma unroll
        for (int part = 0; part < kWarps; ++part) sum += sums_of_warps[warp][part][lane];
        right[matrix.right_at + std::int64_t{column} * rank + first + warp] = sum;
      }
      __syncthreads();
    }
  }
}

// A block has a matrix, a thread every so many of its rows.
class ThinColumns {
 public:
  __device__ __forceinline__ ThinColumns(float* p, int rows, int rank) : p_(p), rows_(rows), rank_(rank) {}

  __device__ __forceinline__ double dot(int a, int b) const {
    double sum = 0;
    for (int row = static_cast<int>(threadIdx.x); row < rows_; row += kThreads)
      sum += static_cast<double>(*at(row, a)) * static_cast<double>(*at(row, b));
    return block_sum<kThreads>(sum);
  }
  __device__ __forceinline__ void subtract(int from, float multiple, int what) const {
    for (int row = static_cast<int>(threadIdx.x); row < rows_; row += kThreads)
      *at(row, from) -= multiple * *at(row, what);
  }
  __device__ __forceinline__ void scale(int column, float factor) const {
    for (int row = static_cast<int>(threadIdx.x); row < rows_; row += kThreads) *at(row, column) *= factor;
  }

 private:
  __device__ __forceinline__ float* at(int row, int column) const { return p_ + std::int64_t{row} * rank_ + column; }

  float* p_;
  int rows_, rank_;
};

__global__ void __launch_bounds__(kThreads)
    make_columns_orthonormal(const ThinMatrix* __restrict__ matrices, int rank, float* left) {
  const ThinMatrix matrix = matrices[blockIdx.x];
  const ThinColumns columns(left + matrix.left_at, matrix.rows, rank);
  for (int k = 0; k < rank; ++k) {
    const double before = columns.dot(k, k);
    for (int done = 0; done < k; ++done) columns.subtract(k, static_cast<float>(columns.dot(k, done)), done);
    const double rest = columns.dot(k, k);
    columns.scale(k, rest > 1e-10 * before ? static_cast<float>(1 / sqrt(rest)) : 0.0f);
  }
}

template <bool kSubtract>
__global__ void __launch_bounds__(kThreads)
    multiply_thin(const ThinMatrix* __restrict__ matrices, int rank, const float* __restrict__ left,
                  const float* __restrict__ right, float* __restrict__ gradient) {
  const ThinMatrix matrix = matrices[blockIdx.y];
  const std::uint32_t elements = static_cast<std::uint32_t>(matrix.rows) * matrix.columns.divisor();
  float* const m = gradient + matrix.begin;
  for (std::uint32_t i = blockIdx.x * kThreads + threadIdx.x; i < elements; i += gridDim.x * kThreads) {
    std::uint32_t column;
    const std::uint32_t row = matrix.columns.divide(i, &column);
    const float* p = left + matrix.left_at + std::int64_t{row} * rank;
    const float* q = right + matrix.right_at + std::int64_t{column} * rank;
    float sum = 0;
    for (int k = 0; k < rank; ++k) sum += p[k] * q[k];
    m[i] = kSubtract ? m[i] - sum : sum;
  }
}

__global__ void __launch_bounds__(kThreads)
    pack_runs(const PlainRun* __restrict__ runs, const float* __restrict__ gradient, float* __restrict__ plain) {
  const PlainRun run = runs[blockIdx.y];
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < run.count;
       i += std::int64_t{gridDim.x} * kThreads)
    plain[run.packed_at + i] = gradient[run.begin + i];
}

__global__ void __launch_bounds__(kThreads) put_runs(const PlainRun* __restrict__ runs, const float* __restrict__ plain,
                                                     float* __restrict__ gradient, float* __restrict__ cleared) {
  const PlainRun run = runs[blockIdx.y];
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < run.count;
       i += std::int64_t{gridDim.x} * kThreads) {
    gradient[run.begin + i] = plain[run.packed_at + i];
    cleared[run.begin + i] = 0;
  }
}

}  // namespace

LowRankProduct::LowRankProduct(const LowRankAllReduce& op, std::int64_t elements, CudaDevice& device)
    : device_(device), rank_(static_cast<int>(op.rank)) {
  std::vector<ThinMatrix> matrices;
  std::vector<PlainRun> runs;
  const auto add_run = [&](std::int64_t begin, std::int64_t end) {
    if (begin == end) return;
    runs.push_back({.begin = begin, .packed_at = static_cast<std::int64_t>(plain_), .count = end - begin});
    longest_run_ = std::max(longest_run_, end - begin);
    plain_ += static_cast<std::size_t>(end - begin);
  };
  std::int64_t end = 0;
  for (const LowRankAllReduce::Matrix& matrix : op.matrices) {
    TRIFOLD_CHECK(matrix.rows * matrix.columns < (std::int64_t{1} << 31), "a matrix of {} by {} is too large",
                  matrix.rows, matrix.columns);
    add_run(end, matrix.begin);
    end = matrix.end();
    matrices.push_back({.begin = matrix.begin,
                        .left_at = static_cast<std::int64_t>(left_),
                        .right_at = static_cast<std::int64_t>(right_),
                        .rows = static_cast<int>(matrix.rows),
                        .columns = FastDivisor(matrix.columns)});
    left_ += static_cast<std::size_t>(matrix.rows * op.rank);
    right_ += static_cast<std::size_t>(matrix.columns * op.rank);
    most_rows_ = std::max(most_rows_, matrix.rows);
    most_columns_ = std::max(most_columns_, matrix.columns);
    most_elements_ = std::max(most_elements_, matrix.rows * matrix.columns);
  }
  add_run(end, elements);
  matrix_count_ = static_cast<int>(matrices.size());
  run_count_ = static_cast<int>(runs.size());
  const std::size_t matrix_bytes = matrices.size() * sizeof(ThinMatrix);
  const std::size_t run_bytes = runs.size() * sizeof(PlainRun);
  tables_ = DeviceMemory(device, std::max<std::size_t>(1, matrix_bytes + run_bytes));
  if (matrix_bytes > 0) device.upload(tables_.data(), matrices.data(), matrix_bytes);
  if (run_bytes > 0) device.upload(tables_.data() + matrix_bytes, runs.data(), run_bytes);
}

const ThinMatrix* LowRankProduct::matrices() const {
  return reinterpret_cast<const ThinMatrix*>(tables_.data());
}

const PlainRun* LowRankProduct::runs() const {
  return reinterpret_cast<const PlainRun*>(matrices() + matrix_count_);
}

unsigned LowRankProduct::blocks_across(std::int64_t largest, int per_block, int count) const {
  const std::int64_t wanted = (largest + per_block - 1) / per_block;
  const std::int64_t share = std::int64_t{8} * device_.multiprocessors() / count;
  return static_cast<unsigned>(std::max<std::int64_t>(1, std::min(wanted, share)));
}

void LowRankProduct::multiply(const float* gradient, const float* right, float* left) const {
  if (matrix_count_ == 0) return;
  const dim3 grid(blocks_across(most_rows_, kWarps, matrix_count_), static_cast<unsigned>(matrix_count_));
  multiply_matrices<<<grid, kThreads, 0, device_.compute()>>>(matrices(), rank_, gradient, right, left);
  check_launch("multiply_matrices");
}

void LowRankProduct::multiply_transposed(const float* gradient, const float* left, float* right) const {
  if (matrix_count_ == 0) return;
  const dim3 grid(blocks_across(most_columns_, 32, matrix_count_), static_cast<unsigned>(matrix_count_));
  multiply_matrices_transposed<<<grid, kThreads, 0, device_.compute()>>>(matrices(), rank_, gradient, left, right);
  check_launch("multiply_matrices_transposed");
}

void LowRankProduct::make_orthonormal(float* left) const {
  if (matrix_count_ == 0) return;
  make_columns_orthonormal<<<static_cast<unsigned>(matrix_count_), kThreads, 0, device_.compute()>>>(matrices(), rank_,
                                                                                                     left);
  check_launch("make_columns_orthonormal");
}

void LowRankProduct::subtract(const float* left, const float* right, float* gradient) const {
  if (matrix_count_ == 0) return;
  const dim3 grid(blocks_across(most_elements_, kThreads, matrix_count_), static_cast<unsigned>(matrix_count_));
  multiply_thin<true><<<grid, kThreads, 0, device_.compute()>>>(matrices(), rank_, left, right, gradient);
  check_launch("multiply_thin");
}

void LowRankProduct::put(const float* left, const float* right, float* gradient) const {
  if (matrix_count_ == 0) return;
  const dim3 grid(blocks_across(most_elements_, kThreads, matrix_count_), static_cast<unsigned>(matrix_count_));
  multiply_thin<false><<<grid, kThreads, 0, device_.compute()>>>(matrices(), rank_, left, right, gradient);
  check_launch("multiply_thin");
}

void LowRankProduct::pack_plain(const float* gradient, float* plain) const {
  if (run_count_ == 0) return;
  const dim3 grid(blocks_across(longest_run_, kThreads, run_count_), static_cast<unsigned>(run_count_));
  pack_runs<<<grid, kThreads, 0, device_.compute()>>>(runs(), gradient, plain);
  check_launch("pack_runs");
}

void LowRankProduct::put_plain(const float* plain, float* gradient, float* cleared) const {
  if (run_count_ == 0) return;
  const dim3 grid(blocks_across(longest_run_, kThreads, run_count_), static_cast<unsigned>(run_count_));
  put_runs<<<grid, kThreads, 0, device_.compute()>>>(runs(), plain, gradient, cleared);
  check_launch("put_runs");
}

}  // namespace trifold::cuda
