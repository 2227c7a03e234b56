// Convolutions on the CPU: the fastest of the candidates, by the tuner.
#include "kernels/backend.h"
#include "kernels/cpu/conv_candidates.h"
#include "kernels/cpu/tuner.h"

namespace trifold::cpu {
namespace {

KernelPtr make_conv(const KernelRequest& request) {
  return fastest_kernel(machine_tuner(), request, conv_candidates(request));
}

const RegisterKernel register_conv2d_forward(cpu_backend(), "conv2d.forward", make_conv);
const RegisterKernel register_conv2d_backward_data(cpu_backend(), "conv2d.backward_data", make_conv);
const RegisterKernel register_conv2d_backward_weights(cpu_backend(), "conv2d.backward_weights", make_conv);

}  // namespace
}  // namespace trifold::cpu
