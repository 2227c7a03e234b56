// Convolutions and their gradients by oneDNN, with the reorders that Conversion allows.
#include <array>

#include "core/error.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/onednn_chain.h"
#include "kernels/cpu/thread_scope.h"

namespace trifold::cpu {
namespace {

using dnnl::memory;

memory::data_type element_type(const TensorDesc& tensor) {
  const auto type = onednn_type(tensor.dtype);
  TRIFOLD_CHECK(type, "oneDNN has no convolution of {}", to_string(tensor));
  return *type;
}

DnnlDesc image_desc(const TensorDesc& tensor, Conversion conversion) {
  TRIFOLD_CHECK(tensor.layout.plain() || tensor.layout.order == Order::channel_block, "not the layout of an image: {}",
                to_string(tensor.layout));
  DnnlTag tag = DnnlTag::nchw;
  if (conversion == Conversion::all) {
    tag = DnnlTag::any;
  } else if (conversion != Conversion::plain && !tensor.layout.plain()) {
    tag = blocked_tag(tensor.layout.block, DnnlTag::nChw8c, DnnlTag::nChw16c);
  }
  return {onednn_dims(tensor.shape), element_type(tensor), tag};
}

// oneDNN has the groups as a dim of their own; in memory that makes no difference.
memory::dims weights_dims(const Shape& shape, std::int64_t groups) {
  memory::dims dims = onednn_dims(shape);
  if (groups > 1) {
    dims[0] /= groups;
    dims.insert(dims.begin(), groups);
  }
  return dims;
}

DnnlTag weights_tag(const Layout& layout, bool grouped) {
  switch (layout.order) {
    case Order::plain:
      return grouped ? DnnlTag::goihw : DnnlTag::oihw;
    case Order::conv_block:
      return grouped ? blocked_tag(layout.block, DnnlTag::gOIhw8i8o, DnnlTag::gOIhw16i16o)
                     : blocked_tag(layout.block, DnnlTag::OIhw8i8o, DnnlTag::OIhw16i16o);
    case Order::conv_first:
      return blocked_tag(layout.block, DnnlTag::Ohwi8o, DnnlTag::Ohwi16o);
    case Order::conv_depthwise:
      return blocked_tag(layout.block, DnnlTag::Goihw8g, DnnlTag::Goihw16g);
    case Order::channel_block:
    case Order::column_block:
    case Order::conv_last:
      break;
  }
  fail_runtime("not a layout of convolution weights: {}", to_string(layout));
}

DnnlDesc weights_desc(const TensorDesc& tensor, std::int64_t groups, Conversion conversion) {
  DnnlTag tag = DnnlTag::any;
  if (conversion == Conversion::none) tag = weights_tag(tensor.layout, groups > 1);
  if (conversion == Conversion::plain) tag = weights_tag({}, groups > 1);
  return {weights_dims(tensor.shape, groups), element_type(tensor), tag};
}

std::string weights_name(const DnnlDesc& desc, const memory::dims& dims) {
  struct Named {
    DnnlTag tag;
    const char* name;
    std::size_t rank;
  };
  static constexpr std::array<Named, 11> kKnown = {{{DnnlTag::oihw, "oihw", 4},
                                                    {DnnlTag::goihw, "goihw", 5},
                                                    {DnnlTag::OIhw8i8o, "OIhw8i8o", 4},
                                                    {DnnlTag::OIhw8o8i, "OIhw8o8i", 4},
                                                    {DnnlTag::gOIhw8i8o, "gOIhw8i8o", 5},
                                                    {DnnlTag::gOIhw8o8i, "gOIhw8o8i", 5},
                                                    {DnnlTag::OIhw16i16o, "OIhw16i16o", 4},
                                                    {DnnlTag::OIhw16o16i, "OIhw16o16i", 4},
                                                    {DnnlTag::gOIhw16i16o, "gOIhw16i16o", 5},
                                                    {DnnlTag::gOIhw16o16i, "gOIhw16o16i", 5},
                                                    {DnnlTag::IOhw16o16i, "IOhw16o16i", 4}}};
  for (const Named& known : kKnown)
    if (known.rank == dims.size() && DnnlDesc(dims, memory::data_type::f32, known.tag) == desc) return known.name;
  return "a layout of oneDNN's own";
}

struct ConvDescs {
  ConvDescs(const ConvProblem& problem, Conversion images, Conversion weights)
      : x(image_desc(problem.x, images)),
        w(weights_desc(problem.w, problem.args.groups, weights)),
        y(image_desc(problem.y, images)),
        bias(problem.bias ? DnnlDesc({problem.y.shape[1]}, memory::data_type::f32, DnnlTag::a) : DnnlDesc()) {}
  DnnlDesc x, w, y, bias;
};

struct Window {
  explicit Window(const Conv2dArgs& args)
      : stride{args.stride[0], args.stride[1]},
        dilation{args.dilation[0] - 1, args.dilation[1] - 1},
        pad{args.pad[0], args.pad[1]} {}
  memory::dims stride, dilation, pad;
};

auto describe_forward(const ConvDescs& descs, const Window& window, dnnl::algorithm algorithm, bool relu) {
  return describe<dnnl::convolution_forward>(onednn_attributes(relu), dnnl::prop_kind::forward_training, algorithm,
                                             descs.x, descs.w, descs.bias, descs.y, window.stride, window.dilation,
                                             window.pad, window.pad);
}

// The forward convolution that a gradient's description asks for; its layouts do not matter. Of 16-bit images it has
// 16-bit weights, even where their gradient is in f32.
auto describe_hint(ConvProblem problem, const Window& window) {
  problem.w.dtype = problem.x.dtype;
  return describe_forward(ConvDescs(problem, Conversion::all, Conversion::all), window,
                          dnnl::algorithm::convolution_direct, false);
}

// Puts the convolution between the reorders that its layouts make necessary.
class ConvBuilder {
 public:
  explicit ConvBuilder(const ConvProblem& problem)
      : problem_(problem),
        held_(problem, Conversion::none, Conversion::none),
        chain_(std::make_unique<PrimitiveChain>(problem.threads)) {}

