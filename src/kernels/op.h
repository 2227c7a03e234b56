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
  // The output is the input's memory under another shape: no kernel, no bytes.
  virtual bool is_view() const { return false; }
};

using OpPtr = std::shared_ptr<const Op>;

std::string to_string(const Op& op);  // "conv2d.forward stride 2 pad 1"

}  // namespace trifold
