// Sums of squares chunk by chunk, in double (no square of a float overflows it, so the sum is finite exactly when all
// gradients are). The block that finishes last adds the chunks up in their order and decides the update.
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/gradient_norm.h"
#include "kernels/cuda/reduce.cuh"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kChunkElements = 4096;
constexpr std::size_t kDecisionBytes = 64;
static_assert(sizeof(UpdateDecision) <= kDecisionBytes);

std::size_t aligned(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

struct NormArgs {
  const UpdateChunk* chunks;
  const SegmentChunks* segments;
  int chunk_count;
  int segment_count;
  const DeviceStep* step;
  bool report_norm;
  double clip_norm;  // 0: not
  double trust, weight_decay;
  float largest_scale, growth_interval;
  float* loss_scale;  // null: none
  double* report;
  UpdateDecision* decision;
  double* gradient_squares;  // [chunks]
  double* weight_squares;    // [chunks]; LARS only
  float* local_rates;        // [segments]; LARS only
  unsigned* blocks_done;
};

__device__ __forceinline__ double add_square(double sum, float value) {
  return __fma_rn(static_cast<double>(value), static_cast<double>(value), sum);
}

__device__ __forceinline__ double squares_of_chunk(const float* __restrict__ values, const UpdateChunk& chunk) {
  double sum = 0;
  // Chunks start and end anywhere; whole packs lie at multiples of four.
  for (std::int64_t i = (chunk.begin & ~std::int64_t{3}) + 4 * threadIdx.x; i < chunk.end; i += 4 * kThreads) {
    if (i >= chunk.begin && i + 4 <= chunk.end) {
      const Pack<float> pack = load_pack(values + i);
#pragma unroll
      for (int k = 0; k < 4; ++k) sum = add_square(sum, pack.values[k]);
    } else {
      for (std::int64_t k = max(i, chunk.begin); k < min(i + 4, chunk.end); ++k) sum = add_square(sum, values[k]);
    }
  }
  return block_sum<kThreads>(sum);
}

// The loss scale moves on as loss_scale_step() in kernels/ops moves it on the host.
__device__ UpdateDecision decide(const NormArgs& args, double gradient_squares) {
  UpdateDecision decision{1, args.step->updates, 0};
  double norm = sqrt(gradient_squares);
  if (args.loss_scale != nullptr) {
    float scale = args.loss_scale[0], good = args.loss_scale[1], skipped = args.loss_scale[2];
    decision.gradient_scale = 1 / static_cast<double>(scale);
    norm *= decision.gradient_scale;
    if (!isfinite(gradient_squares)) {
      decision.skip = 1;
      scale = fmaxf(scale / 2, 1.0f);
      good = 0;
      skipped += 1;
    } else if ((good += 1) >= args.growth_interval) {
      scale = fminf(scale * 2, args.largest_scale);
      good = 0;
    }
    args.loss_scale[0] = scale;
    args.loss_scale[1] = good;
    args.loss_scale[2] = skipped;
    decision.updates -= static_cast<long long>(skipped);
  }
  if (args.clip_norm > 0) {
    const double shrink = args.clip_norm / (norm + 1e-6);
    if (shrink < 1) decision.gradient_scale *= shrink;
  }
  *args.report = args.report_norm ? norm : 0.0;
  *args.decision = decision;
  return decision;
}

// You et al.: a parameter's own rate, trust * |w| / (|g| + decay * |w|). A warp takes a segment.
__device__ void find_local_rates(const NormArgs& args, double gradient_scale) {
  for (int s = static_cast<int>(threadIdx.x) / 32; s < args.segment_count; s += kThreads / 32) {
    const SegmentChunks segment = args.segments[s];
    double gradient = 0, weight = 0;
    for (int i = segment.first_chunk + static_cast<int>(threadIdx.x) % 32; i < segment.end_chunk; i += 32) {
      gradient += __ldcg(args.gradient_squares + i);
      weight += __ldcg(args.weight_squares + i);
    }
    gradient = sqrt(warp_sum(gradient)) * gradient_scale;
    weight = sqrt(warp_sum(weight));
    double rate = 1;
    if (segment.decays && weight > 0 && gradient > 0)
      rate = args.trust * weight / (gradient + args.weight_decay * weight);
    if (threadIdx.x % 32 == 0) args.local_rates[s] = static_cast<float>(rate);
  }
}

template <bool kLars>
__global__ void __launch_bounds__(kThreads)
    gradient_norm(const float* __restrict__ weights, const float* __restrict__ gradients, const NormArgs args) {
  for (int i = static_cast<int>(blockIdx.x); i < args.chunk_count; i += static_cast<int>(gridDim.x)) {
    const UpdateChunk chunk = args.chunks[i];
    const double gradient_squares = squares_of_chunk(gradients, chunk);
    if (threadIdx.x == 0) args.gradient_squares[i] = gradient_squares;
    if constexpr (kLars) {
      const double weight_squares = squares_of_chunk(weights, chunk);
      if (threadIdx.x == 0) args.weight_squares[i] = weight_squares;
    }
  }

  __shared__ bool last;
  if (threadIdx.x == 0) {
    __threadfence();  // this block's sums are there before it is counted
    last = atomicAdd(args.blocks_done, 1u) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < args.chunk_count; i += kThreads)
    sum += __ldcg(args.gradient_squares + i);
  sum = block_sum<kThreads>(sum);
  __shared__ double gradient_scale;
  if (threadIdx.x == 0) {
    gradient_scale = decide(args, sum).gradient_scale;
    atomicExch(args.blocks_done, 0u);  // for the next launch
  }
  if constexpr (kLars) {
    __syncthreads();
    find_local_rates(args, gradient_scale);
  }
}

}  // namespace

