#include "networks/plain_network.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "kernels/backend.h"
#include "kernels/ops/loss.h"
#include "runtime/compiler/build_graph.h"
#include "runtime/compiler/program.h"
#include "runtime/train/job_data.h"

namespace trifold::test {
namespace {

bool is_float(DType type) {
  return type == DType::f32 || type == DType::f64;
}

Graph plain_graph(const Job& job, std::int64_t micro_batch, Mode mode) {
  ModelContext context;
  context.batch = micro_batch;
  // Reports of evaluation are means over what it runs.
  context.global_batch = mode == Mode::train ? job.train.batch : micro_batch;
  context.bn_group = job.train.bn_group;
  context.classes = job.model.classes;
  if (program_prepares_images(job))
    context.prepare = preparation_of(job.data.source.input, job.data.normalize, job.data.augment);
  return build_graph(job.model, context, mode);
}

}  // namespace

// --- one graph

PlainProgram::PlainProgram(Graph graph)
    : graph_(std::move(graph)), floats_(graph_.values.size()), others_(graph_.values.size()) {
  for (std::size_t i = 0; i < graph_.values.size(); ++i) {
    const Value& value = graph_.values[i];
    const auto elements = static_cast<std::size_t>(value.shape.elements());
    // NaN, so that a value that no node writes is noticed.
    if (is_float(value.dtype))
      floats_[i].assign(elements, std::numeric_limits<double>::quiet_NaN());
    else
      others_[i].resize(elements * size_of(value.dtype));
  }
  const auto descs = [&](const std::vector<ValueId>& ids) {
    std::vector<TensorDesc> found;
    for (const ValueId id : ids) {
      const DType type = graph_[id].dtype;
      found.push_back({graph_[id].shape, is_float(type) ? DType::f64 : type, {}});
    }
    return found;
  };
  for (const Node& node : graph_.nodes) {
    Step& step = steps_.emplace_back();
    if (node.op->is_view()) continue;
    const std::vector<TensorDesc> in = descs(node.in);
    const std::vector<TensorDesc> out = descs(node.out);
    step.kernel = reference_backend().make({.op = *node.op, .in = in, .out = out});
    step.scratch.resize(step.kernel->scratch_bytes());
    std::vector<std::byte*> in_data;
    std::vector<std::byte*> out_data;
    for (const ValueId id : node.in) in_data.push_back(data(id));
    for (const ValueId id : node.out) out_data.push_back(data(id));
    step.kernel->bind(in_data, out_data, step.scratch.data());
  }
}

std::byte* PlainProgram::data(ValueId id) {
  const auto index = static_cast<std::size_t>(id);
  return is_float(graph_[id].dtype) ? reinterpret_cast<std::byte*>(floats_[index].data()) : others_[index].data();
}

void PlainProgram::fill_inputs(const Batch& batch, std::int64_t first) {
  const auto samples_of = [&](ValueId id, const auto& from, auto* to) {
    const std::int64_t elements = graph_[id].shape.elements();
    const std::int64_t each = elements / graph_[id].shape[0];
    std::copy_n(from.begin() + first * each, elements, to);
  };
  if (graph_[graph_.images].dtype == DType::u8)
    samples_of(graph_.images, batch.raw, reinterpret_cast<std::uint8_t*>(data(graph_.images)));
  else
    samples_of(graph_.images, batch.images, floats(graph_.images).data());
  if (graph_.labels != kNoValue)
    samples_of(graph_.labels, batch.labels, reinterpret_cast<std::int32_t*>(data(graph_.labels)));
  if (graph_.targets != kNoValue) samples_of(graph_.targets, batch.targets, floats(graph_.targets).data());
}

void PlainProgram::run(const StepContext& context, Rounding* rounding, Kinks* kinks, int pass) {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Node& node = graph_.nodes[i];
    if (!steps_[i].kernel) {
      floats(node.out[0]) = floats(node.in[0]);
      continue;
    }
    if (kinks != nullptr && Kinks::has_kink(*node.op)) kinks->see(graph_, pass, i, floats(node.in[0]));
    if (rounding == nullptr) {
      steps_[i].kernel->run(context);
      continue;
    }
    const auto kept = rounding->disturb_inputs(graph_, pass, i, floats_);
    steps_[i].kernel->run(context);
    for (const auto& [id, values] : kept) floats(id) = values;
    rounding->disturb_outputs(graph_, node, floats_);
  }
}

// --- a network

PlainNetwork::PlainNetwork(const Job& job, int micro_batches)
    : job_(job),
      micro_batches_(micro_batches),
      micro_batch_(job.train.batch / micro_batches),
      training_(plain_graph(job, micro_batch_, Mode::train)),
      evaluation_(plain_graph(job, micro_batch_, Mode::evaluate)) {}

