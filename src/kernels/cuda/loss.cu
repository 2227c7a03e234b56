// The losses and log-softmax, a warp a row. A gradient may be written over the input: a lane reads an element for the
// last time just before it writes it. Each row leaves its part of the report; one block adds them up, in double and
// always in the same order.
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/ops/loss.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kRowsPerBlock = kThreads / 32;
constexpr int kCachedElements = 32;  // of a row in a lane's registers: rows of up to 1024
constexpr unsigned kAllLanes = 0xffffffffu;

struct Rows {
  std::int64_t count = 0;
  int width = 0;

  explicit Rows(const Shape& shape) : count(shape[0]), width(static_cast<int>(shape[1])) {}
  unsigned blocks() const { return static_cast<unsigned>((count + kRowsPerBlock - 1) / kRowsPerBlock); }
  bool cached() const { return width <= 32 * kCachedElements; }
};

struct RowReport {
  double loss, correct;
};

// The row of this warp; at or past the last one there is nothing to do.
__device__ __forceinline__ std::int64_t row_of_warp() {
  return std::int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / 32;
}
__device__ __forceinline__ int lane_of_thread() {
  return static_cast<int>(threadIdx.x) % 32;
}

// A lane's elements of a row: k = lane, lane + 32, ... Rows of up to 32 * kCached elements are read once and stay in
// registers; kCached = 0 reads an element whenever it is asked for.
template <int kCached>
class RowElements {
 public:
  __device__ __forceinline__ RowElements(const float* row, int width) : row_(row), width_(width) {
#pragma unroll
    for (int i = 0; i < kCached; ++i) {
      const int k = i * 32 + lane_of_thread();
      values_[i] = k < width ? row[k] : 0.0f;
    }
  }

  // body(k, x[k])
  template <class Body>
  __device__ __forceinline__ void for_each(const Body& body) const {
    if constexpr (kCached > 0) {
#pragma unroll
      for (int i = 0; i < kCached; ++i) {
        const int k = i * 32 + lane_of_thread();
        if (k < width_) body(k, values_[i]);
      }
    } else {
      for (int k = lane_of_thread(); k < width_; k += 32) body(k, row_[k]);
    }
  }

 private:
  const float* row_;
  int width_;
  float values_[kCached > 0 ? kCached : 1];
};

struct Maximum {
  float value;
  int index;  // of the first
};

template <int kCached>
__device__ __forceinline__ Maximum first_maximum(const RowElements<kCached>& x) {
  constexpr int kNone = 0x7fffffff;
  Maximum best{-INFINITY, kNone};
  x.for_each([&](int k, float value) {
    if (value > best.value || best.index == kNone) best = {value, k};
  });
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const Maximum other{__shfl_xor_sync(kAllLanes, best.value, offset), __shfl_xor_sync(kAllLanes, best.index, offset)};
    if (other.value > best.value || (other.value == best.value && other.index < best.index)) best = other;
  }
  return best;
}

template <int kCached>
__device__ __forceinline__ float sum_of_exponentials(const RowElements<kCached>& x, float largest) {
  float sum = 0;
  x.for_each([&](int, float value) { sum += expf(value - largest); });
  return warp_sum(sum);
}

template <int kCached>
__global__ void __launch_bounds__(kThreads) log_softmax_forward(Rows rows, const float* x, float* y) {
  const std::int64_t row = row_of_warp();
  if (row >= rows.count) return;
  const RowElements<kCached> elements(x + row * rows.width, rows.width);
  y += row * rows.width;
  const float largest = first_maximum(elements).value;
  const float normaliser = logf(sum_of_exponentials(elements, largest));
  elements.for_each([&](int k, float value) { y[k] = (value - largest) - normaliser; });
}

template <int kCached>
__global__ void __launch_bounds__(kThreads)
    log_softmax_backward(Rows rows, const float* dy, const float* y, float* dx) {
  const std::int64_t row = row_of_warp();
  if (row >= rows.count) return;
  const RowElements<kCached> elements(dy + row * rows.width, rows.width);
  y += row * rows.width;
  dx += row * rows.width;
  float sum = 0;
  elements.for_each([&](int, float value) { sum += value; });
  sum = warp_sum(sum);
  elements.for_each([&](int k, float value) { dx[k] = value - expf(y[k]) * sum; });
}

