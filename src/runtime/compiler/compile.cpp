// From Graph to Program: fusion, recomputation, element types, layouts, kernels, memory, and the optimiser's update at
// the end.
#include <algorithm>

#include "kernels/ops/collective.h"
#include "runtime/compiler/fusion.h"
#include "runtime/compiler/program.h"
#include "runtime/compiler/split_backward.h"
#include "runtime/core/error.h"

namespace trifold {
namespace {

constexpr std::size_t kSmallScratch = std::size_t{64} << 20;

KernelPtr make_kernel_for(const Program& program, const Node& node, const CompileOptions& options,
                          std::size_t scratch_limit = 0) {
  if (node.op->is_view()) return nullptr;
  const std::vector<TensorDesc> in = program.descs_of(node.in);
  const std::vector<TensorDesc> out = program.descs_of(node.out);
  return options.backend->make({.op = *node.op,
                                .in = in,
                                .out = out,
                                .threads = options.threads,
                                .strict_math = options.strict_math,
                                .scratch_limit = scratch_limit,
                                .device = options.device,
                                .ranks = options.ranks});
}

ValueId add_placed_value(Program& program, Value value, Place place) {
  program.descs.push_back({value.shape, value.dtype, {}});
  program.memory.places.push_back(place);
  return program.graph.add_value(std::move(value));
}

// Kernels that keep memory from step to step have it apart from the arena.
void place_lasting_memory(Program& program) {
  std::size_t& used = program.memory.region_bytes[static_cast<int>(Region::messages)];
  for (std::size_t i = 0; i < program.kernels.size(); ++i) {
    if (!program.kernels[i] || program.kernels[i]->lasting_bytes() == 0) continue;
    TRIFOLD_CHECK(program.kernels[i]->scratch_bytes() == 0, "a kernel has scratch or lasting memory, not both");
    program.memory.scratch_offset[i] = used;
    used += program.kernels[i]->lasting_bytes();
  }
}

// The update comes after everything else: the whole arena is free for its scratch.
void add_node(Program& program, Node node, const CompileOptions& options) {
  program.kernels.push_back(make_kernel_for(program, node, options));
  std::size_t& arena = program.memory.region_bytes[static_cast<int>(Region::arena)];
  arena = std::max(arena, program.kernels.back()->scratch_bytes());
  program.memory.scratch_offset.push_back(0);
  program.graph.nodes.push_back(std::move(node));
}

// The update runs over flat buffers that hold every parameter: it is added when their size is known.
void add_update(Program& program, const CompileOptions& options) {
  MemoryPlan& memory = program.memory;
  const std::size_t flat_bytes = memory.bytes(Region::parameters);
  const Shape flat{static_cast<std::int64_t>(flat_bytes / sizeof(float))};

  OptimizerUpdate update;
  update.args = *options.optimizer;
  update.scaling = options.precision.scaling;
  for (const Parameter& parameter : program.graph.parameters) {
    const Place& place = memory.places[static_cast<std::size_t>(parameter.value)];
    if (place.region != Region::parameters) continue;
    const auto begin = static_cast<std::int64_t>(place.offset / sizeof(float));
    update.segments.push_back(
        {begin, begin + static_cast<std::int64_t>(place.bytes / sizeof(float)), parameter.decay || options.decay_all});
  }

  const auto flat_value = [&](const std::string& name, Role role, Region region, std::size_t offset) {
    return add_placed_value(program, {name, flat, DType::f32, role}, {region, offset, flat_bytes});
  };
  const ValueId parameters = flat_value("parameters", Role::parameter, Region::parameters, 0);
  ValueId gradients = flat_value("gradients", Role::parameter_gradient, Region::gradients, 0);
  if (options.accumulate) {
    const ValueId sum = flat_value("accumulated", Role::parameter_gradient, Region::accumulated, 0);
    memory.region_bytes[static_cast<int>(Region::accumulated)] = flat_bytes;
    for (const bool first : {true, false}) {
      AccumulateGradients op;
      op.first = first;
      add_node(program, {std::make_shared<const AccumulateGradients>(op), {sum, gradients}, {sum}, Phase::update, -1},
               options);
    }
    gradients = sum;
  }
  if (options.replicas > 1)
    add_node(program, {std::make_shared<const AllReduce>(), {gradients}, {gradients}, Phase::update, -1}, options);
  std::vector<ValueId> in = {parameters, gradients};
  std::vector<ValueId> out = {parameters};
  for (const std::string& name : optimizer_state_names(update.args)) {
    std::size_t& used = memory.region_bytes[static_cast<int>(Region::optimizer)];
    const ValueId state = flat_value("optimizer." + name, Role::state, Region::optimizer, used);
    used += flat_bytes;
    in.push_back(state);
    out.push_back(state);
  }
  if (program.graph.loss_scale != kNoValue) {
    in.push_back(program.graph.loss_scale);
    out.push_back(program.graph.loss_scale);
  }
  std::size_t& reports = memory.region_bytes[static_cast<int>(Region::reports)];
  out.push_back(add_placed_value(program, {"gradient norm", Shape{1}, DType::f64, Role::report},
                                 {Region::reports, reports, sizeof(double)}));
  reports += 64;
  add_node(program, {std::make_shared<const OptimizerUpdate>(update), in, out, Phase::update, -1}, options);
}

}  // namespace

Program compile(Graph graph, const CompileOptions& options) {
  TRIFOLD_CHECK(options.backend != nullptr, "compile needs a backend");
  if (options.fuse) graph = fuse(std::move(graph));
  graph = recompute_activations(std::move(graph), options.recompute);
  graph = assign_precision(std::move(graph), options.precision);
  LaidOutGraph laid_out = choose_layouts(std::move(graph), *options.backend, options.parameter_layouts);
  if (options.micro_batches.splits_backward) split_backward(laid_out);

  Program program;
  program.graph = std::move(laid_out.graph);
  program.descs = std::move(laid_out.descs);
  std::vector<std::size_t> scratch_bytes(program.graph.nodes.size(), 0);
  // Scratch shares the arena: a quarter of what the values need anyway costs little.
  const MemoryPlan values_only = plan_memory(program.graph, program.descs, scratch_bytes, options.micro_batches);
  const std::size_t scratch_limit =
      std::max(kSmallScratch, (values_only.bytes(Region::arena) + values_only.bytes(Region::kept)) / 4);
  scratch_bytes.clear();
  for (const Node& node : program.graph.nodes) {
    program.kernels.push_back(make_kernel_for(program, node, options, scratch_limit));
    scratch_bytes.push_back(program.kernels.back() ? program.kernels.back()->scratch_bytes() : 0);
  }
  program.memory = plan_memory(program.graph, program.descs, scratch_bytes, options.micro_batches);
  place_lasting_memory(program);
  if (options.optimizer) add_update(program, options);
  return program;
}

std::vector<std::string> optimizer_state_names(const OptimizerArgs& args) {
  OptimizerUpdate update;
  update.args = args;
  switch (update.state_count()) {
    case 0:
      return {};
    case 1:
      return {"momentum"};
    default:
      return {"moment1", "moment2"};
  }
}

}  // namespace trifold
