// Fully connected layers and reorders by oneDNN (convolutions: onednn_conv.cpp).
#include "kernels/cpu/onednn.h"

#include <array>

#include "core/error.h"
#include "kernels/cpu/onednn_chain.h"
#include "kernels/cpu/thread_scope.h"

namespace trifold::cpu {
namespace {

using dnnl::memory;

// The dims in which both layouts of a reorder are oneDNN's: images and column-blocked rows as [N, C, pixels, 1].
memory::dims reorder_dims(const Shape& shape, const Layout& from, const Layout& to) {
  const Layout& blocked = from.plain() ? to : from;
  switch (blocked.order) {
    case Order::channel_block:
      return {shape.batch(), shape.channels(), shape.pixels(), 1};
    case Order::column_block:
      return {shape[0], shape[1] / blocked.pixels, blocked.pixels, 1};
    case Order::plain:
      return {shape.elements(), 1, 1, 1};
    case Order::conv_block:
    case Order::conv_first:
    case Order::conv_depthwise:
    case Order::conv_last:
      break;
  }
  return onednn_dims(shape);
}

DnnlTag reorder_tag(const Layout& layout) {
  switch (layout.order) {
    case Order::plain:
      return DnnlTag::abcd;
    case Order::channel_block:
    case Order::column_block:
      return blocked_tag(layout.block, DnnlTag::nChw8c, DnnlTag::nChw16c);
    case Order::conv_block:
      return blocked_tag(layout.block, DnnlTag::OIhw8i8o, DnnlTag::OIhw16i16o);
    case Order::conv_first:
    case Order::conv_depthwise:
      return blocked_tag(layout.block, DnnlTag::Ohwi8o, DnnlTag::Ohwi16o);
    case Order::conv_last:
      break;
  }
  fail_runtime("not a layout of the CPU backend: {}", to_string(layout));
}

}  // namespace

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

std::optional<InnerProductPrimitive> InnerProductPrimitive::create(const InnerProductProblem& problem) {
  const ThreadScope scope(problem.threads);
  const auto type = onednn_type(problem.type);
  if (!type) return std::nullopt;
  const DnnlDesc x({problem.batch, problem.in}, *type, DnnlTag::ab);
  const DnnlDesc w_read({problem.out, problem.in}, *type, DnnlTag::ab);
  const DnnlDesc w_written({problem.out, problem.in}, memory::data_type::f32, DnnlTag::ab);
  const DnnlDesc& w = problem.pass == Pass::backward_weights ? w_written : w_read;
  const DnnlDesc y({problem.batch, problem.out}, *type, DnnlTag::ab);
  const DnnlDesc bias = problem.bias ? DnnlDesc({problem.out}, memory::data_type::f32, DnnlTag::a) : DnnlDesc();
  auto chain = std::make_unique<PrimitiveChain>(problem.threads);

  const auto add = [&]<class P>(const typename P::primitive_desc& description, std::array<int, 3> args, int bias_arg) {
    if (!description) return false;
    PrimitiveChain::Args bound = {{args[0], chain->over_buffer(x, kX)},
                                  {args[1], chain->over_buffer(w, kW)},
                                  {args[2], chain->over_buffer(y, kY)}};
    if (problem.bias) bound.emplace_back(bias_arg, chain->over_buffer(bias, kBias));
    chain->implementation = description.impl_info_str();
    chain->add(P(description), description.scratchpad_desc(), std::move(bound));
    return true;
  };

  bool made = false;
  try {
    const auto forward = describe<dnnl::inner_product_forward>(onednn_attributes(problem.relu),
                                                               dnnl::prop_kind::forward_training, x, w_read, bias, y);
    switch (problem.pass) {
      case Pass::forward:
        made = add.operator()<dnnl::inner_product_forward>(forward, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                                           DNNL_ARG_BIAS);
        break;
      case Pass::backward_data:
        made = add.operator()<dnnl::inner_product_backward_data>(
            describe_gradient<dnnl::inner_product_backward_data>(onednn_attributes(), forward, x, w, y),
            {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST}, DNNL_ARG_BIAS);
        break;
      case Pass::backward_weights:
        made = add.operator()<dnnl::inner_product_backward_weights>(
            describe_gradient<dnnl::inner_product_backward_weights>(onednn_attributes(), forward, x, w, bias, y),
            {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}, DNNL_ARG_DIFF_BIAS);
        break;
    }
  } catch (const dnnl::error&) {
    return std::nullopt;  // some versions throw at what they cannot do instead of returning nothing
  }
  if (!made) return std::nullopt;
  return InnerProductPrimitive(std::move(chain));
}

void InnerProductPrimitive::bind(const InnerProductBuffers& buffers, std::byte* scratch) {
  bind_buffers(std::array<const void*, 4>{buffers.x, buffers.w, buffers.y, buffers.bias}, scratch);
}

std::optional<ReorderPrimitive> ReorderPrimitive::create(const TensorDesc& from, const TensorDesc& to, int threads) {
  TRIFOLD_CHECK(from.shape == to.shape && from.dtype == to.dtype, "a reorder keeps shape and type: {} to {}",
                to_string(from), to_string(to));
  const auto type = onednn_type(from.dtype);
  if (!type) return std::nullopt;
  const ThreadScope scope(threads);
  const memory::dims dims = reorder_dims(from.shape, from.layout, to.layout);
  auto chain = std::make_unique<PrimitiveChain>(threads);
  try {
    const int source = chain->over_buffer({dims, *type, reorder_tag(from.layout)}, 0);
    const int destination = chain->over_buffer({dims, *type, reorder_tag(to.layout)}, 1);
    chain->add_reorder(source, destination);
  } catch (const dnnl::error&) {
    return std::nullopt;
  }
  chain->implementation = "reorder";
  return ReorderPrimitive(std::move(chain));
}

void ReorderPrimitive::bind(const void* from, void* to, std::byte* scratch) {
  bind_buffers(std::array<const void*, 2>{from, to}, scratch);
}

}  // namespace trifold::cpu
