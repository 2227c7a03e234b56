// The losses and log-softmax. A block has some rows, one piece of memory, and goes through them three times: it brings
// them into shared memory (if they fit), gathers what is known of each row, and writes every element by that. A
// gradient may be written over the input: a thread reads an element for the last time just before it writes it. Each
// block leaves its part of the report; one block adds them up, in double and always in the same order.
#include <algorithm>
#include <numeric>

#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/fast_divide.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/ops/loss.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kMostRows = 128;       // of a block
constexpr int kStagedFloats = 4096;  // of a block's rows in shared memory
constexpr int kWantedFloats = 1024;  // of a block, if its rows are short
constexpr int kSectorFloats = 8;
constexpr unsigned kAllLanes = 0xffffffffu;

struct Rows {
  std::int64_t count = 0;
  FastDivisor width;
  int lanes = 32;  // that share a row: a power of two
  int per_block = kThreads / 32;

  explicit Rows(const Shape& shape) : count(shape[0]), width(shape[1]) {
    TRIFOLD_CHECK(shape[1] < (std::int64_t{1} << 28), "a loss of {} classes", shape[1]);
    while (lanes / 2 >= shape[1]) lanes /= 2;
    // Whole sectors of elements and of labels.
    const std::int64_t rows = kWantedFloats / std::max<std::int64_t>(1, shape[1]) / kSectorFloats * kSectorFloats;
    per_block = static_cast<int>(std::clamp<std::int64_t>(rows, per_block, kMostRows));
  }
  unsigned blocks() const { return static_cast<unsigned>((count + per_block - 1) / per_block); }
  bool staged() const { return std::int64_t{width.divisor()} * per_block <= kStagedFloats; }
  std::size_t staged_bytes() const { return staged() ? std::size_t{width.divisor()} * per_block * sizeof(float) : 0; }
};

struct BlockReport {
  double loss, correct;
};

// A block's rows.
struct BlockRows {
  std::int64_t first;  // row
  int count;
  int elements;
  std::int64_t begin;  // element

  __device__ __forceinline__ explicit BlockRows(const Rows& rows)
      : first(std::int64_t{blockIdx.x} * rows.per_block),
        count(static_cast<int>(min(static_cast<std::int64_t>(rows.per_block), rows.count - first))),
        elements(count * static_cast<int>(rows.width.divisor())),
        begin(first * rows.width.divisor()) {}
};

// Calls body(i) for every element of the block: number i of it. Warps begin at whole sectors.
template <class Body>
__device__ __forceinline__ void for_each_element(const BlockRows& block, const Body& body) {
  for (int i = static_cast<int>(threadIdx.x) - static_cast<int>(block.begin % kSectorFloats); i < block.elements;
       i += kThreads)
    if (i >= 0) body(i);
}

// The block's elements of x: in shared memory if kStaged, where they are brought once, or where they are.
template <bool kStaged>
__device__ __forceinline__ const float* stage(const BlockRows& block, const float* x) {
  if constexpr (kStaged) {
    extern __shared__ float staged[];
    for_each_element(block, [&](int i) { staged[i] = x[block.begin + i]; });
    return staged;
  } else {
    return x + block.begin;
  }
}

// A row as the lanes that share it see it. Rows that are not there are empty.
struct LanesOfRow {
  int row;
  const float* x;
  int width;
  int lane, lanes;

