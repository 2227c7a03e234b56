// Optimiser updates on the GPU: one launch over the flat buffers however many parameters there are; a cooperative one,
// which reduces the gradients first, where the update depends on all of them. Arithmetic is that of the CPU backend's
// loops.
#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/cuda/cooperative.h"
#include "kernels/cuda/cuda_kernel.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/gradient_norm.cuh"
#include "kernels/cuda/gradient_norm.h"
#include "kernels/cuda/segment_table.h"
#include "kernels/ops/optimizer.h"

namespace trifold::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocksResident = 4;  // on a multiprocessor: 64 registers a thread, more than any rule needs

enum class Rule { plain, momentum, nesterov, adam, adamw, adagrad };

template <Rule kRule>
constexpr bool kIsAdam = kRule == Rule::adam || kRule == Rule::adamw;

// decay * average + added, with the decay split into 0 or 1 and a small rest. A single float is too coarse near 1: an
// average settles at added / (1 - decay), where the rounding error of 0.999 becomes a relative error of 1.3e-5.
struct Average {
  float whole, rest;

  explicit Average(double decay)
      : whole(decay < 0.5 ? 0.0f : 1.0f), rest(static_cast<float>(decay < 0.5 ? decay : decay - 1)) {}
  __device__ __forceinline__ float operator()(float average, float added) const {
    return fmaf(average, whole, fmaf(average, rest, added));
  }
};

struct UpdateArgs {
  const UpdateChunk* chunks;
  int chunk_count;
  const DeviceStep* step;
  double log_beta1, log_beta2, weight_decay;
  Average momentum, mean_of, square_of;
  float rest1, rest2;  // 1 - beta, rounded once
  float eps, initial_accumulator;
};

// What all elements of a step share.
struct StepNumbers {
  float rate;   // negative; adam: with the correction of the mean
  float decay;  // times the weight, added to the gradient; adamw: to the weight
  float gradient_scale;
  float root_correction;  // adam: 1 / sqrt of the correction of the square
  bool skip;
};

template <Rule kRule>
__device__ __forceinline__ StepNumbers step_numbers(const UpdateArgs& args, const UpdateDecision& decision) {
  const double learning_rate = args.step->learning_rate;
  StepNumbers numbers{.rate = static_cast<float>(-learning_rate),
                      .decay = static_cast<float>(args.weight_decay),
                      .gradient_scale = static_cast<float>(decision.gradient_scale),
                      .root_correction = 1,
                      .skip = decision.skip != 0};
  if constexpr (kIsAdam<kRule>) {
    const auto updates = static_cast<double>(decision.updates);
    // The corrections, 1 - beta^updates, without the cancellation of a beta near 1.
    numbers.rate = static_cast<float>(-learning_rate / -expm1(updates * args.log_beta1));
    numbers.root_correction = static_cast<float>(1 / sqrt(-expm1(updates * args.log_beta2)));
  }
  if constexpr (kRule == Rule::adamw) numbers.decay = static_cast<float>(-learning_rate * args.weight_decay);
  return numbers;
}

// What the elements of a chunk share.
struct ChunkNumbers {
  float gradient_scale, decay;
};

// One element. `first` and `second` are the states that the rule has: the velocity, the sum of squares, or
// the mean and the square.
template <Rule kRule>
__device__ __forceinline__ void update_element(const UpdateArgs& args, const StepNumbers& step,
                                               const ChunkNumbers& chunk, float gradient, float& weight, float& first,
                                               float& second) {
  float g = gradient * chunk.gradient_scale;
  if constexpr (kIsAdam<kRule>) {
    if constexpr (kRule == Rule::adam) g = fmaf(weight, chunk.decay, g);
    first = args.mean_of(first, g * args.rest1);
    second = args.square_of(second, g * g * args.rest2);
    const float direction = first / fmaf(sqrtf(second), step.root_correction, args.eps);
    // Decay and step are added up first: a factor 1 - rate * weight_decay would round small decays away.
    if constexpr (kRule == Rule::adamw)
      weight += fmaf(direction, step.rate, weight * chunk.decay);
    else
      weight = fmaf(direction, step.rate, weight);
  } else if constexpr (kRule == Rule::adagrad) {
    g = fmaf(weight, chunk.decay, g);
    first = fmaf(g, g, first);
    weight = fmaf(g / (sqrtf(first + args.initial_accumulator) + args.eps), step.rate, weight);
  } else {
    g = fmaf(weight, chunk.decay, g);
    float move = g;
    if constexpr (kRule != Rule::plain) {
      first = args.momentum(first, g);
      move = first;
    }
    if constexpr (kRule == Rule::nesterov) move = args.momentum(first, g);
    weight = fmaf(move, step.rate, weight);
  }
}