void PlainNetwork::load(PlainProgram& program, const Tensors& model) {
  for (const Parameter& parameter : program.graph().parameters)
    program.floats(parameter.value) = model.at(parameter.name);
}

PlainNetwork::Pass PlainNetwork::train(const Tensors& model, const Batch& batch, StepContext context,
                                       Rounding* rounding, Kinks* kinks) {
  load(training_, model);
  const Graph& graph = training_.graph();
  context.mean_class_weight = mean_class_weight(batch);
  Pass pass;
  for (int i = 0; i < micro_batches_; ++i) {
    training_.fill_inputs(batch, i * micro_batch_);
    context.first_sample = batch.first_sample + i * micro_batch_;
    training_.run(context, rounding, kinks, i);
    pass.loss += training_.floats(graph.report)[0];
    pass.correct += training_.floats(graph.report)[1];
    for (const Parameter& parameter : graph.parameters) {
      if (parameter.gradient == kNoValue) continue;
      const std::vector<double>& part = training_.floats(parameter.gradient);
      std::vector<double>& sum = pass.gradients[parameter.name];
      sum.resize(part.size());
      std::ranges::transform(sum, part, sum.begin(), std::plus<>());
    }
  }
  for (const Parameter& parameter : graph.parameters)
    if (graph[parameter.value].role == Role::state) pass.states[parameter.name] = training_.floats(parameter.value);
  return pass;
}

double PlainNetwork::mean_class_weight(const Batch& batch) const {
  for (const Node& node : training_.graph().nodes) {
    const auto* loss = dynamic_cast<const CrossEntropy*>(node.op.get());
    if (loss == nullptr || loss->class_weights.empty()) continue;
    double sum = 0;
    for (const std::int32_t label : batch.labels) sum += loss->class_weights[static_cast<std::size_t>(label)];
    return sum / static_cast<double>(batch.labels.size());
  }
  return 1;
}

std::vector<double> PlainNetwork::evaluate(const Tensors& model, const Batch& batch, Rounding* rounding) {
  load(evaluation_, model);
  evaluation_.fill_inputs(batch, 0);
  evaluation_.run({}, rounding, nullptr, 0);
  return evaluation_.floats(evaluation_.graph().output);
}

Tensors PlainNetwork::update(const Tensors& model, const Tensors& gradients, const StepContext& context,
                             double norm_factor) const {
  const std::vector<std::string> state_names = optimizer_state_names(job_.train.optimizer);
  OptimizerUpdate op;
  op.args = job_.train.optimizer;
  op.args.clip_norm *= norm_factor;
  std::vector<std::vector<double>> flat(2 + state_names.size());  // parameters, gradients, state
  std::vector<std::string> names;
  const auto append = [](std::vector<double>& to, const std::vector<double>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const Parameter& parameter : training_.graph().parameters) {
    if (parameter.gradient == kNoValue) continue;
    const auto begin = static_cast<std::int64_t>(flat[0].size());
    append(flat[0], model.at(parameter.name));
    append(flat[1], gradients.at(parameter.name));
    for (std::size_t i = 0; i < state_names.size(); ++i)
      append(flat[2 + i], model.at("optimizer." + parameter.name + "." + state_names[i]));
    op.segments.push_back({begin, static_cast<std::int64_t>(flat[0].size()), parameter.decay || job_.train.decay_bias});
    names.push_back(parameter.name);
  }
  const TensorDesc desc{Shape{static_cast<std::int64_t>(flat[0].size())}, DType::f64, {}};
  std::vector<TensorDesc> in(flat.size(), desc);
  std::vector<TensorDesc> out(flat.size() - 1, desc);
  out.push_back({Shape{1}, DType::f64, {}});
  double norm = 0;
  std::vector<std::byte*> in_data;
  std::vector<std::byte*> out_data;
  for (std::size_t i = 0; i < flat.size(); ++i) {
    in_data.push_back(reinterpret_cast<std::byte*>(flat[i].data()));
    if (i != 1) out_data.push_back(in_data.back());
  }
  out_data.push_back(reinterpret_cast<std::byte*>(&norm));
  const KernelPtr kernel = reference_backend().make({.op = op, .in = in, .out = out});
  std::vector<std::byte> scratch(kernel->scratch_bytes());
  kernel->bind(in_data, out_data, scratch.data());
  kernel->run(context);
  Tensors result;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto part = [&](const std::vector<double>& all) {
      return std::vector<double>(all.begin() + op.segments[i].begin, all.begin() + op.segments[i].end);
    };
    result[names[i]] = part(flat[0]);
    for (std::size_t state = 0; state < state_names.size(); ++state)
      result["optimizer." + names[i] + "." + state_names[state]] = part(flat[2 + state]);
  }
  return result;
}

}  // namespace trifold::test
