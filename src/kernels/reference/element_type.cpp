#include "kernels/reference/element_type.h"

#include "core/error.h"

namespace trifold::reference {
namespace {

bool is_float(const TensorDesc& tensor) {
  return tensor.dtype == DType::f32 || tensor.dtype == DType::f64;
}

}  // namespace

DType element_type(const KernelRequest& request, HasOwnType has_own_type) {
  const DType type = !request.in.empty() && is_float(request.in[0]) ? request.in[0].dtype : request.out[0].dtype;
  const auto check = [&](std::span<const TensorDesc> tensors, Op::Side side) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      TRIFOLD_CHECK(!is_float(tensors[i]) || tensors[i].dtype == type || has_own_type(request, side, i),
                    "{} of {} tensors has {} {} in {}; cast it first", request.op.name(), name_of(type),
                    side == Op::Side::in ? "input" : "output", i, name_of(tensors[i].dtype));
  };
  check(request.in, Op::Side::in);
  check(request.out, Op::Side::out);
  return type;
}

}  // namespace trifold::reference
