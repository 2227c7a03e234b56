// Element-wise functions and their gradients. One op for all: the function is an attribute.
#pragma once

#include <fmt/format.h>

#include "kernels/op.h"

namespace trifold {

enum class Activation { relu, leaky_relu, gelu, sigmoid, tanh };

constexpr const char* name_of(Activation function) {
  switch (function) {
    case Activation::relu:
      return "relu";
    case Activation::leaky_relu:
      return "leaky_relu";
    case Activation::gelu:
      return "gelu";
    case Activation::sigmoid:
      return "sigmoid";
    case Activation::tanh:
      return "tanh";
  }
  return "?";
}

// Whether the gradient is computed from the function's value y (then x need not be kept) or from x.
constexpr bool gradient_from_output(Activation function) {
  return function != Activation::gelu;
}

// in: x; out: y
struct ActivationForward final : Op {
  Activation function = Activation::relu;
  double slope = 0;  // leaky_relu, > 0

  std::string_view name() const override { return "activation.forward"; }
  OpKind kind() const override { return OpKind::element_wise; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }
  void check_shapes(const OpTensors& tensors) const override;
  bool ends_with_relu() const override { return function == Activation::relu; }
  std::string attributes() const override { return name_of(function); }
  std::vector<int> in_place(int) const override { return {0}; }
};

// in: dy, and y or x (gradient_from_output); out: dx
struct ActivationBackward final : Op {
  Activation function = Activation::relu;
  double slope = 0;

  std::string_view name() const override { return "activation.backward"; }
  OpKind kind() const override { return OpKind::element_wise; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override { return name_of(function); }
  std::vector<int> in_place(int) const override { return {0, 1}; }
  int leading_image() const override { return 1; }
};

}  // namespace trifold
