// What one file of activations/ declares: an element-wise function y = f(x), once for every device and instruction set.
// CMake lists the folder's files (kernels/activation_list.h), and all else is derived from that list: the reference,
// the CPU's loops, the CUDA kernels, the layer with its JSON fields and help, and the test cases.
//
// A file leaky_relu.h has a struct LeakyRelu that derives from ActivationFunction and replaces what differs. Formulas
// are templates on a number type N, which has + - * /, comparisons, and select, min, max, fma, exp, tanh and normal
// (ScalarNumber, VecNumber); constants are doubles. Parameters come last, in the order of `parameters`.
#pragma once

#include <array>
#include <string_view>

#if defined(__CUDACC__)
#define TRIFOLD_FORMULA __host__ __device__ __forceinline__ static
#else
#define TRIFOLD_FORMULA [[gnu::always_inline]] inline static
#endif

namespace trifold {

// What the gradient is computed from. With `output` x need not be kept.
enum class GradientFrom { input, output };

// A number that the user chooses: a field of the layer.
struct ActivationParameter {
  const char* name = "";
  double fallback = 0;
  double minimum = 0;
  const char* help = "";
};
inline constexpr int kMostActivationParameters = 2;

// A point that the function must pass through, parameters being their fallbacks: an oracle apart from the formula.
struct ActivationSample {
  double x = 0;
  double y = 0;
  double slope = 0;  // dy/dx
};

struct ActivationFunction {
  static constexpr GradientFrom gradient_from = GradientFrom::output;
  static constexpr std::array<ActivationParameter, 0> parameters = {};
  static constexpr std::array<double, 0> kinks = {};  // values of x at which the gradient jumps

  // A struct adds:
  //   static constexpr const char* help;               one line for `trifold layers` and the schema
  //   static constexpr std::array<ActivationSample, n> samples;
  //   template <class N> TRIFOLD_FORMULA N value(N x, ...);
  //   template <class N> TRIFOLD_FORMULA N gradient(N dy, N kept, ...);    dx, from dy and x or y
};

// The formulas with their parameters: `Function` is a struct of activations/, parameters[i] its i-th number.
template <class Function>
struct AppliedActivation {
  static constexpr int kParameters = static_cast<int>(Function::parameters.size());
  static_assert(kParameters <= kMostActivationParameters && kMostActivationParameters == 2);

  template <class N>
  TRIFOLD_FORMULA N value(N x, const N* parameters) {
    if constexpr (kParameters == 0) return Function::value(x);
    if constexpr (kParameters == 1) return Function::value(x, parameters[0]);
    if constexpr (kParameters == 2) return Function::value(x, parameters[0], parameters[1]);
  }
  template <class N>
  TRIFOLD_FORMULA N gradient(N dy, N kept, const N* parameters) {
    if constexpr (kParameters == 0) return Function::gradient(dy, kept);
    if constexpr (kParameters == 1) return Function::gradient(dy, kept, parameters[0]);
    if constexpr (kParameters == 2) return Function::gradient(dy, kept, parameters[0], parameters[1]);
  }
};

}  // namespace trifold