struct CrossEntropyArgs {
  double smoothing;
  double share;          // of a sample in the mean
  const float* weights;  // [K] or null
  bool log_input;
  const float* x;
  const int* labels;
  float* gradient;  // or null; may be x
  RowReport* reports;
};

template <int kCached>
__global__ void __launch_bounds__(kThreads) cross_entropy_rows(Rows rows, CrossEntropyArgs args) {
  const std::int64_t row = row_of_warp();
  if (row >= rows.count) return;
  const int lane = lane_of_thread();
  float* gradient = args.gradient == nullptr ? nullptr : args.gradient + row * rows.width;
  const int label = args.labels[row];
  if (label < 0) {
    for (int k = lane; gradient != nullptr && k < rows.width; k += 32) gradient[k] = 0;
    if (lane == 0) args.reports[row] = {0, 0};
    return;
  }

  const RowElements<kCached> x(args.x + row * rows.width, rows.width);
  const Maximum best = first_maximum(x);
  const float largest = args.log_input ? 0.0f : best.value;
  const float sum = args.log_input ? 1.0f : sum_of_exponentials(x, largest);
  float total = 0;  // of x - largest
  float of_label = 0;
  x.for_each([&](int k, float value) {
    total += value - largest;
    if (k == label) of_label = value - largest;
  });
  total = warp_sum(total);
  of_label = warp_sum(of_label);

  const double factor = (args.weights == nullptr ? 1.0 : static_cast<double>(args.weights[label])) * args.share;
  const double elsewhere = args.smoothing / rows.width;  // the target of every class but the label's
  if (lane == 0) {
    const double normaliser = log(static_cast<double>(sum));
    const double expected =
        (1 - args.smoothing) * (of_label - normaliser) + elsewhere * (total - rows.width * normaliser);
    args.reports[row] = {-factor * expected, best.index == label ? 1.0 : 0.0};
  }
  if (gradient == nullptr) return;
  const float scale = static_cast<float>(factor);
  const float target_elsewhere = static_cast<float>(elsewhere);
  const float target_label = static_cast<float>(1 - args.smoothing + elsewhere);
  const float of_sum = 1 / sum;
  x.for_each([&](int k, float value) {
    const float probability = args.log_input ? 0.0f : expf(value - largest) * of_sum;
    gradient[k] = scale * (probability - (k == label ? target_label : target_elsewhere));
  });
}

struct MeanSquaresArgs {
  double share;  // of an element in the mean
  const float* y;
  const float* targets;
  const int* labels;
  float* gradient;  // or null; may be y
  RowReport* reports;
};

__global__ void __launch_bounds__(kThreads) mean_squares_rows(Rows rows, MeanSquaresArgs args) {
  const std::int64_t row = row_of_warp();
  if (row >= rows.count) return;
  const std::int64_t begin = row * rows.width;
  const bool present = args.labels[row] >= 0;
  const float slope = static_cast<float>(2 * args.share);
  double squares = 0;
  for (int k = lane_of_thread(); k < rows.width; k += 32) {
    const float difference = present ? args.y[begin + k] - args.targets[begin + k] : 0.0f;
    squares += static_cast<double>(difference) * difference;
    if (args.gradient != nullptr) args.gradient[begin + k] = slope * difference;
  }
  squares = warp_sum(squares);
  if (lane_of_thread() == 0) args.reports[row] = {squares * args.share, 0};
}

constexpr int kSumThreads = 256;
__global__ void __launch_bounds__(kSumThreads)
    sum_reports(std::int64_t count, const RowReport* reports, double* report) {
  double loss = 0;
  double correct = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kSumThreads) {
    loss += reports[i].loss;
    correct += reports[i].correct;
  }
  loss = block_sum<kSumThreads>(loss);
  correct = block_sum<kSumThreads>(correct);
  if (threadIdx.x != 0) return;
  report[0] = loss;
  report[1] = correct;
}

