// Convolutions in float on packed host arrays: x [N, C, H, W], w [K, C / groups, R, S], y [N, K, P, Q].
// Cross-correlation; each image is unfolded and multiplied.
#pragma once

#include <vector>

namespace gpusim {

struct ConvolutionShape {
  int n = 0;
  int c = 0;
  int h = 0;
  int w = 0;
  int k = 0;
  int r = 0;
  int s = 0;
  int p = 0;  // output height
  int q = 0;  // output width
  int pad_h = 0;
  int pad_w = 0;
  int stride_h = 1;
  int stride_w = 1;
  int dilation_h = 1;
  int dilation_w = 1;
  int groups = 1;

  double flops() const;
};

std::vector<float> convolve(const ConvolutionShape& shape, const std::vector<float>& x, const std::vector<float>& w);
std::vector<float> input_gradient(const ConvolutionShape& shape, const std::vector<float>& w,
                                  const std::vector<float>& dy);
std::vector<float> filter_gradient(const ConvolutionShape& shape, const std::vector<float>& x,
                                   const std::vector<float>& dy);

}  // namespace gpusim
