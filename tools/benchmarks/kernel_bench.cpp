// Micro-benchmarks of single kernels (Google Benchmark): an op of the CPU backend on exact tensors, in GFLOP/s and
// GB/s.
//   build/release/kernel_bench --benchmark_filter=conv
#include <map>
#include <memory>

#include <benchmark/benchmark.h>

#include "core/aligned_memory.h"
#include "core/parallel.h"
#include "kernels/backend.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/conv2d.h"
#include "kernels/ops/pooling.h"

namespace trifold {
namespace {

// An op with its tensors in the layouts the backend wants, ready to run.
class BoundKernel {
 public:
  BoundKernel(const Op& op, std::vector<TensorDesc> in, std::vector<TensorDesc> out)
      : in_(std::move(in)), out_(std::move(out)) {
    // Twice: the choice may depend on the layouts that producers would have chosen.
    for (int round = 0; round < 2; ++round) {
      const LayoutChoice choice = cpu_backend().choose_layouts(op, in_, out_);
      for (std::size_t i = 0; i < in_.size(); ++i) in_[i].layout = choice.in[i];
      for (std::size_t i = 0; i < out_.size(); ++i) out_[i].layout = choice.out[i];
    }
    kernel_ = cpu_backend().make({.op = op, .in = in_, .out = out_, .threads = thread_count()});
    std::vector<std::byte*> in_memory;
    std::vector<std::byte*> out_memory;
    for (const TensorDesc& desc : in_) in_memory.push_back(take(desc.bytes()));
    for (const TensorDesc& desc : out_) out_memory.push_back(take(desc.bytes()));
    kernel_->bind(in_memory, out_memory, take(kernel_->scratch_bytes()));
    flops_ = op.flops(in_, out_);
  }

  void run(benchmark::State& state) {
    for (auto _ : state) kernel_->run({});
    const auto per_second = benchmark::Counter::kIsIterationInvariantRate;
    state.counters["FLOP/s"] = benchmark::Counter(flops_, per_second);
    state.counters["B/s"] = benchmark::Counter(static_cast<double>(bytes_), per_second);
    state.SetLabel(kernel_->implementation());
  }

 private:
  std::byte* take(std::size_t bytes) {
    memory_.emplace_back(bytes + 64);
    bytes_ += bytes;
    return memory_.back().data();
  }

  std::vector<TensorDesc> in_;
  std::vector<TensorDesc> out_;
  std::vector<AlignedMemory> memory_;
  KernelPtr kernel_;
  double flops_ = 0;
  std::size_t bytes_ = 0;
};

struct ConvCase {
  std::int64_t batch, in, size, out, kernel, stride, pad;
};

void conv_benchmarks(const char* network, const ConvCase& c) {
  const std::int64_t extent = conv_out_extent(c.size, c.kernel, c.stride, c.pad, 1);
  const TensorDesc x{{c.batch, c.in, c.size, c.size}};
  const TensorDesc w{{c.out, c.in, c.kernel, c.kernel}};
  const TensorDesc y{{c.batch, c.out, extent, extent}};
  Conv2dArgs args;
  args.stride = {c.stride, c.stride};
  args.pad = {c.pad, c.pad};
  const auto add = [&](const char* pass, const auto& op, std::vector<TensorDesc> in, std::vector<TensorDesc> out) {
    const std::string name = fmt::format("conv2d.{}/{}/{}->{} k{} s{} {}x{}", pass, network, c.in, c.out, c.kernel,
                                         c.stride, c.size, c.size);
    benchmark::RegisterBenchmark(name.c_str(), [op, in, out](benchmark::State& state) {
      BoundKernel(op, in, out).run(state);
    })->UseRealTime();
  };
  Conv2dForward forward;
  forward.args = args;
  add("forward", forward, {x, w}, {y});
  if (c.in > 4) {
    Conv2dBackwardData data;
    data.args = args;
    add("backward_data", data, {y, w}, {x});
  }
  Conv2dBackwardWeights weights;
  weights.args = args;
  add("backward_weights", weights, {x, y}, {w});
}

void batch_norm_benchmarks() {
  const TensorDesc x{{16, 64, 112, 112}};
  const TensorDesc channel{{64}};
  const TensorDesc statistics{{1, 64}};
  const auto add = [](const char* name, const auto& op, std::vector<TensorDesc> in, std::vector<TensorDesc> out) {
    benchmark::RegisterBenchmark(name, [op, in, out](benchmark::State& state) {
      BoundKernel(op, in, out).run(state);
    })->UseRealTime();
  };
  BatchNormStatistics statistics_op;
  statistics_op.group = 16;
  add("batch_norm.statistics", statistics_op, {x, channel, channel}, {statistics, statistics, channel, channel});
  BatchNormApply apply;
  apply.group = 16;
  apply.relu = true;
  add("batch_norm.apply", apply, {x, statistics, statistics, channel, channel}, {x});
  BatchNormBackwardReduce reduce;
  reduce.group = 16;
  reduce.mask = ReluMask::from_x;
  add("batch_norm.backward_reduce", reduce, {x, x, statistics, statistics, channel, channel},
      {statistics, statistics, channel, channel});
  BatchNormBackwardInput input;
  input.group = 16;
  input.mask = ReluMask::from_x;
  add("batch_norm.backward_input", input, {x, x, statistics, statistics, channel, channel, statistics, statistics},
      {x});
}

}  // namespace
}  // namespace trifold

int main(int argc, char** argv) {
  using trifold::conv_benchmarks;
  conv_benchmarks("tutorial", {128, 1, 28, 32, 3, 1, 0});
  conv_benchmarks("tutorial", {128, 32, 26, 64, 3, 1, 0});
  conv_benchmarks("resnet20", {128, 16, 32, 16, 3, 1, 1});
  conv_benchmarks("resnet20", {128, 32, 16, 32, 3, 1, 1});
  conv_benchmarks("resnet20", {128, 64, 8, 64, 3, 1, 1});
  conv_benchmarks("resnet50", {16, 3, 224, 64, 7, 2, 3});
  conv_benchmarks("resnet50", {16, 64, 56, 64, 3, 1, 1});
  conv_benchmarks("resnet50", {16, 256, 14, 1024, 1, 1, 0});
  conv_benchmarks("vgg11", {16, 256, 56, 256, 3, 1, 1});
  trifold::batch_norm_benchmarks();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
