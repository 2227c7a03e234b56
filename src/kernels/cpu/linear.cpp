// Fully connected layers on the CPU: our own loops or oneDNN's, whichever the tuner finds faster. x and w may have
// their columns in another order than row-major as long as it is the same for both; the sums then do not change.
#include "kernels/ops/linear.h"

#include "core/error.h"
#include "kernels/backend.h"
#include "kernels/cpu/linear_candidates.h"
#include "kernels/cpu/linear_gemm.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/thread_scope.h"
#include "kernels/cpu/tuner.h"

namespace trifold::cpu {
namespace {

InnerProductProblem linear_problem_of(const KernelRequest& request) {
  const Pass pass = op_as<MatrixProduct>(request).pass();
  const auto [x, w, y] = operands_of(pass, request.in, request.out);
  TRIFOLD_CHECK(x.layout == w.layout, "{}: columns of x ({}) and w ({}) lie in different order", request.op.name(),
                to_string(x.layout), to_string(w.layout));
  TRIFOLD_CHECK(y.layout.plain(), "{}: y is plain, not {}", request.op.name(), to_string(y.layout));
  InnerProductProblem problem = {.pass = pass,
                                 .batch = x.shape[0],
                                 .in = w.shape[1],
                                 .out = w.shape[0],
                                 .threads = request.threads,
                                 .type = y.dtype};
  if (pass == Pass::forward) {
    problem.bias = op_as<LinearForward>(request).bias;
    problem.relu = op_as<LinearForward>(request).relu;
  }
  if (pass == Pass::backward_weights) problem.bias = op_as<LinearBackwardWeights>(request).bias;
  return problem;
}

class OneDnnLinear final : public Kernel {
 public:
  OneDnnLinear(const InnerProductProblem& problem, InnerProductPrimitive primitive)
      : problem_(problem), primitive_(std::move(primitive)) {}

  std::size_t scratch_bytes() const override { return primitive_.scratch_bytes(); }
  std::string implementation() const override { return fmt::format("onednn {}", primitive_.implementation()); }
  void run(const StepContext&) override { primitive_.execute(); }

 private:
  void on_bind() override {
    switch (problem_.pass) {
      case Pass::forward:
        primitive_.bind({in(0), in(1), out(0), problem_.bias ? in(2) : nullptr}, scratch());
        break;
      case Pass::backward_data:
        primitive_.bind({out(0), in(1), in(0), nullptr}, scratch());
        break;
      case Pass::backward_weights:
        primitive_.bind({in(0), out(0), in(1), problem_.bias ? out(1) : nullptr}, scratch());
        break;
    }
  }

  InnerProductProblem problem_;
  InnerProductPrimitive primitive_;
};

class OwnLinear final : public Kernel {
 public:
  explicit OwnLinear(const InnerProductProblem& problem)
      : problem_(problem), gemm_({problem.batch, problem.in, problem.out}, problem.threads) {}

  std::size_t scratch_bytes() const override {
    switch (problem_.pass) {
      case Pass::forward:
        return gemm_.forward_scratch_bytes();
      case Pass::backward_data:
        return gemm_.backward_data_scratch_bytes();
      case Pass::backward_weights:
        break;
    }
    return gemm_.backward_weights_scratch_bytes();
  }
  std::string implementation() const override { return "gemm"; }

  void run(const StepContext&) override {
    const ThreadScope scope(problem_.threads);
    const std::span<std::byte> work(scratch(), scratch_bytes());
    switch (problem_.pass) {
      case Pass::forward:
        gemm_.forward({.x = given(0, x_size()),
                       .w = given(1, w_size()),
                       .bias = given(2, bias_size()),
                       .y = result(0, y_size()),
                       .relu = problem_.relu},
                      work);
        break;
      case Pass::backward_data:
        gemm_.backward_data({.dy = given(0, y_size()), .w = given(1, w_size()), .dx = result(0, x_size())}, work);
        break;
      case Pass::backward_weights:
        gemm_.backward_weights({.x = given(0, x_size()),
                                .dy = given(1, y_size()),
                                .dw = result(0, w_size()),
                                .dbias = result(1, bias_size())},
                               work);
        break;
    }
  }

 private:
  std::int64_t x_size() const { return problem_.batch * problem_.in; }
  std::int64_t w_size() const { return problem_.out * problem_.in; }
  std::int64_t y_size() const { return problem_.batch * problem_.out; }
  std::int64_t bias_size() const { return problem_.bias ? problem_.out : 0; }

  std::span<const float> given(std::size_t index, std::int64_t size) const {
    if (size == 0) return {};
    return {in(index), static_cast<std::size_t>(size)};
  }
  std::span<float> result(std::size_t index, std::int64_t size) const {
    if (size == 0) return {};
    return {out(index), static_cast<std::size_t>(size)};
  }

  InnerProductProblem problem_;
  LinearGemm gemm_;
};

KernelPtr make_linear(const KernelRequest& request) {
  return fastest_kernel(machine_tuner(), request, linear_candidates(request));
}

const RegisterKernel register_linear_forward(cpu_backend(), "linear.forward", make_linear);
const RegisterKernel register_linear_backward_data(cpu_backend(), "linear.backward_data", make_linear);
const RegisterKernel register_linear_backward_weights(cpu_backend(), "linear.backward_weights", make_linear);

}  // namespace

std::vector<KernelPtr> linear_candidates(const KernelRequest& request) {
  const InnerProductProblem problem = linear_problem_of(request);
  std::vector<KernelPtr> candidates;
  if (problem.type == DType::f32) candidates.push_back(std::make_unique<OwnLinear>(problem));
  if (auto primitive = InnerProductPrimitive::create(problem))
    candidates.push_back(std::make_unique<OneDnnLinear>(problem, std::move(*primitive)));
  return candidates;
}

}  // namespace trifold::cpu
