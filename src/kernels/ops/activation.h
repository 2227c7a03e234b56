// Element-wise functions and their gradients. One op for all: the function, one of the folder activations/, is an
// attribute.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "kernels/activation_list.h"  // CMake makes it from the folder's files
#include "kernels/op.h"

namespace trifold {

#define TRIFOLD_NAME(name, Function) name,
#define TRIFOLD_VALUE(name, Function) Activation::name,
enum class Activation { TRIFOLD_FOR_EACH_ACTIVATION(TRIFOLD_NAME) };
inline constexpr Activation kActivations[] = {TRIFOLD_FOR_EACH_ACTIVATION(TRIFOLD_VALUE)};
#undef TRIFOLD_NAME
#undef TRIFOLD_VALUE

// visit(Function()), with the struct that declares the function.
template <class Visit>
constexpr decltype(auto) with_function(Activation activation, Visit visit) {
  switch (activation) {
#define TRIFOLD_CASE(name, Function) \
  case Activation::name:             \
    return visit(Function());
    TRIFOLD_FOR_EACH_ACTIVATION(TRIFOLD_CASE)
#undef TRIFOLD_CASE
  }
  return visit(Relu());
}

struct ActivationTraits {
  std::string_view name;
  const char* help;
  GradientFrom gradient_from;
  std::span<const ActivationParameter> parameters;
  std::span<const double> kinks;
  std::span<const ActivationSample> samples;
};
const ActivationTraits& traits_of(Activation activation);

inline std::string_view name_of(Activation activation) {
  return traits_of(activation).name;
}

// By their place in ActivationTraits::parameters.
using ActivationParameters = std::array<double, kMostActivationParameters>;
ActivationParameters default_parameters(Activation activation);

// What both ops have.
struct ActivationOp : Op {
  Activation function = Activation::relu;
  ActivationParameters parameters = {};

  std::string attributes() const override { return std::string(name_of(function)); }
  OpKind kind() const override { return OpKind::element_wise; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }
};

// in: x; out: y
struct ActivationForward final : ActivationOp {
  std::string_view name() const override { return "activation.forward"; }
  void check_shapes(const OpTensors& tensors) const override;
  bool ends_with_relu() const override { return function == Activation::relu; }
  std::vector<int> in_place(int) const override { return {0}; }
};

// in: dy, and x or y (GradientFrom); out: dx
struct ActivationBackward final : ActivationOp {
  std::string_view name() const override { return "activation.backward"; }
  void check_shapes(const OpTensors& tensors) const override;
  std::vector<int> in_place(int) const override { return {0, 1}; }
  int leading_image() const override { return 1; }
};

}  // namespace trifold