  // body(k, x[k])
  template <class Body>
  __device__ __forceinline__ void for_each(const Body& body) const {
    for (int k = lane; k < width; k += lanes) body(k, x[k]);
  }
  __device__ __forceinline__ float sum(float value) const {
    for (int offset = lanes / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
    return value;
  }
};

// Calls body(LanesOfRow) for the rows, by whole warps: also for rows past the last.
template <class Body>
__device__ __forceinline__ void for_each_row(const Rows& rows, const BlockRows& block, const float* x,
                                             const Body& body) {
  const int lane = static_cast<int>(threadIdx.x) & (rows.lanes - 1);
  const int at_once = kThreads / rows.lanes;
  const auto width = static_cast<int>(rows.width.divisor());
  for (int first = 0; first < block.count; first += at_once) {
    const int row = first + static_cast<int>(threadIdx.x) / rows.lanes;
    body(LanesOfRow{row, x + row * width, row < block.count ? width : 0, lane, rows.lanes});
  }
}

// Calls body(i, row, k): the same with an element's row and place in it.
template <class Body>
__device__ __forceinline__ void for_each_element(const Rows& rows, const BlockRows& block, const Body& body) {
  for_each_element(block, [&](int i) {
    std::uint32_t k;
    const std::uint32_t row = rows.width.divide(static_cast<std::uint32_t>(i), &k);
    body(i, static_cast<int>(row), static_cast<int>(k));
  });
}

struct Maximum {
  float value;
  int index;  // of the first
};

__device__ __forceinline__ Maximum first_maximum(const LanesOfRow& row) {
  constexpr int kNone = 0x7fffffff;
  Maximum best{-INFINITY, kNone};
  row.for_each([&](int k, float value) {
    if (value > best.value || best.index == kNone) best = {value, k};
  });
  for (int offset = row.lanes / 2; offset > 0; offset /= 2) {
    const Maximum other{__shfl_xor_sync(kAllLanes, best.value, offset), __shfl_xor_sync(kAllLanes, best.index, offset)};
    if (other.value > best.value || (other.value == best.value && other.index < best.index)) best = other;
  }
  return best;
}

template <bool kStaged>
__global__ void __launch_bounds__(kThreads) log_softmax_forward(Rows rows, const float* x, float* y) {
  __shared__ float largests[kMostRows];
  __shared__ float normalisers[kMostRows];
  const BlockRows block(rows);
  const float* values = stage<kStaged>(block, x);
  __syncthreads();
  for_each_row(rows, block, values, [&](const LanesOfRow& row) {
    const float largest = first_maximum(row).value;
    float sum = 0;
    row.for_each([&](int, float value) { sum += expf(value - largest); });
    const float normaliser = logf(row.sum(sum));
    if (row.lane != 0 || row.row >= block.count) return;
    largests[row.row] = largest;
    normalisers[row.row] = normaliser;
  });
  __syncthreads();
  for_each_element(rows, block,
                   [&](int i, int row, int) { y[block.begin + i] = (values[i] - largests[row]) - normalisers[row]; });
}

template <bool kStaged>
__global__ void __launch_bounds__(kThreads)
    log_softmax_backward(Rows rows, const float* dy, const float* y, float* dx) {
  __shared__ float sums[kMostRows];
  const BlockRows block(rows);
  const float* values = stage<kStaged>(block, dy);
  __syncthreads();
  for_each_row(rows, block, values, [&](const LanesOfRow& row) {
    float sum = 0;
    row.for_each([&](int, float value) { sum += value; });
    sum = row.sum(sum);
    if (row.lane == 0 && row.row < block.count) sums[row.row] = sum;
  });
  __syncthreads();
  for_each_element(rows, block, [&](int i, int row, int) {
    dx[block.begin + i] = values[i] - expf(y[block.begin + i]) * sums[row];
  });
}

// Adds up the block's reports, of which every thread has a part.
__device__ __forceinline__ void store_report(BlockReport mine, BlockReport* reports) {
  const double loss = block_sum<kThreads>(mine.loss);
  const double correct = block_sum<kThreads>(mine.correct);
  if (threadIdx.x == 0) reports[blockIdx.x] = {loss, correct};
}

struct CrossEntropyArgs {
  double smoothing;
  double share;  // of a sample in the mean; where there are weights, times the mean weight
  const DeviceStep* step;
  const float* weights;  // [K] or null
  double mean_weight;    // of all classes
  bool log_input;
  const float* x;
  const int* labels;
  float* gradient;  // or null; may be x
  BlockReport* reports;
};

template <bool kStaged>
__global__ void __launch_bounds__(kThreads) cross_entropy_rows(Rows rows, CrossEntropyArgs args) {
  __shared__ int labels[kMostRows];
  __shared__ float largests[kMostRows];
  __shared__ float of_sums[kMostRows];  // 1 / the sum of exponentials
  __shared__ float target_sums[kMostRows];
  const BlockRows block(rows);
  for (int i = static_cast<int>(threadIdx.x); i < block.count; i += kThreads) labels[i] = args.labels[block.first + i];
  const float* values = stage<kStaged>(block, args.x);
  __syncthreads();
  const auto width = static_cast<int>(rows.width.divisor());
  const bool weighted = args.weights != nullptr;
  const double share = weighted ? args.share / args.step->mean_class_weight : args.share;
  const double elsewhere = args.smoothing / width;  // the target of every class but the label's, without its weight
  BlockReport report{0, 0};
  for_each_row(rows, block, values, [&](const LanesOfRow& row) {
    const int label = row.row < block.count ? labels[row.row] : -1;
    const Maximum best = first_maximum(row);
    const float largest = args.log_input ? 0.0f : best.value;
    float sum = 0;    // of exponentials
    float total = 0;  // of weight * (x - largest)
    float of_label = 0;
    row.for_each([&](int k, float value) {
      const float distance = value - largest;
      if (!args.log_input) sum += expf(distance);
      total += weighted ? args.weights[k] * distance : distance;
      if (k == label) of_label = distance;
    });
    sum = args.log_input ? 1.0f : row.sum(sum);
    total = row.sum(total);
    of_label = row.sum(of_label);
    if (row.lane != 0 || row.row >= block.count) return;
    if (label < 0) return;
    const double label_share = (weighted ? static_cast<double>(args.weights[label]) : 1.0) * (1 - args.smoothing);
    const double target_sum = label_share + args.smoothing * args.mean_weight;
    const double normaliser = log(static_cast<double>(sum));
    report.loss -= share * (label_share * of_label + elsewhere * total - target_sum * normaliser);
    report.correct += best.index == label ? 1.0 : 0.0;
    largests[row.row] = largest;
    of_sums[row.row] = 1 / sum;
    target_sums[row.row] = static_cast<float>(target_sum);
  });
  store_report(report, args.reports);  // all rows are known behind its barriers
  if (args.gradient == nullptr) return;
  const float scale = static_cast<float>(share);
  const float target_elsewhere = static_cast<float>(elsewhere);
  const float target_label = static_cast<float>(1 - args.smoothing + elsewhere);
  for_each_element(rows, block, [&](int i, int row, int k) {
    float gradient = 0;
    if (labels[row] >= 0) {
      const float probability = args.log_input ? 0.0f : expf(values[i] - largests[row]) * of_sums[row];
      const float target = (weighted ? args.weights[k] : 1.0f) * (k == labels[row] ? target_label : target_elsewhere);
      gradient = scale * (probability * target_sums[row] - target);
    }
    args.gradient[block.begin + i] = gradient;
  });
}

struct MeanSquaresArgs {
  double share;  // of an element in the mean
  const float* y;
  const float* targets;
  const int* labels;
  float* gradient;  // or null; may be y
  BlockReport* reports;
};

__global__ void __launch_bounds__(kThreads) mean_squares_rows(Rows rows, MeanSquaresArgs args) {
  __shared__ int labels[kMostRows];
  const BlockRows block(rows);
  for (int i = static_cast<int>(threadIdx.x); i < block.count; i += kThreads) labels[i] = args.labels[block.first + i];
  __syncthreads();
  const float slope = static_cast<float>(2 * args.share);
  double squares = 0;
  for_each_element(rows, block, [&](int i, int row, int) {
    const std::int64_t at = block.begin + i;
    const float difference = labels[row] >= 0 ? args.y[at] - args.targets[at] : 0.0f;
    squares += static_cast<double>(difference) * difference;
    if (args.gradient != nullptr) args.gradient[at] = slope * difference;
  });
  store_report({squares * args.share, 0}, args.reports);
}

constexpr int kSumThreads = 256;
__global__ void __launch_bounds__(kSumThreads) sum_reports(int count, const BlockReport* reports, double* report) {
  double loss = 0;
  double correct = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kSumThreads) {
    const double2 each = __ldca(reinterpret_cast<const double2*>(reports + i));
    loss += each.x;
    correct += each.y;
  }
  loss = block_sum<kSumThreads>(loss);
  correct = block_sum<kSumThreads>(correct);
  if (threadIdx.x == 0) *reinterpret_cast<double2*>(report) = make_double2(loss, correct);
}