// A block takes chunk after chunk; its threads take packs of four, the ends of a segment element by element.
template <Rule kRule>
__device__ __forceinline__ void update_chunks(float* __restrict__ weights, const float* __restrict__ gradients,
                                              float* __restrict__ first_state, float* __restrict__ second_state,
                                              const UpdateArgs& args, const StepNumbers& step,
                                              const float* local_rates) {
  constexpr bool kFirst = kRule != Rule::plain, kSecond = kIsAdam<kRule>;
  if (step.skip) return;
  for (int c = static_cast<int>(blockIdx.x); c < args.chunk_count; c += static_cast<int>(gridDim.x)) {
    const UpdateChunk chunk = args.chunks[c];
    const float local = local_rates != nullptr ? local_rates[chunk.segment] : 1.0f;
    const ChunkNumbers numbers{.gradient_scale = local * step.gradient_scale,
                               .decay = chunk.decays ? local * step.decay : 0.0f};
    // Places within the chunk, from the last multiple of four before it.
    const std::int64_t base = chunk.begin & ~std::int64_t{3};
    const int begin = static_cast<int>(chunk.begin - base), end = static_cast<int>(chunk.end - base);
    const float* g_base = gradients + base;
    float* w_base = weights + base;
    float* first_base = kFirst ? first_state + base : nullptr;
    float* second_base = kSecond ? second_state + base : nullptr;
    for (int i = 4 * static_cast<int>(threadIdx.x); i < end; i += 4 * kThreads) {
      if (i >= begin && i + 4 <= end) {
        const Pack<float> g = load_pack(g_base + i);
        Pack<float> w = load_pack(w_base + i), first{}, second{};
        if constexpr (kFirst) first = load_pack(first_base + i);
        if constexpr (kSecond) second = load_pack(second_base + i);
#pragma unroll
        for (int k = 0; k < 4; ++k)
          update_element<kRule>(args, step, numbers, g.values[k], w.values[k], first.values[k], second.values[k]);
        store_pack(w_base + i, w);
        if constexpr (kFirst) store_pack(first_base + i, first);
        if constexpr (kSecond) store_pack(second_base + i, second);
      } else {
#pragma unroll 1
        for (int k = max(i, begin); k < min(i + 4, end); ++k) {
          float w = w_base[k], first = 0, second = 0;
          if constexpr (kFirst) first = first_base[k];
          if constexpr (kSecond) second = second_base[k];
          update_element<kRule>(args, step, numbers, g_base[k], w, first, second);
          w_base[k] = w;
          if constexpr (kFirst) first_base[k] = first;
          if constexpr (kSecond) second_base[k] = second;
        }
      }
    }
  }
}

// Gradients as they are.
template <Rule kRule>
__global__ void __launch_bounds__(kThreads, kBlocksResident)
    update(float* __restrict__ weights, const float* __restrict__ gradients, float* __restrict__ first_state,
           float* __restrict__ second_state, const UpdateArgs args, double* report) {
  __shared__ StepNumbers shared_step;
  if (threadIdx.x == 0) {
    shared_step = step_numbers<kRule>(args, {1, args.step->updates, 0});
    if (blockIdx.x == 0) *report = 0;
  }
  __syncthreads();
  const StepNumbers step = shared_step;
  update_chunks<kRule>(weights, gradients, first_state, second_state, args, step, nullptr);
}

// Cooperative: no block updates anything before all have looked at their gradients.
template <Rule kRule>
__global__ void __launch_bounds__(kThreads, kBlocksResident)
    reduce_and_update(float* __restrict__ weights, const float* __restrict__ gradients, float* __restrict__ first_state,
                      float* __restrict__ second_state, const UpdateArgs args, const NormArgs norm) {
  reduce_gradients<kThreads>(weights, gradients, norm);
  __shared__ StepNumbers shared_step;
  if (threadIdx.x == 0) {
    shared_step = step_numbers<kRule>(args, *norm.decision);
    if (norm.local_rates != nullptr) shared_step.rate = -1;  // the velocity contains the learning rate
  }
  __syncthreads();
  const StepNumbers step = shared_step;
  update_chunks<kRule>(weights, gradients, first_state, second_state, args, step, norm.local_rates);
}

// Where the squares are given: one thread decides, and the update follows.
__global__ void decide_update(const float* squares, const NormArgs norm) {
  decide(norm, static_cast<double>(*squares));
}