class LogSoftmaxForwardKernel final : public CudaKernel {
 public:
  explicit LogSoftmaxForwardKernel(const KernelRequest& request) : CudaKernel(request), rows_(request.in[0].shape) {}

  void run(const StepContext&) override {
    const auto kernel = rows_.cached() ? log_softmax_forward<kCachedElements> : log_softmax_forward<0>;
    kernel<<<rows_.blocks(), kThreads, 0, stream()>>>(rows_, in(0), out(0));
    check_launch("log_softmax_forward");
  }

 private:
  Rows rows_;
};

class LogSoftmaxBackwardKernel final : public CudaKernel {
 public:
  explicit LogSoftmaxBackwardKernel(const KernelRequest& request) : CudaKernel(request), rows_(request.in[0].shape) {}

  void run(const StepContext&) override {
    const auto kernel = rows_.cached() ? log_softmax_backward<kCachedElements> : log_softmax_backward<0>;
    kernel<<<rows_.blocks(), kThreads, 0, stream()>>>(rows_, in(0), in(1), out(0));
    check_launch("log_softmax_backward");
  }

 private:
  Rows rows_;
};

// A loss: a report a row in scratch, then their sum.
class LossKernel : public CudaKernel {
 public:
  explicit LossKernel(const KernelRequest& request) : CudaKernel(request), rows_(request.in[0].shape) {}
  std::size_t scratch_bytes() const override { return static_cast<std::size_t>(rows_.count) * sizeof(RowReport); }

 protected:
  const Rows& rows() const { return rows_; }
  RowReport* reports() const { return reinterpret_cast<RowReport*>(scratch()); }
  void sum_up() {
    sum_reports<<<1, kSumThreads, 0, stream()>>>(rows_.count, reports(), out<double>(0));
    check_launch("sum_reports");
  }

 private:
  Rows rows_;
};

class CrossEntropyKernel final : public LossKernel {
 public:
  explicit CrossEntropyKernel(const KernelRequest& request) : LossKernel(request), op_(op_as<CrossEntropy>(request)) {
    if (op_.class_weights.empty()) return;
    weights_ = DeviceMemory(device(), op_.class_weights.size() * sizeof(float));
    device().upload(weights_.data(), op_.class_weights.data(), weights_.bytes());
  }

  void run(const StepContext&) override {
    const CrossEntropyArgs args{.smoothing = op_.smoothing,
                                .share = 1 / static_cast<double>(op_.global_batch),
                                .weights = reinterpret_cast<const float*>(weights_.data()),
                                .log_input = op_.log_input,
                                .x = in(0),
                                .labels = in<std::int32_t>(1),
                                .gradient = op_.gradient ? out(1) : nullptr,
                                .reports = reports()};
    const auto kernel = rows().cached() ? cross_entropy_rows<kCachedElements> : cross_entropy_rows<0>;
    kernel<<<rows().blocks(), kThreads, 0, stream()>>>(rows(), args);
    check_launch("cross_entropy_rows");
    sum_up();
  }

 private:
  CrossEntropy op_;
  DeviceMemory weights_;
};

class MeanSquaresKernel final : public LossKernel {
 public:
  explicit MeanSquaresKernel(const KernelRequest& request) : LossKernel(request), op_(op_as<MeanSquares>(request)) {}

  void run(const StepContext&) override {
    const MeanSquaresArgs args{.share = 1 / (static_cast<double>(rows().width) * static_cast<double>(op_.global_batch)),
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

const RegisterKernel softmax_forward(cuda_backend(), "log_softmax.forward", make_kernel<LogSoftmaxForwardKernel>);
const RegisterKernel softmax_backward(cuda_backend(), "log_softmax.backward", make_kernel<LogSoftmaxBackwardKernel>);
const RegisterKernel cross_entropy(cuda_backend(), "cross_entropy", make_kernel<CrossEntropyKernel>);
const RegisterKernel mean_squares(cuda_backend(), "mse", make_kernel<MeanSquaresKernel>);

}  // namespace
}  // namespace trifold::cuda
