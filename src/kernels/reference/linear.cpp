// The fully connected layer as sums over rows and columns: y = x w', dx = dy w, dw = dy' x.
#include "kernels/ops/linear.h"

#include <algorithm>

#include "kernels/backend.h"
#include "kernels/reference/element_type.h"

namespace trifold::reference {
namespace {

struct Extents {
  std::int64_t rows = 0;          // N
  std::int64_t in_features = 0;   // I
  std::int64_t out_features = 0;  // O
};

template <class T>
class LinearForwardKernel final : public Kernel {
 public:
  explicit LinearForwardKernel(const KernelRequest& request)
      : op_(op_as<LinearForward>(request)),
        e_{request.in[0].shape[0], request.in[1].shape[1], request.in[1].shape[0]} {}

  void run(const StepContext&) override {
    for (std::int64_t n = 0; n < e_.rows; ++n)
      for (std::int64_t o = 0; o < e_.out_features; ++o) {
        double sum = op_.bias ? in<T>(2)[o] : 0.0;
        for (std::int64_t i = 0; i < e_.in_features; ++i)
          sum += static_cast<double>(in<T>(0)[n * e_.in_features + i]) * in<T>(1)[o * e_.in_features + i];
        out<T>(0)[n * e_.out_features + o] = static_cast<T>(op_.relu ? std::max(0.0, sum) : sum);
      }
  }

 private:
  LinearForward op_;
  Extents e_;
};

template <class T>
class LinearBackwardDataKernel final : public Kernel {
 public:
  explicit LinearBackwardDataKernel(const KernelRequest& request)
      : e_{request.in[0].shape[0], request.in[1].shape[1], request.in[1].shape[0]} {}

  void run(const StepContext&) override {
    for (std::int64_t n = 0; n < e_.rows; ++n)
      for (std::int64_t i = 0; i < e_.in_features; ++i) {
        double sum = 0;
        for (std::int64_t o = 0; o < e_.out_features; ++o)
          sum += static_cast<double>(in<T>(0)[n * e_.out_features + o]) * in<T>(1)[o * e_.in_features + i];
        out<T>(0)[n * e_.in_features + i] = static_cast<T>(sum);
      }
  }

 private:
  Extents e_;
};

template <class T>
class LinearBackwardWeightsKernel final : public Kernel {
 public:
  explicit LinearBackwardWeightsKernel(const KernelRequest& request)
      : bias_(op_as<LinearBackwardWeights>(request).bias),
        e_{request.in[0].shape[0], request.out[0].shape[1], request.out[0].shape[0]} {}

  void run(const StepContext&) override {
    for (std::int64_t o = 0; o < e_.out_features; ++o) {
      for (std::int64_t i = 0; i < e_.in_features; ++i) {
        double sum = 0;
        for (std::int64_t n = 0; n < e_.rows; ++n)
          sum += static_cast<double>(in<T>(0)[n * e_.in_features + i]) * in<T>(1)[n * e_.out_features + o];
        out<T>(0)[o * e_.in_features + i] = static_cast<T>(sum);
      }
      if (!bias_) continue;
      double sum = 0;
      for (std::int64_t n = 0; n < e_.rows; ++n) sum += in<T>(1)[n * e_.out_features + o];
      out<T>(1)[o] = static_cast<T>(sum);
    }
  }

 private:
  bool bias_;
  Extents e_;
};

const RegisterKernel register_linear_forward(reference_backend(), "linear.forward",
                                             make_for_type<LinearForwardKernel<float>, LinearForwardKernel<double>>);
const RegisterKernel register_linear_backward_data(
    reference_backend(), "linear.backward_data",
    make_for_type<LinearBackwardDataKernel<float>, LinearBackwardDataKernel<double>>);
const RegisterKernel register_linear_backward_weights(
    reference_backend(), "linear.backward_weights",
    make_for_type<LinearBackwardWeightsKernel<float>, LinearBackwardWeightsKernel<double>>);

}  // namespace
}  // namespace trifold::reference
