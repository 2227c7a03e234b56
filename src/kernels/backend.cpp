#include "kernels/backend.h"

#include "core/error.h"

namespace trifold {

KernelPtr Backend::make(const KernelRequest& request) const {
  const auto found = factories_.find(request.op.name());
  TRIFOLD_CHECK(found != factories_.end(), "the {} backend has no kernel for {}", name_, request.op.name());
  if (convert_ != nullptr && !request.op.takes_any_type() && has_half_tensors(request))
    return make_half_as_float(request, found->second, convert_);
  return found->second(request);
}

LayoutChoice Backend::choose_layouts(const Op& /*op*/, std::span<const TensorDesc> in,
                                     std::span<const TensorDesc> out) const {
  return {std::vector<Layout>(in.size()), std::vector<Layout>(out.size())};
}

void Backend::add(std::string_view op_name, KernelFactory factory) {
  const bool added = factories_.emplace(std::string(op_name), factory).second;
  TRIFOLD_CHECK(added, "the {} backend has two kernels for {}", name_, op_name);
}

}  // namespace trifold
