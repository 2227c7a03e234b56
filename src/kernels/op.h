// An op: one computation, described. It has a name and attributes; it knows no memory, no layout and no backend. The
// folder ops/ holds one header a family with its exact inputs and outputs; a backend's kernel runs it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace trifold {

class OpTensors;  // ops/op_tensors.h

// What an op does with its elements.
enum class OpKind {
  convolution,
  matrix_product,
  element_wise,   // an element of the output is made of the same element of the inputs
  reduction,      // sums, maxima, statistics, losses
  movement,       // elements go elsewhere or to another type
  layout_change,  // the same tensor in another memory layout
  exchange,       // between ranks
  update,         // of parameters, summed gradients and optimiser state
};

constexpr bool is_product(OpKind kind) {
  return kind == OpKind::convolution || kind == OpKind::matrix_product;
}

// How the memory layouts of an op's tensors depend on each other. Where a rule leaves a choice, the backend makes it.
enum class LayoutRule {
  plain,               // every tensor is row-major
  as_given,            // inputs as they are; an output as the input whose memory it takes over, else as it is
  like_leading_image,  // every image as the op's leading image; all else plain
  like_first_tensor,   // the first output as the first input, whose layout does not matter; all else plain
  convolution,         // the backend chooses for images and weights
  matrix_product,      // x and w have their columns in the same order
  joins_channels,      // the inputs are parts of the output along channels
  splits_channels,     // the outputs are parts of the input along channels
  gathers_channels,    // the input is one rank's part of the output along channels
  image_to_row,        // the image lies as it is, the row plain
  row_to_image,        // the row is plain, the backend chooses for the image
  same_on_all_ranks,   // input and output alike, and as on every other rank
  message,             // sender and receiver derive the layout from the shape alone
};

class Op {
 public:
  Op() = default;
  Op(const Op&) = default;
  Op& operator=(const Op&) = default;
  Op(Op&&) = default;
  Op& operator=(Op&&) = default;
  virtual ~Op() = default;

  virtual std::string_view name() const = 0;  // "conv2d.forward": the key of kernels
  virtual std::string attributes() const { return {}; }
  virtual OpKind kind() const = 0;
  virtual LayoutRule layout_rule() const { return LayoutRule::plain; }

  // Fails (OpTensors::fail) unless shapes and integer types are as the op's header says.
  virtual void check_shapes(const OpTensors& tensors) const;

  // Work, for reports and cost models.
  virtual double flops(std::span<const TensorDesc> in, std::span<const TensorDesc> out) const;
  // The input whose memory output `out` may take over when nobody needs that input any more.
  virtual std::vector<int> in_place(int /*out*/) const { return {}; }
  // Whether this tensor is f32 whatever the precision of activations: statistics, losses, sums, biases, gradients of
  // parameters. Tensors that are no floats at all need not be named.
  enum class Side { in, out };
  virtual bool keeps_f32(Side /*side*/, int /*index*/) const { return false; }
  // It moves elements of any type as they are, or converts them itself: no backend converts them around it.
  virtual bool takes_any_type() const { return false; }
  // The input that the layouts of all other images follow. A gradient follows what forward kept: then masks are read in
  // the order in which they were written, and the gradient is made in the order of its value.
  virtual int leading_image() const { return 0; }
  // A mask of bits has no layout of its own: its bits lie in the order of this input's elements.
  virtual std::optional<int> mask_follows(Side /*side*/, int /*index*/) const { return std::nullopt; }
  // Whether a stage that recomputes may run it again in backward instead of keeping what it made.
  virtual bool may_run_twice() const { return true; }
  // Whether its first output is max(0, ...) of what it computes, so that a gradient can be undone from its sign.
  virtual bool ends_with_relu() const { return false; }
  // The output is the input's memory under another shape: no kernel, no bytes.
  virtual bool is_view() const { return false; }
};

using OpPtr = std::shared_ptr<const Op>;

std::string to_string(const Op& op);  // "conv2d.forward stride 2 pad 1"

}  // namespace trifold
