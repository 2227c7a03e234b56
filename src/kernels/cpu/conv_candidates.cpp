#include "kernels/cpu/conv_candidates.h"

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "kernels/backend.h"
#include "kernels/cpu/first_conv.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/simd/isa.h"
#include "kernels/cpu/thread_scope.h"
#include "kernels/cpu/winograd.h"
#include "kernels/ops/conv2d.h"

namespace trifold::cpu {
namespace {

ConvProblem problem_of(const KernelRequest& request) {
  const auto& op = op_as<Convolution>(request);
  const auto [x, w, y] = operands_of(op.pass(), request.in, request.out);
  ConvProblem problem{.pass = op.pass(), .x = x, .w = w, .y = y, .args = op.args, .threads = request.threads};
  switch (problem.pass) {
    case Pass::forward:
      problem.bias = op_as<Conv2dForward>(request).bias;
      problem.relu = op_as<Conv2dForward>(request).relu;
      break;
    case Pass::backward_data:
      break;
    case Pass::backward_weights:
      problem.bias = op_as<Conv2dBackwardWeights>(request).bias;
      break;
  }
  return problem;
}

// One way to compute the convolution of a problem. Where x, w, y and bias are depends on the pass.
class ConvCandidate : public Kernel {
 protected:
  explicit ConvCandidate(const ConvProblem& problem) : pass_(problem.pass), bias_(problem.bias) {}

  // The buffer that holds x or dx, and so on.
  const float* x() const { return pass_ == Pass::backward_data ? out(0) : in(0); }
  const float* w() const { return pass_ == Pass::backward_weights ? out(0) : in(1); }
  const float* y() const { return pass_ == Pass::forward ? out(0) : pass_ == Pass::backward_data ? in(0) : in(1); }
  const float* bias() const {
    if (!bias_) return nullptr;
    return pass_ == Pass::forward ? in(2) : out(1);
  }
  Pass pass() const { return pass_; }

 private:
  Pass pass_;
  bool bias_;
};

class OneDnnConv final : public ConvCandidate {
 public:
  OneDnnConv(const ConvProblem& problem, ConvPrimitive primitive)
      : ConvCandidate(problem), primitive_(std::move(primitive)) {}

  std::size_t scratch_bytes() const override { return primitive_.scratch_bytes(); }
  std::string implementation() const override { return primitive_.implementation(); }
  void run(const StepContext&) override { primitive_.execute(); }

 private:
  void on_bind() override { primitive_.bind({x(), w(), y(), bias()}, scratch()); }

  ConvPrimitive primitive_;
};

// Our own F(4x4,3x3).
class WinogradConv final : public ConvCandidate {
 public:
  static std::optional<WinogradShape> shape_of(const ConvProblem& problem) {
    const Conv2dArgs& args = problem.args;
    const Layout image = {Order::channel_block, simd_lanes()};
    const Layout weights = {Order::conv_block, simd_lanes()};
    if (args.stride != Pair{1, 1} || args.dilation != Pair{1, 1} || args.groups != 1 || problem.w.shape[2] != 3 ||
        problem.w.shape[3] != 3 || args.pad[0] > 2 || args.pad[1] > 2 || problem.x.layout != image ||
        problem.y.layout != image || problem.w.layout != weights)
      return std::nullopt;
    const WinogradShape shape = {.batch = problem.x.shape[0],
                                 .in_channels = problem.x.shape[1],
                                 .out_channels = problem.y.shape[1],
                                 .height = problem.x.shape[2],
                                 .width = problem.x.shape[3],
                                 .pad_h = static_cast<int>(args.pad[0]),
                                 .pad_w = static_cast<int>(args.pad[1])};
    return Winograd::supports(shape) ? std::optional(shape) : std::nullopt;
  }

  WinogradConv(const ConvProblem& problem, const WinogradShape& shape)
      : ConvCandidate(problem), relu_(problem.relu), threads_(problem.threads), winograd_(shape, problem.threads) {}

  std::size_t scratch_bytes() const override {
    switch (pass()) {
      case Pass::forward:
        return winograd_.forward_scratch_bytes();
      case Pass::backward_data:
        return winograd_.backward_data_scratch_bytes();
      case Pass::backward_weights:
        break;
    }
    return winograd_.backward_weights_scratch_bytes();
  }
  std::string implementation() const override { return "winograd"; }
  void run(const StepContext&) override {
    const ThreadScope scope(threads_);
    switch (pass()) {
      case Pass::forward:
        winograd_.forward({.x = x(), .weights = w(), .y = out(0), .bias = bias(), .relu = relu_}, scratch());
        break;
      case Pass::backward_data:
        winograd_.backward_data({.dy = y(), .weights = w(), .dx = out(0)}, scratch());
        break;
      case Pass::backward_weights:
        winograd_.backward_weights({.x = x(), .dy = y(), .dw = out(0), .db = bias() ? out(1) : nullptr}, scratch());
        break;
    }
  }

