// Scratch: the decision, squares of gradients, then for LARS squares of weights and the rates.
#include "kernels/cuda/gradient_norm.h"

namespace trifold::cuda {
namespace {

constexpr std::size_t kDecisionBytes = 64;
static_assert(sizeof(UpdateDecision) <= kDecisionBytes);

std::size_t squares_bytes(const SegmentTable& table) {
  const std::size_t bytes = static_cast<std::size_t>(table.chunk_count()) * sizeof(double);
  return (bytes + 63) / 64 * 64;
}

}  // namespace

bool GradientNorm::needed(const OptimizerUpdate& op) {
  return op.scaling || op.args.clip_norm > 0 || op.args.kind == OptimizerKind::lars;
}

GradientNorm::GradientNorm(const OptimizerUpdate& op, const SegmentTable& table, CudaDevice& device)
    : args_(op.args),
      scaling_(op.scaling),
      moves_scale_(op.moves_scale),
      table_(table),
      device_(device),
      meeting_(device, sizeof(GridMeeting)) {
  device.clear(meeting_.data(), meeting_.bytes());
}

std::size_t GradientNorm::scratch_bytes() const {
  const std::size_t squares = squares_bytes(table_);
  const std::size_t rates = static_cast<std::size_t>(table_.segment_count()) * sizeof(float);
  return kDecisionBytes + (lars() ? 2 * squares + rates : squares);
}

NormArgs GradientNorm::args(const Tensors& tensors) const {
  const LossScaling scaling = scaling_.value_or(LossScaling{});
  std::byte* squares = tensors.scratch + kDecisionBytes;
  std::byte* weight_squares = squares + squares_bytes(table_);
  std::byte* rates = weight_squares + squares_bytes(table_);
  return {.chunks = table_.chunks(),
          .segments = table_.segments(),
          .chunk_count = table_.chunk_count(),
          .segment_count = table_.segment_count(),
          .step = device_.step(),
          .report_norm = args_.clip_norm > 0,
          .clip_norm = args_.clip_norm,
          .trust = args_.trust,
          .weight_decay = args_.weight_decay,
          .largest_scale = static_cast<float>(scaling.largest),
          .growth_interval = static_cast<float>(scaling.growth_interval),
          .loss_scale = scaling_ ? tensors.loss_scale : nullptr,
          .moves_scale = moves_scale_,
          .report = tensors.report,
          .decision = reinterpret_cast<UpdateDecision*>(tensors.scratch),
          .gradient_squares = reinterpret_cast<double*>(squares),
          .weight_squares = lars() ? reinterpret_cast<double*>(weight_squares) : nullptr,
          .local_rates = lars() ? reinterpret_cast<float*>(rates) : nullptr,
          .meeting = reinterpret_cast<GridMeeting*>(meeting_.data())};
}

}  // namespace trifold::cuda
