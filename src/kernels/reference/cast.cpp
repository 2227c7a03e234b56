// Between float types, element by element, and the conversion of 16-bit tensors around the other kernels.
#include "core/half.h"
#include "kernels/backend.h"
#include "kernels/ops/shape_ops.h"
#include "kernels/reference/convert.h"

namespace trifold::reference {
namespace {

double element(DType type, const std::byte* from, std::int64_t index) {
  if (type == DType::f64) return reinterpret_cast<const double*>(from)[index];
  if (type == DType::f32) return reinterpret_cast<const float*>(from)[index];
  const std::uint16_t bits = reinterpret_cast<const std::uint16_t*>(from)[index];
  return type == DType::f16 ? float_from_f16(bits) : float_from_bf16(bits);
}

void set_element(DType type, std::byte* to, std::int64_t index, double value) {
  const auto rounded = static_cast<float>(value);  // on the way to 16 bits too: what a device does
  if (type == DType::f64)
    reinterpret_cast<double*>(to)[index] = value;
  else if (type == DType::f32)
    reinterpret_cast<float*>(to)[index] = rounded;
  else
    reinterpret_cast<std::uint16_t*>(to)[index] =
        type == DType::f16 ? f16_from_float(rounded) : bf16_from_float(rounded);
}

class CastKernel final : public Kernel {
 public:
  explicit CastKernel(const KernelRequest& request)
      : scaled_(op_as<Cast>(request).scaled),
        elements_(request.in[0].elements()),
        from_(request.in[0].dtype),
        to_(request.out[0].dtype) {}

  void run(const StepContext&) override {
    const double scale = scaled_ ? in<float>(1)[0] : 1.0;
    for (std::int64_t i = 0; i < elements_; ++i)
      set_element(to_, out<std::byte>(0), i, element(from_, in<std::byte>(0), i) * scale);
  }

 private:
  bool scaled_;
  std::int64_t elements_;
  DType from_;
  DType to_;
};

const RegisterKernel register_cast(reference_backend(), "cast", make_kernel<CastKernel>);

}  // namespace

void convert(DType from_type, const std::byte* from, DType to_type, std::byte* to, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) set_element(to_type, to, i, element(from_type, from, i));
}

}  // namespace trifold::reference
