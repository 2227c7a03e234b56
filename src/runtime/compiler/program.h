// The compiled job of one rank: ordered nodes with every layout, kernel and place in memory decided.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/ops/collective.h"
#include "kernels/ops/optimizer.h"
#include "layers/graph.h"
#include "parallel/data/gradient_sync.h"
#include "runtime/compiler/flat_layout.h"
#include "runtime/compiler/layout_pass.h"
#include "runtime/compiler/memory_plan.h"
#include "runtime/compiler/passes.h"
#include "runtime/compiler/precision.h"
#include "runtime/compiler/recompute.h"

namespace trifold {

struct CompileOptions {
  const Backend* backend = nullptr;
  Device* device = &host_device();
  int threads = 1;
  bool strict_math = false;
  bool fuse = true;
  Recompute recompute = Recompute::cheap;
  bool recomputes_stage = false;  // forward work is repeated for backward work
  Precision precision = {};
  std::optional<OptimizerArgs> optimizer;   // training: adds the update
  bool updates_elsewhere = false;           // training: gradients are made and added up, and that is all
  bool decay_all = false;                   // weight decay on biases and batch norm too
  ParameterLayouts parameter_layouts = {};  // chosen by a program that shares the parameters
  bool accumulate = false;                  // gradients are summed over micro-batches before the update
  MicroBatches micro_batches = {};          // that are under way at once
  bool stashes_weights = false;             // each of them reads the weights it began with
  Replication replication = {};             // gradients are summed over replicas too
  GradientSync sync = {};                   // how
  std::vector<Axis> divides_parameters;     // ranks along these have other parameters
  const RankGroups* ranks = nullptr;        // whom collectives reach; null: the program is only looked at
  PassObserver observer = nullptr;          // sees what each pass makes
};

struct Program {
  Graph graph;
  std::vector<TensorDesc> descs;   // one a value
  std::vector<KernelPtr> kernels;  // one a node; null for views
  MemoryPlan memory;
  FlatLayout flat;  // of parameters, gradients and the optimiser's state
  bool updates_elsewhere = false;

  ParameterLayouts parameter_layouts() const;
  std::vector<TensorDesc> descs_of(const std::vector<ValueId>& ids) const;
  double flops(const Node& node) const { return node.op->flops(descs_of(node.in), descs_of(node.out)); }
  double bytes_moved(const Node& node) const;
};

Program compile(Graph graph, const CompileOptions& options);

// The names of the optimiser's state tensors, in order: "momentum"; "accumulator"; "moment1", "moment2".
std::vector<std::string> optimizer_state_names(const OptimizerArgs& args);

std::string to_string(const Program& program);  // nodes with layouts, implementations and places: for --dump

}  // namespace trifold
