#include "insight/report/network_picture.h"

#include <set>
#include <unordered_map>

#include "kernels/ops/activation.h"
#include "layers/layer_figures.h"
#include "parallel/mesh.h"
#include "runtime/compiler/build_graph.h"
#include "runtime/train/model_options.h"
#include "runtime/train/parallel_plan.h"

namespace trifold {
namespace {

using ReportJson = nlohmann::ordered_json;

// Without the batch: that is the job's, not the network's.
ReportJson sample_shape(const Shape& shape) {
  ReportJson dims = ReportJson::array();
  for (int dim = 1; dim < shape.rank(); ++dim) dims.push_back(shape[dim]);
  return dims;
}

// A value comes from the layer that wrote it last: layers that work in place have their own.
ReportJson layers_json(const Graph& graph) {
  std::unordered_map<ValueId, std::string> made_by = {{graph.images, "input"}};
  const std::vector<LayerFigures> figures = layer_figures(graph);
  std::set<int> activations;  // indices of layers
  for (const Node& node : graph.nodes)
    if (dynamic_cast<const ActivationForward*>(node.op.get()) != nullptr) activations.insert(node.layer);
  ReportJson layers = ReportJson::array();
  for (std::size_t i = 0; i < figures.size(); ++i) {
    ReportJson in = ReportJson::array();
    for (const ValueId value : graph.layers[i].in)
      if (const auto maker = made_by.find(value); maker != made_by.end()) in.push_back(maker->second);
    made_by[graph.layers[i].out] = figures[i].id;
    layers.push_back({{"id", figures[i].id},
                      {"type", figures[i].type},
                      {"family", activations.contains(static_cast<int>(i)) ? "activation" : ""},
                      {"in", std::move(in)},
                      {"shape", sample_shape(figures[i].shape)},
                      {"parameters", figures[i].parameters},
                      {"flops", figures[i].forward_flops}});
  }
  return layers;
}

// Which stage has a layer, and how tensor ranks divide it: seen by the part of the parameters that one of them has.
void add_plan(const Job& job, ReportJson& picture) {
  const ParallelPlan plan = make_parallel_plan(job, model_options(job));
  ReportJson& layers = picture["layers"];
  if (plan.mesh.pipeline > 1)
    for (std::size_t i = 0; i < layers.size() && i < plan.cut.part_of_layer.size(); ++i)
      layers[i]["stage"] = plan.cut.part_of_layer[i] % plan.mesh.pipeline;
  if (plan.mesh.tensor == 1) return;
  const Graph part = build_graph(job.model,
                                 {.batch = job.train.batch / plan.pipeline.micro_batches / plan.mesh.data,
                                  .global_batch = job.train.batch,
                                  .bn_group = job.train.bn_group,
                                  .classes = job.model.classes,
                                  .replicas = job.plan.sync.local() ? 1 : plan.mesh.data},
                                 Mode::train, {plan.mesh.tensor, 0, plan.splits});
  for (std::size_t i = 0; i < part.layers.size() && i < layers.size(); ++i) {
    if (i < plan.splits.size() && plan.splits[i]) layers[i]["split"] = name_of(*plan.splits[i]);
    for (const int index : part.layers[i].parameters) {
      const Shard& shard = part.parameters[static_cast<std::size_t>(index)].shard;
      if (shard.columns > 1)
        layers[i]["split"] = name_of(LayerSplit::blocks);
      else if (shard.dim >= 0 && shard.count > 1 && !layers[i].contains("split"))
        layers[i]["split"] = name_of(shard.dim == 0 ? LayerSplit::out_channels : LayerSplit::in_channels);
    }
  }
}

}  // namespace

ReportJson network_picture(const Job& job) {
  const Graph graph = build_graph(job.model,
                                  {.batch = job.train.batch,
                                   .global_batch = job.train.batch,
                                   .bn_group = job.train.batch,  // shapes do not depend on it
                                   .classes = job.model.classes},
                                  Mode::train);
  ReportJson picture = {{"input", {job.model.input[0], job.model.input[1], job.model.input[2]}},
                        {"layers", layers_json(graph)},
                        {"plan", to_string(mesh_of(job.plan))},
                        {"stages", job.plan.pp}};
  if (mesh_of(job.plan).size() == 1) return picture;
  if (job.plan.measures_stages) {
    picture["note"] = "stages were balanced by measured times, which are not kept: they are not shown";
    return picture;
  }
  try {
    add_plan(job, picture);
  } catch (const Error& error) {
    picture["note"] = error.what();
  }
  return picture;
}

}  // namespace trifold