template <Rule kRule>
__global__ void __launch_bounds__(kThreads, kBlocksResident)
    update_as_decided(float* __restrict__ weights, const float* __restrict__ gradients, float* __restrict__ first_state,
                      float* __restrict__ second_state, const UpdateArgs args, const UpdateDecision* decision) {
  __shared__ StepNumbers shared_step;
  if (threadIdx.x == 0) shared_step = step_numbers<kRule>(args, *decision);
  __syncthreads();
  const StepNumbers step = shared_step;
  update_chunks<kRule>(weights, gradients, first_state, second_state, args, step, nullptr);
}

struct UpdateKernels {
  void (*plain)(float*, const float*, float*, float*, UpdateArgs, double*);
  void (*reducing)(float*, const float*, float*, float*, UpdateArgs, NormArgs);
  void (*decided)(float*, const float*, float*, float*, UpdateArgs, const UpdateDecision*);
};
template <Rule kRule>
UpdateKernels kernels_of() {
  return {.plain = update<kRule>, .reducing = reduce_and_update<kRule>, .decided = update_as_decided<kRule>};
}
UpdateKernels kernels_for(const OptimizerUpdate& op) {
  if (op.args.kind == OptimizerKind::adam) return kernels_of<Rule::adam>();
  if (op.args.kind == OptimizerKind::adamw) return kernels_of<Rule::adamw>();
  if (op.args.kind == OptimizerKind::adagrad) return kernels_of<Rule::adagrad>();
  if (op.state_count() == 0) return kernels_of<Rule::plain>();
  return op.args.nesterov ? kernels_of<Rule::nesterov>() : kernels_of<Rule::momentum>();
}

class UpdateKernel final : public CudaKernel {
 public:
  explicit UpdateKernel(const KernelRequest& request)
      : CudaKernel(request),
        op_(op_as<OptimizerUpdate>(request)),
        kernels_(kernels_for(op_)),
        table_(op_.segments, *request.device),
        blocks_(static_cast<int>(blocks_for(std::int64_t{table_.chunk_count()} * kThreads, kThreads, device()))) {
    for (const ParameterSegment& segment : op_.segments)
      TRIFOLD_CHECK(segment.begin >= 0 && segment.end <= request.in[0].elements(), "a parameter at {} to {} of {}",
                    segment.begin, segment.end, request.in[0].elements());
    if (!GradientNorm::needed(op_)) return;
    norm_.emplace(op_, table_, device());
    if (GradientNorm::given(op_)) {
      TRIFOLD_CHECK(op_.args.kind != OptimizerKind::lars, "lars takes no squares");
      return;
    }
    blocks_ = std::max(1, std::min(table_.chunk_count(), resident_blocks(kernels_.reducing, kThreads, device())));
  }

  std::size_t scratch_bytes() const override { return norm_ ? norm_->scratch_bytes() : 0; }

  void run(const StepContext&) override {
    const auto states = static_cast<std::size_t>(op_.state_count());
    float* first_state = states > 0 ? out(1) : nullptr;
    float* second_state = states > 1 ? out(2) : nullptr;
    const UpdateArgs args{.chunks = table_.chunks(),
                          .chunk_count = table_.chunk_count(),
                          .step = step(),
                          .log_beta1 = std::log(op_.args.beta1),
                          .log_beta2 = std::log(op_.args.beta2),
                          .weight_decay = op_.args.weight_decay,
                          .momentum = Average(op_.args.momentum),
                          .mean_of = Average(op_.args.beta1),
                          .square_of = Average(op_.args.beta2),
                          .rest1 = static_cast<float>(1 - op_.args.beta1),
                          .rest2 = static_cast<float>(1 - op_.args.beta2),
                          .eps = static_cast<float>(op_.args.eps),
                          .initial_accumulator = static_cast<float>(op_.args.initial_accumulator)};
    auto* report = out<double>(states + (op_.scaling ? 2 : 1));
    if (norm_) {
      const NormArgs norm =
          norm_->args({.loss_scale = op_.scaling ? out(states + 1) : nullptr, .report = report, .scratch = scratch()});
      if (GradientNorm::given(op_)) {
        decide_update<<<1, 1, 0, stream()>>>(in(2 + states + (op_.scaling ? 1 : 0)), norm);
        check_launch("decide update");
        kernels_.decided<<<static_cast<unsigned>(blocks_), kThreads, 0, stream()>>>(out(0), in(1), first_state,
                                                                                    second_state, args, norm.decision);
        check_launch("optimizer update");
        return;
      }
      launch_cooperatively(kernels_.reducing, {.blocks = blocks_, .threads = kThreads}, stream(), out(0), in(1),
                           first_state, second_state, args, norm);
    } else {
      kernels_.plain<<<static_cast<unsigned>(blocks_), kThreads, 0, stream()>>>(out(0), in(1), first_state,
                                                                                second_state, args, report);
      check_launch("optimizer update");
    }
  }

