#include "runtime/train/model.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "core/error.h"
#include "parallel/tensor/shard.h"
#include "runtime/compiler/build_graph.h"
#include "runtime/train/initialize.h"

namespace trifold {
namespace {

constexpr const char* kLossScaleName = "optimizer.loss_scale";

ModelContext context_for(const NetworkSpec& network, const ModelOptions& options, std::int64_t global_batch) {
  return {.batch = options.micro_batch(),
          .global_batch = global_batch,
          .bn_group = options.bn_group > 0 ? options.bn_group : options.batch / options.accumulate,
          .classes = network.classes,
          .class_weights = {},
          .prepare = options.prepare,
          .replicas = options.joined_replicas(),
          .replica = options.sync.local() ? 0 : options.place.data};
}

// This rank's part of the network.
Graph graph_for(const NetworkSpec& network, const ModelOptions& options, std::int64_t global_batch, Mode mode,
                const PassObserver& observer = nullptr) {
  const TensorPlan tensor{options.mesh.tensor, options.place.tensor, options.splits};
  Graph whole = build_graph(network, context_for(network, options, global_batch), mode, tensor, observer);
  return options.cut.parts > 1 ? graph_of_part(whole, options.cut, options.part) : std::move(whole);
}

std::vector<Axis> axes_that_divide_parameters(const Mesh& mesh) {
  std::vector<Axis> axes;
  for (const Axis axis : {Axis::tensor, Axis::pipeline})
    if (mesh.size(axis) > 1) axes.push_back(axis);
  return axes;
}

CompileOptions compile_options(const ModelOptions& options) {
  return {.backend = options.backend,
          .device = options.device,
          .threads = options.threads,
          .strict_math = options.strict_math,
          .fuse = options.fuse,
          .recompute = options.recompute,
          .recomputes_stage = options.recomputes_stage,
          .precision = {options.precision, std::nullopt},
          .optimizer = std::nullopt,
          .decay_all = options.decay_all,
          .replication = {.replicas = options.mesh.data,
                          .replica = options.place.data,
                          .zero = options.zero,
                          .aside = options.overlap_reduction,
                          .bucket_bytes = options.bucket_bytes},
          .sync = options.sync,
          .divides_parameters = axes_that_divide_parameters(options.mesh),
          .ranks = options.ranks};
}

}  // namespace

bool uses_precision(const NetworkSpec& network, const ModelOptions& options, DType type) {
  return options.precision == type || std::ranges::any_of(network.layers, [&](const LayerSpec& layer) {
           return layer.values.has("precision") && parse_precision(layer.values.text("precision")) == type;
         });
}

Program compile_training(const NetworkSpec& network, const ModelOptions& options) {
  CompileOptions compile_as = compile_options(options);
  compile_as.optimizer = options.optimizer;
  compile_as.updates_elsewhere = options.updates_elsewhere;
  compile_as.accumulate = options.accumulate > 1 && !options.updates_every_micro_batch;
  compile_as.stashes_weights = options.updates_every_micro_batch;
  // A single layer in f16 can lose its gradients too.
  if (uses_precision(network, options, DType::f16)) compile_as.precision.scaling = options.loss_scaling;
  compile_as.micro_batches = options.micro_batches;
  // Replicas that go their own ways average over their own samples, and what is an update over its own.
  const std::int64_t updates = options.updates_every_micro_batch ? options.accumulate : 1;
  const std::int64_t global_batch = options.batch / options.mesh.data * options.joined_replicas() / updates;
  compile_as.observer = options.observer;
  return compile(graph_for(network, options, global_batch, Mode::train, options.observer), compile_as);
}

// Reports of evaluation are means over the micro-batch that it runs.
Program compile_evaluation(const NetworkSpec& network, const ModelOptions& options, const Program& training) {
  CompileOptions compile_as = compile_options(options);
  compile_as.parameter_layouts = training.parameter_layouts();
  return compile(graph_for(network, options, options.micro_batch(), Mode::evaluate), compile_as);
}

Model make_model(const NetworkSpec& network, const ModelOptions& options) {
  Program training = compile_training(network, options);
  Program evaluation = compile_evaluation(network, options, training);
  return Model(options, std::move(training), std::move(evaluation));
}

Model::Model(const ModelOptions& options, Program training, Program evaluation)
    : state_names_(options.updates_elsewhere ? std::vector<std::string>{} : optimizer_state_names(options.optimizer)),
      loss_scaling_(options.loss_scaling) {
  // The two share the parameters in memory: they must lie the same way in both.
  TRIFOLD_CHECK(training.graph.parameters.size() == evaluation.graph.parameters.size(), "the programs differ");
  for (std::size_t i = 0; i < training.graph.parameters.size(); ++i) {
    const auto a = static_cast<std::size_t>(training.graph.parameters[i].value);
    const auto b = static_cast<std::size_t>(evaluation.graph.parameters[i].value);
    TRIFOLD_CHECK(training.descs[a] == evaluation.descs[b] && training.flat.offsets == evaluation.flat.offsets,
                  "'{}' lies differently in training and evaluation", training.graph.parameters[i].name);
  }
  const std::array<const Program*, 2> programs = {&training, &evaluation};
  memory_ = std::make_unique<ModelMemory>(*options.device, programs);
  training_ = std::make_unique<Executable>(std::move(training), *memory_);
  evaluation_ = std::make_unique<Executable>(std::move(evaluation), *memory_);
  flat_ = std::make_unique<FlatBuffers>(training_->program().flat, *memory_, options.ranks);
  training_->record_steps(options.graphs);
  evaluation_->record_steps(options.graphs);
}

std::int64_t Model::parameter_count() const {
  const Graph& graph = training_->program().graph;
  std::int64_t count = 0;
  for (const Parameter& parameter : graph.parameters)
    if (graph[parameter.value].role == Role::parameter) count += graph[parameter.value].shape.elements();
  return count;
}

void Model::initialize(std::uint64_t seed) {
  const Graph& graph = training_->program().graph;
  const std::vector<Entry> parameters = entries(Contents::model);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Shape shape = parameters[i].shard.whole_shape(graph[parameters[i].value].shape);
    write(parameters[i], initial_values(graph.parameters[i], shape, seed));
  }
  reset_loss_scale();
}