SegmentTable::SegmentTable(const std::vector<ParameterSegment>& segments, Device& device)
    : segment_count_(static_cast<int>(segments.size())) {
  std::vector<UpdateChunk> chunks;
  std::vector<SegmentChunks> by_segment;
  for (const ParameterSegment& segment : segments) {
    SegmentChunks mine{.first_chunk = static_cast<int>(chunks.size()), .end_chunk = 0, .decays = segment.decay};
    for (std::int64_t begin = segment.begin; begin < segment.end;) {
      // Cut at multiples of four, so that only a segment's own ends are no whole packs.
      const std::int64_t end = std::min(segment.end, (begin & ~std::int64_t{3}) + kChunkElements);
      chunks.push_back({begin, end, static_cast<int>(by_segment.size()), segment.decay});
      begin = end;
    }
    mine.end_chunk = static_cast<int>(chunks.size());
    by_segment.push_back(mine);
  }
  chunk_count_ = static_cast<int>(chunks.size());
  std::vector<std::byte> bytes(chunks.size() * sizeof(UpdateChunk) + by_segment.size() * sizeof(SegmentChunks));
  std::copy_n(reinterpret_cast<const std::byte*>(chunks.data()), chunks.size() * sizeof(UpdateChunk), bytes.data());
  std::copy_n(reinterpret_cast<const std::byte*>(by_segment.data()), by_segment.size() * sizeof(SegmentChunks),
              bytes.data() + chunks.size() * sizeof(UpdateChunk));
  if (bytes.empty()) return;
  memory_ = DeviceMemory(device, bytes.size());
  device.upload(memory_.data(), bytes.data(), bytes.size());
}

const SegmentChunks* SegmentTable::segments() const {
  return reinterpret_cast<const SegmentChunks*>(memory_.data() +
                                                static_cast<std::size_t>(chunk_count_) * sizeof(UpdateChunk));
}

bool GradientNorm::needed(const OptimizerUpdate& op) {
  return op.scaling || op.args.clip_norm > 0 || op.args.kind == OptimizerKind::lars;
}

GradientNorm::GradientNorm(const OptimizerUpdate& op, const SegmentTable& table, CudaDevice& device)
    : args_(op.args),
      scaling_(op.scaling),
      table_(table),
      device_(device),
      blocks_done_(device, needed(op) ? sizeof(unsigned) : 0) {
  if (blocks_done_.bytes() > 0) device.clear(blocks_done_.data(), blocks_done_.bytes());
}

std::size_t GradientNorm::scratch_bytes() const {
  const std::size_t squares = aligned(static_cast<std::size_t>(table_.chunk_count()) * sizeof(double));
  const std::size_t rates = static_cast<std::size_t>(table_.segment_count()) * sizeof(float);
  return kDecisionBytes + (lars() ? 2 * squares + rates : squares);
}

const UpdateDecision* GradientNorm::decision(const std::byte* scratch) {
  return reinterpret_cast<const UpdateDecision*>(scratch);
}

// Scratch: the decision, squares of gradients, then for LARS squares of weights and the rates.
const float* GradientNorm::local_rates(const std::byte* scratch) const {
  if (!lars()) return nullptr;
  const std::size_t squares = aligned(static_cast<std::size_t>(table_.chunk_count()) * sizeof(double));
  return reinterpret_cast<const float*>(scratch + kDecisionBytes + 2 * squares);
}

void GradientNorm::launch(const Tensors& tensors) const {
  const std::size_t squares = aligned(static_cast<std::size_t>(table_.chunk_count()) * sizeof(double));
  const LossScaling scaling = scaling_.value_or(LossScaling{});
  const NormArgs args{
      .chunks = table_.chunks(),
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
      .report = tensors.report,
      .decision = reinterpret_cast<UpdateDecision*>(tensors.scratch),
      .gradient_squares = reinterpret_cast<double*>(tensors.scratch + kDecisionBytes),
      .weight_squares = lars() ? reinterpret_cast<double*>(tensors.scratch + kDecisionBytes + squares) : nullptr,
      .local_rates = const_cast<float*>(local_rates(tensors.scratch)),
      .blocks_done = reinterpret_cast<unsigned*>(blocks_done_.data())};
  const unsigned blocks = blocks_for(std::int64_t{table_.chunk_count()} * kThreads, kThreads, device_);
  if (lars())
    gradient_norm<true><<<blocks, kThreads, 0, device_.compute()>>>(tensors.weights, tensors.gradients, args);
  else
    gradient_norm<false><<<blocks, kThreads, 0, device_.compute()>>>(tensors.weights, tensors.gradients, args);
  check_launch("gradient_norm");
}

}  // namespace trifold::cuda