 private:
  bool relu_;
  int threads_;
  Winograd winograd_;
};

// Our own convolution of plain images with few channels.
class FirstLayerConv final : public ConvCandidate {
 public:
  static std::optional<FirstConvShape> shape_of(const ConvProblem& problem) {
    const int lanes = simd_lanes();
    if (problem.pass == Pass::backward_data || problem.args.groups != 1 || !problem.x.layout.plain() ||
        problem.y.layout != Layout{Order::channel_block, lanes} || problem.w.layout != Layout{Order::conv_first, lanes})
      return std::nullopt;
    const FirstConvShape shape = {.batch = problem.x.shape[0],
                                  .channels = problem.x.shape[1],
                                  .image = {problem.x.shape[2], problem.x.shape[3]},
                                  .out = problem.y.shape[1],
                                  .kernel = {problem.w.shape[2], problem.w.shape[3]},
                                  .stride = problem.args.stride,
                                  .pad = problem.args.pad,
                                  .dilation = problem.args.dilation};
    return FirstConv::supports(shape) ? std::optional(shape) : std::nullopt;
  }

  FirstLayerConv(const ConvProblem& problem, const FirstConvShape& shape)
      : ConvCandidate(problem), problem_(problem), conv_(shape, problem.threads) {}

  std::size_t scratch_bytes() const override {
    return pass() == Pass::forward ? conv_.forward_scratch_bytes() : conv_.backward_weights_scratch_bytes();
  }
  std::string implementation() const override { return "first_conv"; }
  void run(const StepContext&) override {
    const ThreadScope scope(problem_.threads);
    const std::span<std::byte> work(scratch(), scratch_bytes());
    const auto x_size = static_cast<std::size_t>(problem_.x.elements());
    const auto w_size = static_cast<std::size_t>(problem_.w.elements());
    const auto y_size = static_cast<std::size_t>(problem_.y.elements());
    const auto bias_size = problem_.bias ? static_cast<std::size_t>(problem_.y.shape[1]) : 0;
    if (pass() == Pass::forward) {
      conv_.forward({.x = {x(), x_size},
                     .w = {w(), w_size},
                     .bias = {bias(), bias_size},
                     .relu = problem_.relu,
                     .y = {out(0), y_size}},
                    work);
    } else {
      conv_.backward_weights({.x = {x(), x_size},
                              .dy = {y(), y_size},
                              .dw = {out(0), w_size},
                              .dbias = {problem_.bias ? out(1) : nullptr, bias_size}},
                             work);
    }
  }

 private:
  ConvProblem problem_;
  FirstConv conv_;
};

class CandidateList {
 public:
  explicit CandidateList(const ConvProblem& problem) : problem_(problem) {}

  void add_winograd() {
    // Ours loses to oneDNN's, which needs AVX-512, on many channels.
    const std::int64_t channels = std::max(problem_.x.shape[1], problem_.y.shape[1]);
    const auto shape = WinogradConv::shape_of(problem_);
    if (channels >= 128) add_onednn(Conversion::weights, ConvAlgorithm::winograd);
    if (shape) candidates_.push_back(std::make_unique<WinogradConv>(problem_, *shape));
    if (channels < 128) add_onednn(Conversion::weights, ConvAlgorithm::winograd);
  }

  void add_direct() {
    if (const auto shape = FirstLayerConv::shape_of(problem_))
      candidates_.push_back(std::make_unique<FirstLayerConv>(problem_, *shape));
    const auto in_place = add_onednn(Conversion::none);
    if (in_place && in_place->find("gemm") == std::string::npos) return;
    if (!in_place && add_onednn(Conversion::weights)) return;
    // The blocked convolution between reorders of all tensors, against the matrix product over plain ones.
    add_onednn(Conversion::all);
    if (!in_place) add_onednn(Conversion::plain);
  }

  void add_bf16() {
    add_onednn(Conversion::weights);
    add_onednn(Conversion::all);
  }

  void add_last_resort() {
    if (candidates_.empty()) add_onednn(Conversion::plain, ConvAlgorithm::direct, true);
  }

  std::vector<KernelPtr> take() { return std::move(candidates_); }

 private:
  // The name of what was added.
  std::optional<std::string> add_onednn(Conversion conversion, ConvAlgorithm algorithm = ConvAlgorithm::direct,
                                        bool accept_reference = false) {
    ConvProblem problem = problem_;
    problem.conversion = conversion;
    problem.algorithm = algorithm;
    problem.accept_reference = accept_reference;
    auto primitive = ConvPrimitive::create(problem);
    if (!primitive) return std::nullopt;
    const std::string name = primitive->implementation();
    const bool known =
        std::ranges::any_of(candidates_, [&](const auto& other) { return other->implementation() == name; });
    if (!known) candidates_.push_back(std::make_unique<OneDnnConv>(problem, std::move(*primitive)));
    return name;
  }

  const ConvProblem& problem_;
  std::vector<KernelPtr> candidates_;
};

}  // namespace

std::vector<KernelPtr> conv_candidates(const KernelRequest& request) {
  const ConvProblem problem = problem_of(request);
  CandidateList list(problem);
  if (problem.x.dtype != DType::f32) {
    list.add_bf16();
    return list.take();
  }
  if (!request.strict_math) list.add_winograd();
  list.add_direct();
  list.add_last_resort();
  std::vector<KernelPtr> candidates = list.take();
  TRIFOLD_CHECK(!candidates.empty(), "oneDNN {} has no {} of {} with {}", onednn_version(), to_string(request.op),
                to_string(problem.x), to_string(problem.w));
  return candidates;
}

}  // namespace trifold::cpu