void Model::reset_loss_scale() {
  const ValueId scale = training_->program().graph.loss_scale;
  if (scale == kNoValue) return;
  std::vector<float> state(kLossScaleFloats, 0.0f);
  state[0] = static_cast<float>(loss_scaling_.initial);
  training_->write(scale, state);
}

std::optional<Model::LossScale> Model::loss_scale() const {
  const ValueId scale = training_->program().graph.loss_scale;
  if (scale == kNoValue) return std::nullopt;
  const std::vector<float> state = training_->read(scale);
  return LossScale{state[0], state[2]};
}

// In the order of parameters.
std::vector<Model::Entry> Model::entries(Contents contents) const {
  const Program& program = training_->program();
  const Graph& graph = program.graph;
  std::vector<Entry> found;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i) {
    const Parameter& parameter = graph.parameters[i];
    const auto flat = [&](const std::string& name, Region region, std::size_t base) {
      found.push_back({name, parameter.value, region, base, static_cast<int>(i), parameter.shard});
    };
    const bool trained = graph[parameter.value].role == Role::parameter;
    if (contents == Contents::gradients) {
      if (trained && parameter.gradient != kNoValue) flat(parameter.name, training_->summed_gradients(), 0);
      continue;
    }
    if (trained) {
      flat(parameter.name, Region::parameters, 0);
    } else {
      const Place& place = program.memory.places[static_cast<std::size_t>(parameter.value)];
      found.push_back({parameter.name, parameter.value, place.region, place.offset, -1, parameter.shard});
    }
    if (!trained || contents == Contents::model) continue;
    std::size_t base = 0;
    for (const std::string& state : state_names_) {
      flat("optimizer." + parameter.name + "." + state, Region::optimizer, base);
      base += program.flat.bytes_of(Region::optimizer);
    }
  }
  if (contents == Contents::model_and_optimizer && graph.loss_scale != kNoValue) {
    const Place& place = program.memory.places[static_cast<std::size_t>(graph.loss_scale)];
    found.push_back({kLossScaleName, graph.loss_scale, place.region, place.offset});
  }
  return found;
}

