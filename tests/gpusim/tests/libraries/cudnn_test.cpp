// cuDNN on simulated devices: convolutions and their gradients against plain loops in every layout, type and algorithm,
// and planted misuse, each of which has to be reported.
#include <algorithm>
#include <array>

#include <cudnn.h>

#include "device_array.h"

namespace {

struct Shape {
  int n = 2, c = 4, h = 7, w = 6, k = 6, r = 3, s = 3, pad = 1, stride = 1, dilation = 1, groups = 1;
  int p() const { return 1 + (h + 2 * pad - ((r - 1) * dilation + 1)) / stride; }
  int q() const { return 1 + (w + 2 * pad - ((s - 1) * dilation + 1)) / stride; }
  std::size_t x() const { return static_cast<std::size_t>(n * c * h * w); }
  std::size_t filter() const { return static_cast<std::size_t>(k * (c / groups) * r * s); }
  std::size_t y() const { return static_cast<std::size_t>(n * k * p() * q()); }
};

// Calls visit(x index, w index, y index) for every product of the convolution, all as in packed NCHW.
template <class Visit>
void for_each_product(const Shape& shape, const Visit& visit) {
  const int group_c = shape.c / shape.groups;
  const int group_k = shape.k / shape.groups;
  for (int n = 0; n < shape.n; ++n) {
    for (int k = 0; k < shape.k; ++k) {
      for (int p = 0; p < shape.p(); ++p) {
        for (int q = 0; q < shape.q(); ++q) {
          const int y = ((n * shape.k + k) * shape.p() + p) * shape.q() + q;
          for (int c = 0; c < group_c; ++c) {
            for (int r = 0; r < shape.r; ++r) {
              for (int s = 0; s < shape.s; ++s) {
                const int i = p * shape.stride + r * shape.dilation - shape.pad;
                const int j = q * shape.stride + s * shape.dilation - shape.pad;
                if (i < 0 || i >= shape.h || j < 0 || j >= shape.w) continue;
                const int channel = k / group_k * group_c + c;
                visit(static_cast<std::size_t>(((n * shape.c + channel) * shape.h + i) * shape.w + j),
                      static_cast<std::size_t>(((k * group_c + c) * shape.r + r) * shape.s + s),
                      static_cast<std::size_t>(y));
              }
            }
          }
        }
      }
    }
  }
}

// [N, C, H, W] to [N, H, W, C].
std::vector<float> channels_last(const std::vector<float>& from, int n, int c, int pixels) {
  std::vector<float> to(from.size());
  for (int i = 0; i < n * c * pixels; ++i) {
    const int image = i / (c * pixels), channel = i / pixels % c, pixel = i % pixels;
    to[static_cast<std::size_t>((image * pixels + pixel) * c + channel)] = from[static_cast<std::size_t>(i)];
  }
  return to;
}

// The handle and the four descriptors of one convolution.
class Conv {
 public:
  explicit Conv(const Shape& of, cudnnTensorFormat_t layout = CUDNN_TENSOR_NCHW,
                cudnnDataType_t type = CUDNN_DATA_FLOAT)
      : shape(of), format(layout) {
    EXPECT_EQ(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetStream(handle, stream.get()), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnCreateTensorDescriptor(&x), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnCreateTensorDescriptor(&y), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnCreateTensorDescriptor(&bias), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnCreateFilterDescriptor(&w), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnCreateConvolutionDescriptor(&conv), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetTensor4dDescriptor(x, format, type, shape.n, shape.c, shape.h, shape.w), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetFilter4dDescriptor(w, type, format, shape.k, shape.c / shape.groups, shape.r, shape.s),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetConvolution2dDescriptor(conv, shape.pad, shape.pad, shape.stride, shape.stride, shape.dilation,
                                              shape.dilation, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetConvolutionGroupCount(conv, shape.groups), CUDNN_STATUS_SUCCESS);
    std::array<int, 4> dims = {};
    EXPECT_EQ(cudnnGetConvolutionNdForwardOutputDim(conv, x, w, 4, dims.data()), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(dims, (std::array<int, 4>{shape.n, shape.k, shape.p(), shape.q()}));
    EXPECT_EQ(cudnnSetTensor4dDescriptor(y, format, type, dims[0], dims[1], dims[2], dims[3]), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetTensor4dDescriptor(bias, format, type, 1, shape.k, 1, 1), CUDNN_STATUS_SUCCESS);
  }
  ~Conv() {
    cudnnDestroyConvolutionDescriptor(conv);
    cudnnDestroyFilterDescriptor(w);
    for (auto* tensor : {x, y, bias}) cudnnDestroyTensorDescriptor(tensor);
    EXPECT_EQ(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
  }
  Conv(const Conv&) = delete;
  Conv& operator=(const Conv&) = delete;

  std::vector<float> stored(const std::vector<float>& from, int outer, int channels) const {
    if (format == CUDNN_TENSOR_NCHW) return from;
    return channels_last(from, outer, channels, static_cast<int>(from.size()) / (outer * channels));
  }
  std::vector<float> stored_x(const std::vector<float>& from) const { return stored(from, shape.n, shape.c); }
  std::vector<float> stored_w(const std::vector<float>& from) const {
    return stored(from, shape.k, shape.c / shape.groups);
  }
  std::vector<float> stored_y(const std::vector<float>& from) const { return stored(from, shape.n, shape.k); }

  Shape shape;
  cudnnTensorFormat_t format;
  Stream stream;
  cudnnHandle_t handle = nullptr;
  cudnnTensorDescriptor_t x = nullptr, y = nullptr, bias = nullptr;
  cudnnFilterDescriptor_t w = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;
};

struct Expected {
  std::vector<float> x, w, dy;   // inputs
  std::vector<float> y, dx, dw;  // results
};
Expected expected_of(const Shape& shape) {
  Expected all{values(shape.x(), 1), values(shape.filter(), 2), values(shape.y(), 3), {}, {}, {}};
  all.y.resize(shape.y());
  all.dx.resize(shape.x());
  all.dw.resize(shape.filter());
  for_each_product(shape, [&](std::size_t x, std::size_t w, std::size_t y) {
    all.y[y] += all.x[x] * all.w[w];
    all.dx[x] += all.dy[y] * all.w[w];
    all.dw[w] += all.dy[y] * all.x[x];
  });
  return all;
}

using CudnnTest = LibraryTest;

// Runs all three passes with every algorithm that a search offers, with alpha = 2 and beta = 0.5.
void check_all_passes(const Shape& shape, cudnnTensorFormat_t format) {
  const Conv conv(shape, format);
  const Expected all = expected_of(shape);
  const DeviceArray<float> x(conv.stored_x(all.x)), w(conv.stored_w(all.w)), dy(conv.stored_y(all.dy));
  const float alpha = 2, beta = 0.5F;
  const auto blended = [&](std::vector<float> result) {
    for (auto& value : result) value = alpha * value + beta * 3;
    return result;
  };
  int count = 0;
  std::array<cudnnConvolutionFwdAlgoPerf_t, 8> forward = {};
  ASSERT_EQ(
      cudnnGetConvolutionForwardAlgorithm_v7(conv.handle, conv.x, conv.w, conv.conv, conv.y, 8, &count, forward.data()),
      CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(forward[0].status, CUDNN_STATUS_SUCCESS);
  for (const auto& perf : forward) {
    if (perf.status != CUDNN_STATUS_SUCCESS) continue;
    const DeviceArray<char> workspace(perf.memory + 16);
    const DeviceArray<float> y(std::vector<float>(shape.y(), 3));
    ASSERT_EQ(cudnnConvolutionForward(conv.handle, &alpha, conv.x, x.get(), conv.w, w.get(), conv.conv, perf.algo,
                                      workspace.get(), perf.memory, &beta, conv.y, y.get()),
              CUDNN_STATUS_SUCCESS);
    conv.stream.wait();
    EXPECT_EQ(y.download(), conv.stored_y(blended(all.y))) << "forward algorithm " << perf.algo;
  }
  std::array<cudnnConvolutionBwdDataAlgoPerf_t, 6> data = {};
  ASSERT_EQ(cudnnGetConvolutionBackwardDataAlgorithm_v7(conv.handle, conv.w, conv.y, conv.conv, conv.x, 6, &count,
                                                        data.data()),
            CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(data[0].status, CUDNN_STATUS_SUCCESS);
  for (const auto& perf : data) {
    if (perf.status != CUDNN_STATUS_SUCCESS) continue;
    const DeviceArray<char> workspace(perf.memory + 16);
    const DeviceArray<float> dx(std::vector<float>(shape.x(), 3));
    ASSERT_EQ(cudnnConvolutionBackwardData(conv.handle, &alpha, conv.w, w.get(), conv.y, dy.get(), conv.conv, perf.algo,
                                           workspace.get(), perf.memory, &beta, conv.x, dx.get()),
              CUDNN_STATUS_SUCCESS);
    conv.stream.wait();
    EXPECT_EQ(dx.download(), conv.stored_x(blended(all.dx))) << "data algorithm " << perf.algo;
  }
  std::array<cudnnConvolutionBwdFilterAlgoPerf_t, 7> filter = {};
  ASSERT_EQ(cudnnGetConvolutionBackwardFilterAlgorithm_v7(conv.handle, conv.x, conv.y, conv.conv, conv.w, 7, &count,
                                                          filter.data()),
            CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(filter[0].status, CUDNN_STATUS_SUCCESS);
  for (const auto& perf : filter) {
    if (perf.status != CUDNN_STATUS_SUCCESS) continue;
    const DeviceArray<char> workspace(perf.memory + 16);
    const DeviceArray<float> dw(std::vector<float>(shape.filter(), 3));
    ASSERT_EQ(cudnnConvolutionBackwardFilter(conv.handle, &alpha, conv.x, x.get(), conv.y, dy.get(), conv.conv,
                                             perf.algo, workspace.get(), perf.memory, &beta, conv.w, dw.get()),
              CUDNN_STATUS_SUCCESS);
    conv.stream.wait();
    EXPECT_EQ(dw.download(), conv.stored_w(blended(all.dw))) << "filter algorithm " << perf.algo;
  }
}

TEST_F(CudnnTest, AllPassesAndAlgorithmsInBothLayouts) {
  for (const auto format : {CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC}) {
    check_all_passes({}, format);
    check_all_passes({.stride = 2}, format);
    check_all_passes({.h = 11, .w = 10, .pad = 2, .dilation = 2}, format);
    check_all_passes({.groups = 2}, format);
    check_all_passes({.c = 4, .k = 4, .groups = 4}, format);
    check_all_passes({.r = 1, .s = 1, .pad = 0}, format);
    check_all_passes({.h = 9, .w = 9, .r = 5, .s = 5, .pad = 2}, format);
    check_all_passes({.r = 1, .s = 1, .pad = 0, .stride = 3}, format);
  }
}

template <class T, class Convert>
void check_sixteen_bits(cudnnDataType_t type, const Convert& convert) {
  const Shape shape;
  const Conv conv(shape, CUDNN_TENSOR_NHWC, type);
  const Expected all = expected_of(shape);
  ASSERT_EQ(cudnnSetConvolutionMathType(conv.conv, CUDNN_TENSOR_OP_MATH), CUDNN_STATUS_SUCCESS);
  const DeviceArray<T> x(convert(conv.stored_x(all.x))), w(convert(conv.stored_w(all.w))),
      dy(convert(conv.stored_y(all.dy))), y(shape.y()), dw(shape.filter());
  const float one = 1, zero = 0;
  std::size_t bytes = 0;
  ASSERT_EQ(cudnnGetConvolutionForwardWorkspaceSize(conv.handle, conv.x, conv.w, conv.conv, conv.y,
                                                    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, &bytes),
            CUDNN_STATUS_SUCCESS);
  EXPECT_GT(bytes, 0U);
  const DeviceArray<char> workspace(1 << 16);
  ASSERT_EQ(cudnnConvolutionForward(conv.handle, &one, conv.x, x.get(), conv.w, w.get(), conv.conv,
                                    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, workspace.get(), 1 << 16, &zero,
                                    conv.y, y.get()),
            CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudnnConvolutionBackwardFilter(conv.handle, &one, conv.x, x.get(), conv.y, dy.get(), conv.conv,
                                           CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, workspace.get(), 1 << 16, &zero, conv.w,
                                           dw.get()),
            CUDNN_STATUS_SUCCESS);
  conv.stream.wait();
  EXPECT_EQ(to_float(y.download()), to_float(convert(conv.stored_y(all.y))));
  EXPECT_EQ(to_float(dw.download()), to_float(convert(conv.stored_w(all.dw))));
}

TEST_F(CudnnTest, HalfAndBfloatRoundOnce) {
  check_sixteen_bits<__half>(CUDNN_DATA_HALF, to_half);
  check_sixteen_bits<__nv_bfloat16>(CUDNN_DATA_BFLOAT16, to_bfloat);
}

TEST_F(CudnnTest, ConvolutionModeMirrorsTheFilter) {
  const Shape shape{.c = 1, .k = 1};
  const Conv conv(shape);
  ASSERT_EQ(cudnnSetConvolution2dDescriptor(conv.conv, 1, 1, 1, 1, 1, 1, CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT),
            CUDNN_STATUS_SUCCESS);
  const Expected all = expected_of(shape);
  auto mirrored = all.w;
  std::reverse(mirrored.begin(), mirrored.end());
  const DeviceArray<float> x(all.x), w(mirrored), y(shape.y());
  const float one = 1, zero = 0;
  ASSERT_EQ(cudnnConvolutionForward(conv.handle, &one, conv.x, x.get(), conv.w, w.get(), conv.conv,
                                    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &zero, conv.y, y.get()),
            CUDNN_STATUS_SUCCESS);
  conv.stream.wait();
  EXPECT_EQ(y.download(), all.y);
}

TEST_F(CudnnTest, BiasActivationAddAndBiasGradient) {
  const Shape shape;
  const Conv conv(shape);
  const Expected all = expected_of(shape);
  const auto bias_values = values(static_cast<std::size_t>(shape.k), 5);
  const DeviceArray<float> x(all.x), w(all.w), bias(bias_values), z(all.dy), y(shape.y());
  cudnnActivationDescriptor_t relu = nullptr;
  ASSERT_EQ(cudnnCreateActivationDescriptor(&relu), CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0), CUDNN_STATUS_SUCCESS);
  const float one = 1, half = 0.5F, zero = 0;
  ASSERT_EQ(cudnnConvolutionBiasActivationForward(conv.handle, &one, conv.x, x.get(), conv.w, w.get(), conv.conv,
                                                  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &half, conv.y,
                                                  z.get(), conv.bias, bias.get(), relu, conv.y, y.get()),
            CUDNN_STATUS_SUCCESS);
  conv.stream.wait();
  auto expected = all.y;
  const auto pixels = static_cast<std::size_t>(shape.p() * shape.q());
  const auto channel = [&](std::size_t i) { return i / pixels % static_cast<std::size_t>(shape.k); };
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] = std::max(0.0F, expected[i] + 0.5F * all.dy[i] + bias_values[channel(i)]);
  }
  EXPECT_EQ(y.download(), expected);

  ASSERT_EQ(cudnnAddTensor(conv.handle, &half, conv.bias, bias.get(), &one, conv.y, y.get()), CUDNN_STATUS_SUCCESS);
  const DeviceArray<float> db(static_cast<std::size_t>(shape.k));
  ASSERT_EQ(cudnnConvolutionBackwardBias(conv.handle, &one, conv.y, z.get(), &zero, conv.bias, db.get()),
            CUDNN_STATUS_SUCCESS);
  conv.stream.wait();
  std::vector<float> sums(static_cast<std::size_t>(shape.k));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expected[i] += 0.5F * bias_values[channel(i)];
    sums[channel(i)] += all.dy[i];
  }
  EXPECT_EQ(y.download(), expected);
  EXPECT_EQ(db.download(), sums);
  ASSERT_EQ(cudnnDestroyActivationDescriptor(relu), CUDNN_STATUS_SUCCESS);
}

TEST_F(CudnnTest, ASearchRepeatsAndOverwritesTheResult) {
  const Conv conv({});
  const Expected all = expected_of({});
  const DeviceArray<float> x(all.x), w(all.w), y(all.y);
  const DeviceArray<char> workspace(64);
  std::array<cudnnConvolutionFwdAlgoPerf_t, 8> first = {}, second = {};
  int count = 0;
  for (auto* results : {&first, &second}) {
    ASSERT_EQ(cudnnFindConvolutionForwardAlgorithmEx(conv.handle, conv.x, x.get(), conv.w, w.get(), conv.conv, conv.y,
                                                     y.get(), 8, &count, results->data(), workspace.get(), 64),
              CUDNN_STATUS_SUCCESS);
  }
  conv.stream.wait();
  EXPECT_EQ(count, 8);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(first[i].algo, second[i].algo);
    EXPECT_EQ(first[i].time, second[i].time);
    EXPECT_TRUE(first[i].status != CUDNN_STATUS_SUCCESS || first[i].memory <= 64U);
  }
  EXPECT_NE(y.download(), all.y);
}

TEST_F(CudnnTest, ConvolutionsAreCapturedIntoGraphs) {
  const Conv conv({});
  const Expected all = expected_of({});
  const DeviceArray<float> x(all.x), w(all.w), y(std::vector<float>(conv.shape.y(), 0));
  const float one = 1;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaStreamBeginCapture(conv.stream.get(), cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(cudnnConvolutionForward(conv.handle, &one, conv.x, x.get(), conv.w, w.get(), conv.conv,
                                    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &one, conv.y, y.get()),
            CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cudaStreamEndCapture(conv.stream.get(), &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(cudaGraphLaunch(exec, conv.stream.get()), cudaSuccess);
  conv.stream.wait();
  auto expected = all.y;
  for (auto& value : expected) value *= 2;
  EXPECT_EQ(y.download(), expected);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

// They run and time the algorithms, which a graph cannot hold.
TEST_F(CudnnTest, ReportsSearchesInACapture) {
  const Conv conv({});
  const Expected all = expected_of({});
  const DeviceArray<float> x(all.x), w(all.w), y(conv.shape.y());
  const DeviceArray<char> workspace(64);
  std::array<cudnnConvolutionFwdAlgoPerf_t, 8> results = {};
  int count = 0;
  const auto get = [&] {
    return cudnnGetConvolutionForwardAlgorithm_v7(conv.handle, conv.x, conv.w, conv.conv, conv.y, 8, &count,
                                                  results.data());
  };
  const auto find = [&] {
    return cudnnFindConvolutionForwardAlgorithm(conv.handle, conv.x, conv.w, conv.conv, conv.y, 8, &count,
                                                results.data());
  };
  const auto find_here = [&] {
    return cudnnFindConvolutionForwardAlgorithmEx(conv.handle, conv.x, x.get(), conv.w, w.get(), conv.conv, conv.y,
                                                  y.get(), 8, &count, results.data(), workspace.get(), 64);
  };
  const auto in_capture_of = [](const Stream& stream, const auto& call) {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal), cudaSuccess);
    const cudnnStatus_t status = call();
    const bool is_good = cudaStreamEndCapture(stream.get(), &graph) == cudaSuccess;
    if (graph) cudaGraphDestroy(graph);
    EXPECT_EQ(is_good, status == CUDNN_STATUS_SUCCESS);
    return status;
  };
  EXPECT_EQ(in_capture_of(conv.stream, get), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(in_capture_of(conv.stream, find), CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
  expect_report("invalid_call", "cudnnFindConvolutionForwardAlgorithm: not allowed while");
  EXPECT_EQ(in_capture_of(conv.stream, find_here), CUDNN_STATUS_EXECUTION_FAILED_CUDART);
  expect_report("invalid_call", "cudnnFindConvolutionForwardAlgorithmEx: not allowed while");
  const Stream other;
  EXPECT_EQ(in_capture_of(other, find), CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
  expect_report("invalid_call", "not allowed while a stream captures");
  EXPECT_EQ(in_capture_of(other, find_here), CUDNN_STATUS_SUCCESS);
}

// One forward convolution that is wrong in some way.
cudnnStatus_t forward(const Conv& conv, const void* x, const void* w, void* y, cudnnConvolutionFwdAlgo_t algo) {
  const float one = 1, zero = 0;
  return cudnnConvolutionForward(conv.handle, &one, conv.x, x, conv.w, w, conv.conv, algo, nullptr, 0, &zero, conv.y,
                                 y);
}

TEST_F(CudnnTest, ReportsShapesTypesAndWorkspacesThatDoNotFit) {
  const Conv conv({});
  const Expected all = expected_of({});
  const DeviceArray<float> x(all.x), w(all.w), y(conv.shape.y());
  EXPECT_EQ(forward(conv, x.get(), w.get(), y.get(), CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM),
            CUDNN_STATUS_BAD_PARAM);
  expect_report("invalid_call", "bytes of workspace, 0 were given");
  const DeviceArray<char> workspace(64);
  const float one = 1, zero = 0;
  EXPECT_EQ(cudnnConvolutionForward(conv.handle, &one, conv.x, x.get(), conv.w, w.get(), conv.conv,
                                    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, workspace.get(), 64, &zero,
                                    conv.y, y.get()),
            CUDNN_STATUS_BAD_PARAM);
  expect_report("invalid_call", "bytes of workspace, 64 were given");
  EXPECT_EQ(forward(conv, x.get(), nullptr, y.get(), CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM),
            CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  expect_report("invalid_call", "w is a null pointer");
  EXPECT_EQ(forward(conv, x.get(), w.get(), y.get(), CUDNN_CONVOLUTION_FWD_ALGO_DIRECT), CUDNN_STATUS_NOT_SUPPORTED);
  expect_report("invalid_call", "FWD_ALGO_DIRECT");
  ASSERT_EQ(cudnnSetTensor4dDescriptor(conv.y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 6, 7, 7), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(forward(conv, x.get(), w.get(), y.get(), CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM), CUDNN_STATUS_BAD_PARAM);
  expect_report("invalid_call", "y is [2, 6, 7, 7], the convolution gives [2, 6, 7, 6]");
  ASSERT_EQ(cudnnSetTensor4dDescriptor(conv.y, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF, 2, 6, 7, 6), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(forward(conv, x.get(), w.get(), y.get(), CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM), CUDNN_STATUS_BAD_PARAM);
  expect_report("invalid_call", "of one type");
  ASSERT_EQ(cudnnSetFilter4dDescriptor(conv.w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 6, 3, 3, 3), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(forward(conv, x.get(), w.get(), y.get(), CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM), CUDNN_STATUS_BAD_PARAM);
  expect_report("invalid_call", "x has 4 channels, w takes 3");
}

TEST_F(CudnnTest, ReportsAlgorithmsThatDoNotTakeTheConvolution) {
  const Conv strided({.stride = 2});
  std::size_t bytes = 0;
  EXPECT_EQ(cudnnGetConvolutionForwardWorkspaceSize(strided.handle, strided.x, strided.w, strided.conv, strided.y,
                                                    CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD, &bytes),
            CUDNN_STATUS_NOT_SUPPORTED);
  expect_report("invalid_call", "stride 1 only");
  const Conv nhwc({}, CUDNN_TENSOR_NHWC);
  EXPECT_EQ(cudnnGetConvolutionForwardWorkspaceSize(nhwc.handle, nhwc.x, nhwc.w, nhwc.conv, nhwc.y,
                                                    CUDNN_CONVOLUTION_FWD_ALGO_FFT, &bytes),
            CUDNN_STATUS_NOT_SUPPORTED);
  expect_report("invalid_call", "no NHWC filter");
  ASSERT_EQ(cudnnSetFilter4dDescriptor(nhwc.w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 6, 4, 3, 3), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnGetConvolutionBackwardDataWorkspaceSize(nhwc.handle, nhwc.w, nhwc.y, nhwc.conv, nhwc.x,
                                                         CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, &bytes),
            CUDNN_STATUS_NOT_SUPPORTED);
  expect_report("invalid_call", "dy has to be packed NCHW");
}

TEST_F(CudnnTest, ReportsTwoStreamsThatAreNotOrdered) {
  const Conv conv({});
  const Expected all = expected_of({});
  const DeviceArray<float> x(all.x), w(all.w), y(conv.shape.y()), again(conv.shape.y());
  ASSERT_EQ(forward(conv, x.get(), w.get(), y.get(), CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM), CUDNN_STATUS_SUCCESS);
  const Stream other;
  ASSERT_EQ(cudaMemcpyAsync(again.get(), y.get(), y.bytes(), cudaMemcpyDeviceToDevice, other.get()), cudaSuccess);
  conv.stream.wait();
  other.wait();
  const auto reports = gpusim_client::take_reports();
  const bool race = std::any_of(reports.begin(), reports.end(),
                                [](const std::string& line) { return line.rfind("stream_race:", 0) == 0; });
  EXPECT_TRUE(race);
}

TEST_F(CudnnTest, ReportsDescriptorsThatWereNeverSetOrAreGone) {
  const Conv conv({});
  cudnnTensorDescriptor_t unset = nullptr;
  ASSERT_EQ(cudnnCreateTensorDescriptor(&unset), CUDNN_STATUS_SUCCESS);
  std::size_t bytes = 0;
  EXPECT_EQ(cudnnGetTensorSizeInBytes(unset, &bytes), CUDNN_STATUS_BAD_PARAM);
  expect_report("invalid_call", "created but never set");
  ASSERT_EQ(cudnnDestroyTensorDescriptor(unset), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(cudnnGetTensorSizeInBytes(unset, &bytes), CUDNN_STATUS_BAD_PARAM);
  expect_report("invalid_call", "destroyed");
  EXPECT_EQ(cudnnSetTensor4dDescriptor(conv.x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 0, 1, 1),
            CUDNN_STATUS_BAD_PARAM);
  expect_report("invalid_call", "dimension 1 is 0");
  EXPECT_EQ(cudnnSetTensor4dDescriptor(conv.x, CUDNN_TENSOR_NCHW, CUDNN_DATA_INT8, 1, 1, 1, 1),
            CUDNN_STATUS_NOT_SUPPORTED);
  expect_report("unsupported", "cudnnDataType_t 3");
}

}  // namespace