  // Every pass reads two tensors (called first) and writes a third.
  void read(Buffer buffer, int arg, const DnnlDesc& used) {
    int slot = chain_->over_buffer(held(buffer), buffer);
    if (!note(buffer, used)) {
      const int staged = chain_->over_scratch(used);
      chain_->add_reorder(slot, staged);
      slot = staged;
    }
    args_.emplace_back(arg, slot);
  }
  void write(Buffer buffer, int arg, const DnnlDesc& used) {
    out_ = chain_->over_buffer(held(buffer), buffer);
    written_ = note(buffer, used) ? out_ : chain_->over_scratch(used);
    args_.emplace_back(arg, written_);
  }
  template <class P>
  void convolve(const typename P::primitive_desc& description, int bias_arg) {
    if (problem_.bias) args_.emplace_back(bias_arg, chain_->over_buffer(held_.bias, kBias));
    chain_->add(P(description), description.scratchpad_desc(), args_);
    if (written_ != out_) chain_->add_reorder(written_, out_);
    chain_->implementation = description.impl_info_str();
    if (!reordered_.empty()) chain_->implementation += "+reorder:" + reordered_;
  }

  std::unique_ptr<PrimitiveChain> chain() { return std::move(chain_); }
  const std::string& wanted_weights() const { return wanted_weights_; }

 private:
  const DnnlDesc& held(Buffer buffer) const { return buffer == kX ? held_.x : buffer == kW ? held_.w : held_.y; }

  bool note(Buffer buffer, const DnnlDesc& used) {
    if (held(buffer) == used) return true;
    reordered_ += buffer == kX ? 'x' : buffer == kW ? 'w' : 'y';
    if (buffer == kW) wanted_weights_ = weights_name(used, weights_dims(problem_.w.shape, problem_.args.groups));
    return false;
  }