std::vector<Model::Held> Model::held() const {
  const Program& program = training_->program();
  TRIFOLD_CHECK(!flat_->in_parts(Region::parameters) && !flat_->in_parts(training_->summed_gradients()),
                "replicas keep parts of tensors");
  std::vector<Held> tensors;
  for (std::size_t i = 0; i < program.graph.parameters.size(); ++i) {
    const Parameter& parameter = program.graph.parameters[i];
    const bool trained = program.graph[parameter.value].role == Role::parameter && parameter.gradient != kNoValue;
    std::byte* gradient = trained ? memory_->region(training_->summed_gradients()) + program.flat.offsets[i] : nullptr;
    tensors.push_back({&parameter, &program.descs[static_cast<std::size_t>(parameter.value)],
                       training_->device_data(parameter.value), gradient});
  }
  return tensors;
}

// Of an entry that is whole here.
std::byte* Model::data(const Entry& entry) const {
  const FlatLayout& flat = training_->program().flat;
  const std::size_t offset = entry.parameter < 0 ? 0 : flat.offsets[static_cast<std::size_t>(entry.parameter)];
  return memory_->region(entry.region) + entry.base + offset;
}

void Model::write(const Entry& entry, std::span<const float> whole) const {
  const TensorDesc& desc = training_->program().descs[static_cast<std::size_t>(entry.value)];
  const std::vector<float> plain = take_shard(whole, entry.shard.whole_shape(desc.shape), entry.shard);
  std::vector<float> laid_out(plain.size());
  to_layout(plain, desc.shape, desc.layout, laid_out);
  if (entry.parameter >= 0)
    flat_->put(entry.region, entry.base, entry.parameter, laid_out);
  else
    memory_->device().upload(data(entry), laid_out.data(), desc.bytes());
}

void Model::Snapshot::join(Snapshot other) {
  for (const NamedTensor& tensor : other.tensors_) {
    const auto part = other.parts_.find(tensor.name);
    const bool known = std::ranges::any_of(tensors_, [&](const NamedTensor& mine) { return mine.name == tensor.name; });
    if (known && part != other.parts_.end()) put_together(tensor, part->second);
    if (known) continue;
    tensors_.push_back(tensor);
    if (part != other.parts_.end()) parts_.insert(*part);
  }
  // Vectors keep their memory when they move, and with it what the tensors view.
  std::ranges::move(other.storage_, std::back_inserter(storage_));
}

Shard Model::Snapshot::shard_of(const std::string& name) const {
  const auto part = parts_.find(name);
  return part == parts_.end() ? Shard{} : part->second;
}

void Model::Snapshot::add(const std::string& name, const Shape& shape, const Shard& shard, std::vector<float> part) {
  std::vector<float>& whole = storage_.emplace_back();
  if (shard.dim < 0) {
    whole = std::move(part);
  } else {
    whole.resize(static_cast<std::size_t>(shape.elements()));
    put_shard(part, shape, shard, whole);
    parts_.emplace(name, shard);
  }
  tensors_.push_back({name, shape, DType::f32, std::as_bytes(std::span<const float>(whole))});
}

void Model::Snapshot::own() {
  std::deque<std::vector<float>> owned;
  for (NamedTensor& tensor : tensors_) {
    const std::span<const float> values(reinterpret_cast<const float*>(tensor.data.data()),
                                        tensor.data.size() / sizeof(float));
    const auto mine = std::ranges::find_if(
        storage_, [&](const std::vector<float>& memory) { return memory.data() == values.data(); });
    std::vector<float>& memory = mine == storage_.end() ? owned.emplace_back(values.begin(), values.end())
                                                        : owned.emplace_back(std::move(*mine));
    tensor.data = std::as_bytes(std::span<const float>(memory));
  }
  storage_ = std::move(owned);
}

