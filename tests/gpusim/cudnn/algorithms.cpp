#include "cudnn/algorithms.h"

#include <array>
#include <span>

namespace gpusim {
namespace {

enum class Method {
  implicit_gemm,
  precomputed_gemm,
  unfolded_gemm,
  atomic,
  absent,
  fft,
  fft_tiling,
  winograd,
  nonfused
};

struct Entry {
  const char* name;
  Method method;
  bool deterministic = true;
  bool tensor_cores = false;
};

constexpr Entry kForward[] = {
    {"CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM", Method::implicit_gemm},
    {"CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM", Method::precomputed_gemm, true, true},
    {"CUDNN_CONVOLUTION_FWD_ALGO_GEMM", Method::unfolded_gemm},
    {"CUDNN_CONVOLUTION_FWD_ALGO_DIRECT", Method::absent},
    {"CUDNN_CONVOLUTION_FWD_ALGO_FFT", Method::fft},
    {"CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING", Method::fft_tiling},
    {"CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD", Method::winograd},
    {"CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED", Method::nonfused, true, true},
};
constexpr Entry kBackwardData[] = {
    {"CUDNN_CONVOLUTION_BWD_DATA_ALGO_0", Method::atomic, false},
    {"CUDNN_CONVOLUTION_BWD_DATA_ALGO_1", Method::precomputed_gemm, true, true},
    {"CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT", Method::fft},
    {"CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING", Method::fft_tiling},
    {"CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD", Method::winograd},
    {"CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED", Method::nonfused, true, true},
};
constexpr Entry kBackwardFilter[] = {
    {"CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0", Method::atomic, false},
    {"CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1", Method::precomputed_gemm, true, true},
    {"CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT", Method::fft},
    {"CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3", Method::unfolded_gemm, false},
    {"CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD", Method::absent},
    {"CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED", Method::nonfused, true, true},
    {"CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING", Method::fft_tiling},
};
static_assert(std::size(kForward) == CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
static_assert(std::size(kBackwardData) == CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT);
static_assert(std::size(kBackwardFilter) == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT);

std::span<const Entry> entries(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return kForward;
    case Pass::backward_data:
      return kBackwardData;
    case Pass::backward_filter:
      return kBackwardFilter;
  }
  return {};
}

const Entry& entry(const Algorithm& algorithm) {
  return entries(algorithm.pass)[static_cast<std::size_t>(algorithm.number)];
}

bool takes_channels_last_filter(Method method) {
  return method == Method::implicit_gemm || method == Method::precomputed_gemm || method == Method::atomic;
}

std::optional<AlgorithmRefusal> layout_refusal(const ConvolutionProblem& problem, const Algorithm& algorithm) {
  const Method method = entry(algorithm).method;
  if (problem.w.format == CUDNN_TENSOR_NHWC) {
    if (!takes_channels_last_filter(method)) return AlgorithmRefusal{"it takes no NHWC filter"};
    if (!is_image_packed(problem.x, CUDNN_TENSOR_NHWC) || !is_image_packed(problem.y, CUDNN_TENSOR_NHWC)) {
      return AlgorithmRefusal{"with an NHWC filter, x and y have to be packed NHWC"};
    }
    return std::nullopt;
  }
  // The backward passes read dy as packed images; the other tensor may be anything.
  if (algorithm.pass != Pass::forward && !is_image_packed(problem.y, CUDNN_TENSOR_NCHW)) {
    return AlgorithmRefusal{"with an NCHW filter, dy has to be packed NCHW"};
  }
  const bool fourier = method == Method::fft || method == Method::fft_tiling;
  if (fourier && (!is_map_packed(problem.x) || !is_map_packed(problem.y))) {
    return AlgorithmRefusal{"it wants NCHW tensors whose maps are packed"};
  }
  return std::nullopt;
}

std::optional<AlgorithmRefusal> shape_refusal(const ConvolutionProblem& problem, Method method) {
  constexpr int kLargestFftImage = 256;
  constexpr int kLargestFftTilingFilter = 32;
  const auto& shape = problem.shape;
  const bool dilated = shape.dilation_h != 1 || shape.dilation_w != 1;
  const bool strided = shape.stride_h != 1 || shape.stride_w != 1;
  const bool simple = method == Method::implicit_gemm || method == Method::precomputed_gemm || method == Method::atomic;
  if (simple) return std::nullopt;
  if (dilated) return AlgorithmRefusal{"it takes no dilation"};
  if (method == Method::unfolded_gemm) return std::nullopt;
  if (strided) return AlgorithmRefusal{"it takes stride 1 only"};
  switch (method) {
    case Method::fft:
    case Method::fft_tiling:
      if (problem.type == Element::bf16) return AlgorithmRefusal{"it does not compute bf16"};
      if (shape.r <= shape.pad_h || shape.s <= shape.pad_w) {
        return AlgorithmRefusal{"the padding has to be smaller than the filter"};
      }
      if (method == Method::fft &&
          (shape.h + 2 * shape.pad_h > kLargestFftImage || shape.w + 2 * shape.pad_w > kLargestFftImage)) {
        return AlgorithmRefusal{"the padded image is larger than 256"};
      }
      if (method == Method::fft_tiling && (shape.r > kLargestFftTilingFilter || shape.s > kLargestFftTilingFilter)) {
        return AlgorithmRefusal{"the filter is larger than 32"};
      }
      return std::nullopt;
    case Method::winograd:
      if (shape.r != 3 || shape.s != 3) return AlgorithmRefusal{"it takes 3 x 3 filters only"};
      return std::nullopt;
    case Method::nonfused:
      if (shape.r != shape.s || (shape.r != 3 && shape.r != 5)) {
        return AlgorithmRefusal{"it takes 3 x 3 and 5 x 5 filters only"};
      }
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::size_t product(std::initializer_list<int> factors) {
  std::size_t value = 1;
  for (const int factor : factors) value *= static_cast<std::size_t>(factor);
  return value;
}

}  // namespace

int algorithm_count(Pass pass) {
  return static_cast<int>(entries(pass).size());
}

std::string name_of(const Algorithm& algorithm) {
  if (algorithm.number < 0 || algorithm.number >= algorithm_count(algorithm.pass)) {
    return "algorithm " + std::to_string(algorithm.number);
  }
  return entry(algorithm).name;
}

std::optional<AlgorithmRefusal> refusal(const ConvolutionProblem& problem, const Algorithm& algorithm) {
  if (algorithm.number < 0 || algorithm.number >= algorithm_count(algorithm.pass)) {
    return AlgorithmRefusal{"there is no such algorithm"};
  }
  const Method method = entry(algorithm).method;
  if (method == Method::absent) return AlgorithmRefusal{"it is not implemented in any cuDNN"};
  if (const auto refused = layout_refusal(problem, algorithm)) return refused;
  return shape_refusal(problem, method);
}

std::size_t workspace_bytes(const ConvolutionProblem& problem, const Algorithm& algorithm) {
  const auto& shape = problem.shape;
  const std::size_t taps = product({shape.c / shape.groups, shape.r, shape.s});
  switch (entry(algorithm).method) {
    case Method::implicit_gemm:
    case Method::atomic:
    case Method::absent:
      return 0;
    case Method::precomputed_gemm:
      return sizeof(int) * (taps + product({shape.p, shape.q}));  // tables of offsets
    case Method::unfolded_gemm:
      return bytes_of(problem.type) * taps * product({shape.p, shape.q});
    case Method::fft:
    case Method::fft_tiling: {  // spectra of one image and of all filters
      const std::size_t pixels = product({shape.h + 2 * shape.pad_h, shape.w + 2 * shape.pad_w});
      return 2 * sizeof(float) * pixels *
             (product({shape.c, shape.k}) / static_cast<std::size_t>(shape.groups) + product({shape.c + shape.k}));
    }
    case Method::winograd:
      return sizeof(float) * 16 * product({shape.k, shape.c / shape.groups});
    case Method::nonfused:
      return sizeof(float) * 36 *
             (product({shape.k, shape.c / shape.groups}) +
              product({shape.c + shape.k}) * product({(shape.p + 3) / 4, (shape.q + 3) / 4}));
  }
  return 0;
}

bool is_deterministic(const Algorithm& algorithm) {
  return entry(algorithm).deterministic;
}
bool has_tensor_cores(const Algorithm& algorithm) {
  return entry(algorithm).tensor_cores;
}

std::uint64_t cost_ns(const ConvolutionProblem& problem, const Algorithm& algorithm) {
  constexpr double kFloatFlopsPerNs = 8000;
  double efficiency = 0.5;
  switch (entry(algorithm).method) {
    case Method::precomputed_gemm:
      efficiency = 0.8;
      break;
    case Method::winograd:
      efficiency = 1.4;
      break;
    case Method::nonfused:
      efficiency = 1.2;
      break;
    case Method::unfolded_gemm:
      efficiency = 0.4;
      break;
    case Method::fft:
      efficiency = 0.3;
      break;
    case Method::fft_tiling:
      efficiency = 0.35;
      break;
    default:
      break;
  }
  if (problem.type != Element::f32 && has_tensor_cores(algorithm)) efficiency *= 4;
  return static_cast<std::uint64_t>(5000 + problem.shape.flops() / (kFloatFlopsPerNs * efficiency));
}

}  // namespace gpusim