class LogSoftmaxForwardKernel final : public CudaKernel {
 public:
  explicit LogSoftmaxForwardKernel(const KernelRequest& request) : CudaKernel(request), rows_(request.in[0].shape) {}

  void run(const StepContext&) override {
    const auto kernel = rows_.staged() ? log_softmax_forward<true> : log_softmax_forward<false>;
    kernel<<<rows_.blocks(), kThreads, rows_.staged_bytes(), stream()>>>(rows_, in(0), out(0));
    check_launch("log_softmax_forward");
  }

 private:
  Rows rows_;
};

class LogSoftmaxBackwardKernel final : public CudaKernel {
 public:
  explicit LogSoftmaxBackwardKernel(const KernelRequest& request) : CudaKernel(request), rows_(request.in[0].shape) {}

  void run(const StepContext&) override {
    const auto kernel = rows_.staged() ? log_softmax_backward<true> : log_softmax_backward<false>;
    kernel<<<rows_.blocks(), kThreads, rows_.staged_bytes(), stream()>>>(rows_, in(0), in(1), out(0));
    check_launch("log_softmax_backward");
  }

 private:
  Rows rows_;
};

// A loss: a report a block in scratch, then their sum.
class LossKernel : public CudaKernel {
 public:
  explicit LossKernel(const KernelRequest& request) : CudaKernel(request), rows_(request.in[0].shape) {}
  std::size_t scratch_bytes() const override { return rows_.blocks() * sizeof(BlockReport); }

