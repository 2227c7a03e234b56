#include "cudnn/convolution_problem.h"

#include "cudnn/handle.h"

namespace gpusim {
namespace {

int output_size(int input, int pad, int filter, int dilation, int stride) {
  const int reach = (filter - 1) * dilation + 1;
  return input + 2 * pad < reach ? 0 : 1 + (input + 2 * pad - reach) / stride;
}

std::string text_of(const DescriptorDims& dims, int rank) {
  std::string text = "[";
  for (int d = 0; d < rank; ++d) text += (d ? ", " : "") + std::to_string(dims[static_cast<std::size_t>(d)]);
  return text + "]";
}

}  // namespace

cudnnStatus_t infer_output(const std::string& function, const ConvolutionInputs& inputs, ConvolutionShape& shape) {
  if (const auto status = check_set(function, "the descriptor of x", inputs.x)) return status;
  if (const auto status = check_set(function, "the descriptor of w", inputs.w)) return status;
  if (const auto status = check_set(function, "convDesc", inputs.convolution)) return status;
  const auto& x = *inputs.x;
  const auto& w = *inputs.w;
  const auto& convolution = *inputs.convolution;
  if (x.rank != 4 || w.rank != 4) {
    if (x.rank != w.rank) {
      return refuse(CUDNN_STATUS_BAD_PARAM,
                    function + ": x has " + std::to_string(x.rank) + " dimensions, w has " + std::to_string(w.rank));
    }
    return not_simulated(function + ": tensors of " + std::to_string(x.rank) + " dimensions");
  }
  const int groups = convolution.groups;
  if (x.dims[1] != w.dims[1] * groups) {
    return refuse(CUDNN_STATUS_BAD_PARAM, function + ": x has " + std::to_string(x.dims[1]) + " channels, w takes " +
                                              std::to_string(w.dims[1]) + " in each of " + std::to_string(groups) +
                                              " groups");
  }
  if (w.dims[0] % groups != 0) {
    return refuse(CUDNN_STATUS_BAD_PARAM,
                  function + ": " + std::to_string(w.dims[0]) + " filters in " + std::to_string(groups) + " groups");
  }
  shape = {.n = x.dims[0],
           .c = x.dims[1],
           .h = x.dims[2],
           .w = x.dims[3],
           .k = w.dims[0],
           .r = w.dims[2],
           .s = w.dims[3],
           .p = output_size(x.dims[2], convolution.pad[0], w.dims[2], convolution.dilation[0], convolution.stride[0]),
           .q = output_size(x.dims[3], convolution.pad[1], w.dims[3], convolution.dilation[1], convolution.stride[1]),
           .pad_h = convolution.pad[0],
           .pad_w = convolution.pad[1],
           .stride_h = convolution.stride[0],
           .stride_w = convolution.stride[1],
           .dilation_h = convolution.dilation[0],
           .dilation_w = convolution.dilation[1],
           .groups = groups};
  if (shape.p < 1 || shape.q < 1) {
    return refuse(CUDNN_STATUS_BAD_PARAM, function + ": the filter is larger than the padded image");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t describe(const std::string& function, const ConvolutionInputs& inputs, const cudnnTensorStruct* y,
                       ConvolutionProblem& problem) {
  if (const auto status = infer_output(function, inputs, problem.shape)) return status;
  if (const auto status = check_set(function, "the descriptor of y", y)) return status;
  const auto& shape = problem.shape;
  const DescriptorDims expected = {shape.n, shape.k, shape.p, shape.q};
  if (y->rank != 4 || y->dims != expected) {
    return refuse(CUDNN_STATUS_BAD_PARAM,
                  function + ": y is " + text_of(y->dims, y->rank) + ", the convolution gives " + text_of(expected, 4));
  }
  if (inputs.x->type != y->type || inputs.w->type != y->type) {
    return refuse(CUDNN_STATUS_BAD_PARAM, function + ": x is " + name_of(inputs.x->type) + ", w is " +
                                              name_of(inputs.w->type) + ", y is " + name_of(y->type) +
                                              "; they have to be of one type");
  }
  if (shape_of(*inputs.x).overlaps_itself() || shape_of(*y).overlaps_itself()) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, function + ": the strides of a tensor make its elements overlap");
  }
  problem.type = *element_of(y->type);
  problem.x = *inputs.x;
  problem.w = *inputs.w;
  problem.y = *y;
  problem.math = inputs.convolution->math;
  problem.flipped = inputs.convolution->mode == CUDNN_CONVOLUTION;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace gpusim