 private:
  OptimizerUpdate op_;
  UpdateKernels kernels_;
  SegmentTable table_;
  int blocks_;
  std::optional<GradientNorm> norm_;  // where the update depends on all gradients
};

// Cooperative: blocks take chunks, and the one that finishes last adds them up in their order.
__global__ void __launch_bounds__(kThreads)
    gradient_squares(const float* __restrict__ gradients, const UpdateChunk* chunks, int chunk_count, double* by_chunk,
                     GridMeeting* meeting, float* squares) {
  for (int i = static_cast<int>(blockIdx.x); i < chunk_count; i += static_cast<int>(gridDim.x)) {
    const double sum = squares_of_chunk<kThreads>(gradients, chunks[i]);
    if (threadIdx.x == 0) by_chunk[i] = sum;
  }
  meet(*meeting, [&] {
    double sum = 0;
    for (int i = static_cast<int>(threadIdx.x); i < chunk_count; i += kThreads) sum += __ldcg(by_chunk + i);
    sum = block_sum<kThreads>(sum);
    if (threadIdx.x == 0) *squares = static_cast<float>(sum);
  });
}

class SquaresKernel final : public CudaKernel {
 public:
  explicit SquaresKernel(const KernelRequest& request)
      : CudaKernel(request),
        table_(op_as<GradientSquares>(request).segments, *request.device),
        blocks_(std::max(1, std::min(table_.chunk_count(), resident_blocks(gradient_squares, kThreads, device())))),
        meeting_(device(), sizeof(GridMeeting)) {
    device().clear(meeting_.data(), meeting_.bytes());
  }

  std::size_t scratch_bytes() const override { return static_cast<std::size_t>(table_.chunk_count()) * sizeof(double); }

  void run(const StepContext&) override {
    launch_cooperatively(gradient_squares, {.blocks = blocks_, .threads = kThreads}, stream(), in(0), table_.chunks(),
                         table_.chunk_count(), reinterpret_cast<double*>(scratch()),
                         reinterpret_cast<GridMeeting*>(meeting_.data()), out(0));
  }

 private:
  SegmentTable table_;
  int blocks_;
  DeviceMemory meeting_;  // GridMeeting
};

// sum = sum + gradients, or gradients alone.
template <bool kFirst>
__global__ void __launch_bounds__(kThreads)
    accumulate(float* __restrict__ sum, const float* __restrict__ gradients, std::int64_t elements) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads * 4;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * 4; i < elements; i += stride) {
    if (i + 4 <= elements) {
      Pack<float> g = load_pack(gradients + i);
      if constexpr (!kFirst) {
        const Pack<float> s = load_pack(sum + i);
#pragma unroll
        for (int k = 0; k < 4; ++k) g.values[k] += s.values[k];
      }
      store_pack(sum + i, g);
    } else {
      for (std::int64_t k = i; k < elements; ++k) sum[k] = kFirst ? gradients[k] : sum[k] + gradients[k];
    }
  }
}

class AccumulateKernel final : public CudaKernel {
 public:
  explicit AccumulateKernel(const KernelRequest& request)
      : CudaKernel(request), first_(op_as<AccumulateGradients>(request).first), elements_(request.in[0].elements()) {}

  void run(const StepContext&) override {
    if (elements_ == 0) return;
    const unsigned blocks = blocks_for((elements_ + 3) / 4, kThreads, device());
    if (first_)
      accumulate<true><<<blocks, kThreads, 0, stream()>>>(out(0), in(1), elements_);
    else
      accumulate<false><<<blocks, kThreads, 0, stream()>>>(out(0), in(1), elements_);
    check_launch("accumulate");
  }

 private:
  bool first_;
  std::int64_t elements_;
};

const RegisterKernel register_optimizer_update_kernel(cuda_backend(), "optimizer.update", make_kernel<UpdateKernel>);
const RegisterKernel register_optimizer_squares_kernel(cuda_backend(), "optimizer.squares", make_kernel<SquaresKernel>);
const RegisterKernel register_optimizer_accumulate_kernel(cuda_backend(), "optimizer.accumulate",
                                                          make_kernel<AccumulateKernel>);

}  // namespace
}  // namespace trifold::cuda
