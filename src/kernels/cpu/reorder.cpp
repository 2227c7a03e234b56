// One layout of a tensor into another, by oneDNN.
#include "core/error.h"
#include "kernels/backend.h"
#include "kernels/cpu/onednn.h"
#include "kernels/ops/shape_ops.h"

namespace trifold::cpu {
namespace {

class ReorderKernel final : public Kernel {
 public:
  explicit ReorderKernel(const KernelRequest& request)
      : primitive_(make_primitive(request.in[0], request.out[0], request.threads)) {}

  std::size_t scratch_bytes() const override { return primitive_.scratch_bytes(); }
  std::string implementation() const override { return primitive_.implementation(); }
  void run(const StepContext&) override { primitive_.execute(); }

 private:
  static ReorderPrimitive make_primitive(const TensorDesc& from, const TensorDesc& to, int threads) {
    auto primitive = ReorderPrimitive::create(from, to, threads);
    TRIFOLD_CHECK(primitive, "oneDNN {} cannot reorder {} to {}", onednn_version(), to_string(from), to_string(to));
    return std::move(*primitive);
  }
  void on_bind() override { primitive_.bind(in<std::byte>(0), out<std::byte>(0), scratch()); }

  ReorderPrimitive primitive_;
};

const RegisterKernel register_reorder(cpu_backend(), "reorder", make_kernel<ReorderKernel>);

}  // namespace
}  // namespace trifold::cpu
