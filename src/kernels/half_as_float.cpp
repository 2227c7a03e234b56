#include "kernels/half_as_float.h"

#include <algorithm>

namespace trifold {
namespace {

constexpr std::size_t kAlign = 64;

bool is_half(DType type) {
  return type == DType::f16 || type == DType::bf16;
}

struct Widened {
  std::vector<TensorDesc> descs;
  std::vector<std::size_t> offsets;  // into scratch, of those that were in 16 bits
};

Widened widen(std::span<const TensorDesc> tensors, std::size_t& scratch) {
  Widened widened;
  for (const TensorDesc& tensor : tensors) {
    TensorDesc desc = tensor;
    if (is_half(tensor.dtype)) desc.dtype = DType::f32;
    widened.descs.push_back(desc);
    widened.offsets.push_back(scratch);
    if (is_half(tensor.dtype)) scratch += (desc.bytes() + kAlign - 1) / kAlign * kAlign;
  }
  return widened;
}

class HalfAsFloat final : public Kernel {
 public:
  HalfAsFloat(const KernelRequest& request, const std::function<KernelPtr(const KernelRequest&)>& make,
              ConvertElements convert)
      : in_descs_(request.in.begin(), request.in.end()),
        out_descs_(request.out.begin(), request.out.end()),
        convert_(convert) {
    in_ = widen(request.in, scratch_);
    out_ = widen(request.out, scratch_);
    inner_ = make({.op = request.op,
                   .in = in_.descs,
                   .out = out_.descs,
                   .threads = request.threads,
                   .strict_math = request.strict_math,
                   .scratch_limit = request.scratch_limit,
                   .device = request.device,
                   .ranks = request.ranks});
  }

  std::size_t scratch_bytes() const override { return scratch_ + inner_->scratch_bytes(); }
  std::string implementation() const override { return inner_->implementation() + " in float"; }

  void run(const StepContext& context) override {
    for (std::size_t i = 0; i < in_descs_.size(); ++i)
      if (is_half(in_descs_[i].dtype))
        convert_(in_descs_[i].dtype, in<std::byte>(i), DType::f32, scratch() + in_.offsets[i], in_descs_[i].elements());
    inner_->run(context);
    for (std::size_t i = 0; i < out_descs_.size(); ++i)
      if (is_half(out_descs_[i].dtype))
        convert_(DType::f32, scratch() + out_.offsets[i], out_descs_[i].dtype, out<std::byte>(i),
                 out_descs_[i].elements());
  }

 private:
  void on_bind() override {
    std::vector<std::byte*> inputs;
    std::vector<std::byte*> outputs;
    for (std::size_t i = 0; i < in_descs_.size(); ++i)
      inputs.push_back(is_half(in_descs_[i].dtype) ? scratch() + in_.offsets[i] : out_of(in<std::byte>(i)));
    for (std::size_t i = 0; i < out_descs_.size(); ++i)
      outputs.push_back(is_half(out_descs_[i].dtype) ? scratch() + out_.offsets[i] : out<std::byte>(i));
    inner_->bind(inputs, outputs, scratch() + scratch_);
  }
  static std::byte* out_of(const std::byte* input) { return const_cast<std::byte*>(input); }

  std::vector<TensorDesc> in_descs_;
  std::vector<TensorDesc> out_descs_;
  ConvertElements convert_;
  std::size_t scratch_ = 0;
  Widened in_;
  Widened out_;
  KernelPtr inner_;
};

}  // namespace

bool has_half_tensors(const KernelRequest& request) {
  const auto half = [](const TensorDesc& tensor) { return is_half(tensor.dtype); };
  return std::ranges::any_of(request.in, half) || std::ranges::any_of(request.out, half);
}

KernelPtr make_half_as_float(const KernelRequest& request, const std::function<KernelPtr(const KernelRequest&)>& make,
                             ConvertElements convert) {
  return std::make_unique<HalfAsFloat>(request, make, convert);
}

}  // namespace trifold
