// From Graph to Program: fusion, recomputation, element types, layouts, kernels, memory, and the optimiser's update at
// the end.
#include <algorithm>

#include "core/error.h"
#include "kernels/ops/collective.h"
#include "runtime/compiler/add_update.h"
#include "runtime/compiler/fusion.h"
#include "runtime/compiler/partition_state.h"
#include "runtime/compiler/program_nodes.h"
#include "runtime/compiler/recompute_stage.h"
#include "runtime/compiler/split_backward.h"
#include "runtime/compiler/stash_weights.h"

namespace trifold {
namespace {

constexpr std::size_t kSmallScratch = std::size_t{64} << 20;

// Gradients are added up while backward work goes on where that is asked for, and where the last one of a bucket is the
// last of the update.
Replication replication_of(const CompileOptions& options) {
  Replication replication = options.replication;
  replication.aside = replication.aside && options.optimizer && replication.replicas > 1 && replication.zero == 0 &&
                      options.sync.exact() && !options.accumulate && !options.micro_batches.interleave &&
                      options.backend->supports(JoinSums{}.name());
  return replication;
}

struct PassReporter {
  const CompileOptions& options;

  void operator()(Pass pass, const Graph& graph) const {
    report_pass({.pass = pass, .graph = &graph, .options = &options}, options.observer);
  }
  void operator()(Pass pass, const LaidOutGraph& laid_out) const {
    report_pass({.pass = pass, .graph = &laid_out.graph, .laid_out = &laid_out, .options = &options}, options.observer);
  }
  void operator()(Pass pass, const Program& program, const GivenPlaces& given) const {
    report_pass({.pass = pass, .graph = &program.graph, .program = &program, .given = &given, .options = &options},
                options.observer);
  }
};

}  // namespace

Program compile(Graph graph, const CompileOptions& options) {
  TRIFOLD_CHECK(options.backend != nullptr, "compile needs a backend");
  const PassReporter report{options};
  report(Pass::stages, graph);
  if (options.fuse) graph = fuse(std::move(graph));
  report(Pass::fusion, graph);
  graph = recompute_activations(std::move(graph), options.recompute);
  report(Pass::recompute, graph);
  graph = assign_precision(std::move(graph), options.precision);
  report(Pass::precision, graph);
  LaidOutGraph laid_out = choose_layouts(std::move(graph), *options.backend, options.parameter_layouts);
  report(Pass::layouts, laid_out);
  if (options.recomputes_stage) {
    recompute_stage(laid_out);
    report(Pass::recompute_stage, laid_out);
  }
  if (options.micro_batches.splits_backward) {
    split_backward(laid_out);
    report(Pass::split_backward, laid_out);
  }

  Program program;
  program.flat = lay_out_flat(laid_out.graph, laid_out.descs, replication_of(options));
  GivenPlaces given = partition_state(laid_out, program.flat);
  if (options.stashes_weights) stash_weights(laid_out, program.flat, given);
  report(Pass::partition, laid_out);
  program.graph = std::move(laid_out.graph);
  program.descs = std::move(laid_out.descs);
  std::vector<std::size_t> scratch_bytes(program.graph.nodes.size(), 0);
  // Scratch shares the arena: a quarter of what the values need anyway costs little.
  const MemoryPlan values_only =
      plan_memory(program.graph, program.descs, scratch_bytes, program.flat, options.micro_batches, given);
  const std::size_t scratch_limit =
      std::max(kSmallScratch, (values_only.bytes(Region::arena) + values_only.bytes(Region::kept)) / 4);
  scratch_bytes.clear();
  for (const Node& node : program.graph.nodes) {
    program.kernels.push_back(make_kernel_for(program, node, options, scratch_limit));
    scratch_bytes.push_back(program.kernels.back() ? program.kernels.back()->scratch_bytes() : 0);
  }
  program.memory = plan_memory(program.graph, program.descs, scratch_bytes, program.flat, options.micro_batches, given);
  for (std::size_t node = 0; node < program.kernels.size(); ++node) place_lasting_memory(program, node);
  report(Pass::memory, program, given);
  program.updates_elsewhere = options.updates_elsewhere;
  if (!options.optimizer) return program;
  add_update(program, options);
  report(Pass::program, program, given);
  return program;
}

}  // namespace trifold
