#include "primitives_bound.h"

#include <chrono>
#include <map>

#include "core/aligned_memory.h"
#include "core/error.h"
#include "kernels/cpu/onednn.h"
#include "kernels/ops/linear.h"
#include "runtime/compiler/build_graph.h"
#include "runtime/compiler/layout_pass.h"
#include "runtime/train/model_options.h"

namespace trifold {
namespace {

using cpu::ConvPrimitive;
using cpu::InnerProductPrimitive;

constexpr int kRepeats = 4;

// Best of several runs.
double seconds_of(const cpu::Primitive& primitive) {
  primitive.execute();
  double best = 1e30;
  for (int i = 0; i < kRepeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    primitive.execute();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

AlignedMemory filled(std::size_t bytes) {
  AlignedMemory memory(bytes);
  auto* values = reinterpret_cast<float*>(memory.data());
  for (std::size_t i = 0; i < bytes / sizeof(float); ++i) values[i] = 0.01f * static_cast<float>(i % 97);
  return memory;
}

double conv_seconds(cpu::ConvProblem problem) {
  const AlignedMemory x = filled(problem.x.bytes());
  const AlignedMemory w = filled(problem.w.bytes());
  const AlignedMemory y = filled(problem.y.bytes());
  const AlignedMemory bias = filled(static_cast<std::size_t>(problem.w.shape[0]) * sizeof(float));
  double best = 1e30;
  for (const cpu::Conversion conversion : {cpu::Conversion::none, cpu::Conversion::weights, cpu::Conversion::all}) {
    problem.conversion = conversion;
    std::optional<ConvPrimitive> primitive = ConvPrimitive::create(problem);
    if (!primitive) continue;
    const AlignedMemory scratch(primitive->scratch_bytes() + 64);
    const auto at = [](const AlignedMemory& memory) { return reinterpret_cast<const float*>(memory.data()); };
    primitive->bind({.x = at(x), .w = at(w), .y = at(y), .bias = at(bias)}, scratch.data());
    best = std::min(best, seconds_of(*primitive));
  }
  TRIFOLD_CHECK(best < 1e30, "oneDNN has no convolution for {}", to_string(problem.w));
  return best;
}

double product_seconds(const cpu::InnerProductProblem& problem) {
  const auto bytes = [](std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(float); };
  const AlignedMemory x = filled(bytes(problem.batch * problem.in));
  const AlignedMemory w = filled(bytes(problem.out * problem.in));
  const AlignedMemory y = filled(bytes(problem.batch * problem.out));
  const AlignedMemory bias = filled(bytes(problem.out));
  std::optional<InnerProductPrimitive> primitive = InnerProductPrimitive::create(problem);
  TRIFOLD_CHECK(primitive.has_value(), "oneDNN has no inner product of {}x{}", problem.in, problem.out);
  const AlignedMemory scratch(primitive->scratch_bytes() + 64);
  const auto at = [](const AlignedMemory& memory) { return reinterpret_cast<const float*>(memory.data()); };
  primitive->bind({.x = at(x), .w = at(w), .y = at(y), .bias = at(bias)}, scratch.data());
  return seconds_of(*primitive);
}

}  // namespace

double primitives_bound_seconds(const Job& job) {
  const ModelOptions options = model_options(job);
  const ModelContext context{.batch = options.micro_batch(),
                             .global_batch = options.batch,
                             .bn_group = options.bn_group,
                             .classes = job.model.classes};
  const LaidOutGraph laid_out = choose_layouts(build_graph(job.model, context, Mode::train), *options.backend);
  std::map<std::string, double> known;  // equal nodes are timed once
  double total = 0;
  for (const Node& node : laid_out.graph.nodes) {
    const auto desc = [&](ValueId id) { return laid_out.descs[static_cast<std::size_t>(id)]; };
    const auto once = [&](auto&& measure) {
      std::string key = to_string(*node.op);
      for (const ValueId id : node.in) key += to_string(desc(id));
      const auto found = known.find(key);
      if (found != known.end()) return found->second;
      return known[key] = measure();
    };
    const auto product = [&](ProductPass pass, const TensorDesc& rows, const TensorDesc& w, bool bias) {
      return once([&] {
        return product_seconds({.pass = pass,
                                .batch = rows.shape[0],
                                .in = w.shape[1],
                                .out = w.shape[0],
                                .bias = bias,
                                .threads = options.threads});
      });
    };
    const auto conv = [&](ProductPass pass, ValueId x, ValueId w, ValueId y, const Conv2dArgs& args, bool bias) {
      return once([&] {
        cpu::ConvProblem problem;
        problem.pass = pass;
        problem.x = desc(x);
        problem.w = desc(w);
        problem.y = desc(y);
        problem.args = args;
        problem.bias = bias;
        problem.threads = options.threads;
        return conv_seconds(problem);
      });
    };
    if (const auto* forward = dynamic_cast<const Conv2dForward*>(node.op.get()))
      total += conv(ProductPass::forward, node.in[0], node.in[1], node.out[0], forward->args, forward->bias);
    else if (const auto* data = dynamic_cast<const Conv2dBackwardData*>(node.op.get()))
      total += conv(ProductPass::backward_data, node.out[0], node.in[1], node.in[0], data->args, false);
    else if (const auto* weights = dynamic_cast<const Conv2dBackwardWeights*>(node.op.get()))
      total += conv(ProductPass::backward_weights, node.in[0], node.out[0], node.in[1], weights->args, weights->bias);
    else if (const auto* linear = dynamic_cast<const LinearForward*>(node.op.get()))
      total += product(ProductPass::forward, desc(node.in[0]), desc(node.in[1]), linear->bias);
    else if (dynamic_cast<const LinearBackwardData*>(node.op.get()))
      total += product(ProductPass::backward_data, desc(node.in[0]), desc(node.in[1]), false);
    else if (const auto* product_weights = dynamic_cast<const LinearBackwardWeights*>(node.op.get()))
      total += product(ProductPass::backward_weights, desc(node.in[0]), desc(node.out[0]), product_weights->bias);
  }
  return total * static_cast<double>(options.accumulate);
}

}  // namespace trifold