  const ConvProblem& problem_;
  ConvDescs held_;
  std::unique_ptr<PrimitiveChain> chain_;
  PrimitiveChain::Args args_;
  int out_ = 0;
  int written_ = 0;
  std::string reordered_;
  std::string wanted_weights_;
};

// Kernels of oneDNN that fault or give wrong results. What they would have computed is then done by another layout, or
// in float.
// - AMX with a stride above 1: version 3.7.2 ends with an illegal instruction in brgconv_strided, the input gradient in
//   bf16 (met in unit tests on Debian 13), and up to 3.13 the forward kernel gives wrong results where the stride is
//   larger than the kernel (oneDNN pull request 5494).
// - The weight gradient in bf16 of an image that is narrower than the stride: version 2.6 reads memory that it has not
//   written (met by a generated network on an AMD EPYC with AVX512_BF16).
bool is_faulty(const ConvProblem& problem, std::string_view implementation) {
  const Pair& stride = problem.args.stride;
  const bool amx = implementation.find("amx") != std::string_view::npos;
  if (amx && (stride[0] > 1 || stride[1] > 1)) return true;
  return problem.pass == Pass::backward_weights && problem.x.dtype == DType::bf16 && problem.x.shape[3] < stride[1];
}

// False where oneDNN has no convolution that the problem accepts; throws dnnl::error likewise.
bool build(const ConvProblem& problem, ConvBuilder& builder) {
  const Window window(problem.args);
  const auto algorithm = problem.algorithm == ConvAlgorithm::winograd ? dnnl::algorithm::convolution_winograd
                                                                      : dnnl::algorithm::convolution_direct;
  const ConvDescs asked(problem, problem.conversion == Conversion::weights ? Conversion::none : problem.conversion,
                        problem.conversion);
  const auto acceptable = [&](const auto& description) {
    if (!description) return false;
    const std::string_view name = description.impl_info_str();
    if (is_faulty(problem, name)) return false;
    return problem.accept_reference || !name.starts_with("ref");
  };
  switch (problem.pass) {
    case Pass::forward: {
      const auto description = describe_forward(asked, window, algorithm, problem.relu);
      if (!acceptable(description)) return false;
      builder.read(kX, DNNL_ARG_SRC, description.src_desc());
      builder.read(kW, DNNL_ARG_WEIGHTS, description.weights_desc());
      builder.write(kY, DNNL_ARG_DST, description.dst_desc());
      builder.convolve<dnnl::convolution_forward>(description, DNNL_ARG_BIAS);
      return true;
    }
    case Pass::backward_data: {
      const auto description = describe_gradient<dnnl::convolution_backward_data>(
          onednn_attributes(), describe_hint(problem, window), algorithm, asked.x, asked.w, asked.y, window.stride,
          window.dilation, window.pad, window.pad);
      if (!acceptable(description)) return false;
      builder.read(kY, DNNL_ARG_DIFF_DST, description.diff_dst_desc());
      builder.read(kW, DNNL_ARG_WEIGHTS, description.weights_desc());
      builder.write(kX, DNNL_ARG_DIFF_SRC, description.diff_src_desc());
      builder.convolve<dnnl::convolution_backward_data>(description, DNNL_ARG_BIAS);
      return true;
    }
    case Pass::backward_weights: {
      const auto description = describe_gradient<dnnl::convolution_backward_weights>(
          onednn_attributes(), describe_hint(problem, window), algorithm, asked.x, asked.w, asked.bias, asked.y,
          window.stride, window.dilation, window.pad, window.pad);
      if (!acceptable(description)) return false;
      builder.read(kX, DNNL_ARG_SRC, description.src_desc());
      builder.read(kY, DNNL_ARG_DIFF_DST, description.diff_dst_desc());
      builder.write(kW, DNNL_ARG_DIFF_WEIGHTS, description.diff_weights_desc());
      builder.convolve<dnnl::convolution_backward_weights>(description, DNNL_ARG_DIFF_BIAS);
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<ConvPrimitive> ConvPrimitive::create(const ConvProblem& problem) {
  const ThreadScope scope(problem.threads);
  ConvBuilder builder(problem);
  try {
    if (!build(problem, builder)) return std::nullopt;
  } catch (const dnnl::error&) {
    return std::nullopt;  // some versions throw at what they cannot do instead of returning nothing
  }
  ConvPrimitive primitive(builder.chain());
  primitive.wanted_weights_ = builder.wanted_weights();
  return primitive;
}

void ConvPrimitive::bind(const ConvBuffers& buffers, std::byte* scratch) {
  bind_buffers(std::array<const void*, 4>{buffers.x, buffers.w, buffers.y, buffers.bias}, scratch);
}

}  // namespace trifold::cpu