 protected:
  const Rows& rows() const { return rows_; }
  BlockReport* reports() const { return reinterpret_cast<BlockReport*>(scratch()); }
  void sum_up() {
    sum_reports<<<1, kSumThreads, 0, stream()>>>(static_cast<int>(rows_.blocks()), reports(), out<double>(0));
    check_launch("sum_reports");
  }

 private:
  Rows rows_;
};

class CrossEntropyKernel final : public LossKernel {
 public:
  explicit CrossEntropyKernel(const KernelRequest& request) : LossKernel(request), op_(op_as<CrossEntropy>(request)) {
    if (op_.class_weights.empty()) return;
    mean_weight_ = std::accumulate(op_.class_weights.begin(), op_.class_weights.end(), 0.0) /
                   static_cast<double>(op_.class_weights.size());
    weights_ = DeviceMemory(device(), op_.class_weights.size() * sizeof(float));
    device().upload(weights_.data(), op_.class_weights.data(), weights_.bytes());
  }

  void run(const StepContext&) override {
    const CrossEntropyArgs args{.smoothing = op_.smoothing,
                                .share = 1 / static_cast<double>(op_.global_batch),
                                .step = step(),
                                .weights = reinterpret_cast<const float*>(weights_.data()),
                                .mean_weight = mean_weight_,
                                .log_input = op_.log_input,
                                .x = in(0),
                                .labels = in<std::int32_t>(1),
                                .gradient = op_.gradient ? out(1) : nullptr,
                                .reports = reports()};
    const auto kernel = rows().staged() ? cross_entropy_rows<true> : cross_entropy_rows<false>;
    kernel<<<rows().blocks(), kThreads, rows().staged_bytes(), stream()>>>(rows(), args);
    check_launch("cross_entropy_rows");
    sum_up();
  }

 private:
  CrossEntropy op_;
  double mean_weight_ = 1;  // of all classes
  DeviceMemory weights_;
};

class MeanSquaresKernel final : public LossKernel {
 public:
  explicit MeanSquaresKernel(const KernelRequest& request) : LossKernel(request), op_(op_as<MeanSquares>(request)) {}

  void run(const StepContext&) override {
    const MeanSquaresArgs args{
        .share = 1 / (static_cast<double>(rows().width.divisor()) * static_cast<double>(op_.global_batch)),
        .y = in(0),
        .targets = in(1),
        .labels = in<std::int32_t>(2),
        .gradient = op_.gradient ? out(1) : nullptr,
        .reports = reports()};
    mean_squares_rows<<<rows().blocks(), kThreads, 0, stream()>>>(rows(), args);
    check_launch("mean_squares_rows");
    sum_up();
  }

 private:
  MeanSquares op_;
};

const RegisterKernel register_loss_softmax_forward(cuda_backend(), "log_softmax.forward",
                                                   make_kernel<LogSoftmaxForwardKernel>);
const RegisterKernel register_loss_softmax_backward(cuda_backend(), "log_softmax.backward",
                                                    make_kernel<LogSoftmaxBackwardKernel>);
const RegisterKernel register_loss_cross_entropy(cuda_backend(), "cross_entropy", make_kernel<CrossEntropyKernel>);
const RegisterKernel register_loss_mean_squares(cuda_backend(), "mse", make_kernel<MeanSquaresKernel>);

}  // namespace
}  // namespace trifold::cuda