// `part` is whole but for the other ranks' zeros: its own run goes where it belongs.
void Model::Snapshot::put_together(const NamedTensor& part, const Shard& shard) {
  const auto mine = std::ranges::find_if(tensors_, [&](const NamedTensor& tensor) { return tensor.name == part.name; });
  const auto floats = [](const NamedTensor& tensor) {
    return std::span<const float>(reinterpret_cast<const float*>(tensor.data.data()),
                                  tensor.data.size() / sizeof(float));
  };
  const auto storage = std::ranges::find_if(
      storage_, [&](const std::vector<float>& values) { return values.data() == floats(*mine).data(); });
  TRIFOLD_CHECK(storage != storage_.end(), "'{}' is in parts but has no memory of its own", part.name);
  put_shard(take_shard(floats(part), part.shape, shard), part.shape, shard, *storage);
}

Model::Snapshot Model::snapshot(Contents contents) const {
  Snapshot snapshot;
  const Program& program = training_->program();
  std::map<std::pair<Region, std::size_t>, std::vector<float>> gathered;  // buffers of which replicas have parts
  for (const Entry& entry : entries(contents)) {
    const TensorDesc& desc = program.descs[static_cast<std::size_t>(entry.value)];
    const auto elements = static_cast<std::size_t>(desc.elements());
    std::span<const float> values;
    const auto own_copy = [&]() -> std::vector<float>& { return snapshot.storage_.emplace_back(elements); };
    if (entry.parameter >= 0 && flat_->in_parts(entry.region)) {
      const auto [buffer, added] = gathered.try_emplace({entry.region, entry.base});
      if (added) buffer->second = flat_->gather(entry.region, entry.base);
      if (buffer->second.empty()) continue;  // the first replica has it
      const std::size_t first = program.flat.offsets[static_cast<std::size_t>(entry.parameter)] / sizeof(float);
      std::vector<float>& copy = own_copy();
      std::copy_n(buffer->second.data() + first, elements, copy.data());
      values = copy;
    } else if (memory_->device().host_memory()) {
      values = {reinterpret_cast<const float*>(data(entry)), elements};
    } else {
      std::vector<float>& copy = own_copy();
      memory_->device().download(copy.data(), data(entry), desc.bytes());
      values = copy;
    }
    if (!desc.layout.plain()) {
      std::vector<float>& copy = own_copy();
      to_plain(values, desc.shape, desc.layout, copy);
      values = copy;
    }
    const Shape shape = entry.shard.whole_shape(desc.shape);
    if (entry.shard.dim >= 0) {
      std::vector<float>& whole = snapshot.storage_.emplace_back(static_cast<std::size_t>(shape.elements()));
      put_shard(values, shape, entry.shard, whole);
      values = whole;
      snapshot.parts_.emplace(entry.name, entry.shard);
    }
    snapshot.tensors_.push_back({entry.name, shape, DType::f32, std::as_bytes(values)});
  }
  return snapshot;
}

void Model::load(const SafetensorsFile& file, Contents contents) {
  const Program& program = training_->program();
  for (const Entry& entry : entries(contents)) {
    const NamedTensor* tensor = file.find(entry.name);
    if (tensor == nullptr && entry.name == kLossScaleName) {
      reset_loss_scale();  // the checkpoint was made in another precision
      continue;
    }
    if (tensor == nullptr) fail_input("the checkpoint has no tensor '{}': it belongs to another network", entry.name);
    const Shape shape = entry.shard.whole_shape(program.descs[static_cast<std::size_t>(entry.value)].shape);
    if (tensor->shape != shape || tensor->dtype != DType::f32)
      fail_input("the checkpoint's '{}' is {} {}, this network's is f32 {}", entry.name, name_of(tensor->dtype),
                 to_string(tensor->shape), to_string(shape));
    std::vector<float> whole(static_cast<std::size_t>(shape.elements()));
    std::memcpy(whole.data(), tensor->data.data(), tensor->data.size());
    write(entry, whole);
  }
}

}  // namespace trifold
