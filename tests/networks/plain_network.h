// A network as it is described, with none of the compiler's passes: the layers' own ops one after the other, each value
// in memory of its own, by the reference kernels, in double precision. What generated jobs are compared with.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "layers/graph.h"
#include "networks/rounding.h"
#include "runtime/config/job.h"
#include "runtime/data/loader.h"

namespace trifold::test {

using Tensors = std::map<std::string, std::vector<double>>;  // by the names that checkpoints use

// The nodes of one graph, ready to run.
class PlainProgram {
 public:
  explicit PlainProgram(Graph graph);

  const Graph& graph() const { return graph_; }
  std::vector<double>& floats(ValueId id) { return floats_[static_cast<std::size_t>(id)]; }
  void fill_inputs(const Batch& batch, std::int64_t first);

  // With `rounding`, as a computation that rounds might turn out.
  void run(const StepContext& context, Rounding* rounding, Kinks* kinks, int pass);

 private:
  std::byte* data(ValueId id);

  Graph graph_;
  std::vector<std::vector<double>> floats_;     // values in f32 and f64
  std::vector<std::vector<std::byte>> others_;  // the rest: labels, bytes, places of maxima
  struct Step {
    KernelPtr kernel;  // null: a view
    std::vector<std::byte> scratch;
  };
  std::vector<Step> steps_;
};

class PlainNetwork {
 public:
  // `micro_batches`: the parts in which the batch is done, one after the other.
  PlainNetwork(const Job& job, int micro_batches);

  struct Pass {
    double loss = 0;
    double correct = 0;
    Tensors gradients;
    Tensors states;  // of layers, after it
  };
  Pass train(const Tensors& model, const Batch& batch, StepContext context, Rounding* rounding = nullptr,
             Kinks* kinks = nullptr);

  // The scores that the loss reads, for the samples of one micro-batch.
  std::vector<double> evaluate(const Tensors& model, const Batch& batch, Rounding* rounding = nullptr);

  // Parameters and the optimiser's state after an update by these gradients. `norm_factor`: the norm that clips them is
  // this much too small.
  Tensors update(const Tensors& model, const Tensors& gradients, const StepContext& context,
                 double norm_factor = 1) const;

  // The mean class weight of the labels of a whole batch: StepContext::mean_class_weight.
  double mean_class_weight(const Batch& batch) const;

  const Graph& training_graph() const { return training_.graph(); }
  std::int64_t micro_batch() const { return micro_batch_; }

 private:
  static void load(PlainProgram& program, const Tensors& model);

  Job job_;
  int micro_batches_;
  std::int64_t micro_batch_;  // samples
  PlainProgram training_;
  PlainProgram evaluation_;
};

}  // namespace trifold::test
