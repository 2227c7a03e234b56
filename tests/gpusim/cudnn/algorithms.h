// The algorithms of the three passes: which convolutions each takes (as documented for cuDNN 9), how much workspace it
// needs, whether it repeats to the bit, and a time that depends on the shape only. All compute the same sums.
#pragma once

#include <optional>
#include <string>

#include "cudnn/convolution_problem.h"

namespace gpusim {

enum class Pass { forward, backward_data, backward_filter };

// By the number in cudnnConvolutionFwdAlgo_t, ...BwdDataAlgo_t or ...BwdFilterAlgo_t.
struct Algorithm {
  Pass pass = Pass::forward;
  int number = 0;
};

int algorithm_count(Pass pass);
std::string name_of(const Algorithm& algorithm);

struct AlgorithmRefusal {
  std::string text;
};
// Why the algorithm cannot do this convolution; nothing when it can.
std::optional<AlgorithmRefusal> refusal(const ConvolutionProblem& problem, const Algorithm& algorithm);

std::size_t workspace_bytes(const ConvolutionProblem& problem, const Algorithm& algorithm);
bool is_deterministic(const Algorithm& algorithm);
bool has_tensor_cores(const Algorithm& algorithm);
std::uint64_t cost_ns(const ConvolutionProblem& problem, const Algorithm& algorithm);

}  // namespace gpusim
