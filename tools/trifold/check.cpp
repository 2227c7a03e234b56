// trifold check job.json: validates, and prints the layers with shapes, parameters, FLOPs and bytes, and the exact
// memory the job will take, before anything runs.
#include <array>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "job_arguments.h"
#include "runtime/train/model_options.h"

namespace trifold {
namespace {

using Json = nlohmann::ordered_json;

struct LayerRow {
  std::string id;
  std::string type;
  Shape shape;
  std::int64_t parameters = 0;
  double forward_flops = 0;
  double training_flops = 0;         // forward and both gradients
  std::size_t activation_bytes = 0;  // of its output
};

// Numbers of the unfused graph: what the network is, not how it is run.
std::vector<LayerRow> rows_of(const Graph& graph) {
  std::vector<LayerRow> rows;
  for (const LayerInfo& layer : graph.layers) {
    LayerRow row{layer.id, layer.type, graph[layer.out].shape};
    for (const int index : layer.parameters) {
      const Value& value = graph[graph.parameters[static_cast<std::size_t>(index)].value];
      if (value.role == Role::parameter) row.parameters += value.shape.elements();
    }
    row.activation_bytes = TensorDesc{row.shape, graph[layer.out].dtype, {}}.bytes();
    rows.push_back(row);
  }
  const auto descs = [&](const std::vector<ValueId>& ids) {
    std::vector<TensorDesc> found;
    for (const ValueId id : ids) found.push_back({graph[id].shape, graph[id].dtype, {}});
    return found;
  };
  for (const Node& node : graph.nodes) {
    if (node.op->is_view()) continue;
    const double flops = node.op->flops(descs(node.in), descs(node.out));
    LayerRow& row = rows[static_cast<std::size_t>(node.layer)];
    row.training_flops += flops;
    if (node.phase == Phase::forward) row.forward_flops += flops;
  }
  return rows;
}

std::string scaled(double value) {
  if (value >= 1e9) return fmt::format("{:.2f} G", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.2f} M", value / 1e6);
  if (value >= 1e3) return fmt::format("{:.1f} k", value / 1e3);
  return fmt::format("{:.0f} ", value);
}

std::string bytes_text(std::size_t bytes) {
  return scaled(static_cast<double>(bytes)) + "B";
}

Json dims_of(const Shape& shape) {
  Json dims = Json::array();
  for (int dim = 0; dim < shape.rank(); ++dim) dims.push_back(shape[dim]);
  return dims;
}

struct CheckCommand {
  JobArguments job;
  bool program = false;

  void run() const {
    const Job loaded = job.load();
    const ModelOptions options = model_options(loaded);
    const ModelContext context{.batch = options.micro_batch(),
                               .global_batch = options.batch,
                               .bn_group = options.bn_group,
                               .classes = loaded.model.classes};
    const std::vector<LayerRow> rows = rows_of(build_graph(loaded.model, context, Mode::train));
    const Program training = compile_training(loaded.model, options);
    const Program evaluation = compile_evaluation(loaded.model, options, training);
    const std::array<const Program*, 2> programs = {&training, &evaluation};
    if (job.json)
      print_json(rows, programs);
    else
      print_table(loaded, rows, programs);
    if (options.prepare && !job.json)
      fmt::print("images come as raw bytes and are augmented and normalised on {}\n", options.device->name());
    if (program) fmt::print("\n{}", to_string(training));
    std::fflush(stdout);
    check_memory(loaded, *options.device, programs);
  }

  static void print_json(const std::vector<LayerRow>& rows, std::span<const Program* const> programs) {
    Json layers = Json::array();
    for (const LayerRow& row : rows)
      layers.push_back({{"id", row.id},
                        {"type", row.type},
                        {"shape", dims_of(row.shape)},
                        {"parameters", row.parameters},
                        {"flops", row.forward_flops},
                        {"training_flops", row.training_flops},
                        {"activation_bytes", row.activation_bytes}});
    Json regions = Json::object();
    for (int region = 1; region < kRegions; ++region) {
      const auto which = static_cast<Region>(region);
      std::size_t bytes = 0;
      for (const Program* each : programs) bytes = std::max(bytes, each->memory.bytes(which));
      if (bytes > 0) regions[name_of(which)] = bytes;
    }
    const Json json = {{"layers", layers},
                       {"collectives", Json::array()},
                       {"memory", regions},
                       {"planned_bytes", Json::array({planned_bytes(programs)})}};
    fmt::print("{}\n", json.dump());
  }

  static void print_table(const Job& loaded, const std::vector<LayerRow>& rows,
                          std::span<const Program* const> programs) {
    std::size_t id_width = 5;
    for (const LayerRow& row : rows) id_width = std::max(id_width, row.id.size());
    fmt::print("{:<{}}  {:<22} {:>18} {:>12} {:>12} {:>12}\n", "layer", id_width, "type", "output", "parameters",
               "FLOPs", "activation");
    std::int64_t parameters = 0;
    double forward = 0;
    double training = 0;
    std::size_t activations = 0;
    for (const LayerRow& row : rows) {
      fmt::print("{:<{}}  {:<22} {:>18} {:>12} {:>12} {:>12}\n", row.id, id_width, row.type, to_string(row.shape),
                 row.parameters, scaled(row.forward_flops), bytes_text(row.activation_bytes));
      parameters += row.parameters;
      forward += row.forward_flops;
      training += row.training_flops;
      activations += row.activation_bytes;
    }
    fmt::print(
        "\n{} parameters; {}FLOP forward, {}FLOP a training step of {} samples; {} of activations without reuse\n",
        parameters, scaled(forward), scaled(training), loaded.train.micro_batch(), bytes_text(activations));
    fmt::print("memory, exactly:");
    for (int region = 1; region < kRegions; ++region) {
      const auto which = static_cast<Region>(region);
      std::size_t bytes = 0;
      for (const Program* each : programs) bytes = std::max(bytes, each->memory.bytes(which));
      if (bytes > 0) fmt::print(" {} {},", name_of(which), bytes_text(bytes));
    }
    fmt::print(" together {}\n", bytes_text(planned_bytes(programs)));
  }
};

}  // namespace

void add_check_command(CLI::App& app) {
  auto command = std::make_shared<CheckCommand>();
  CLI::App* sub = app.add_subcommand(
      "check", "validates a job and shows its layers and memory: trifold check models/resnet50.json");
  command->job.declare(*sub);
  sub->add_flag("--program", command->program,
                "prints the compiled program too: every step, its kernel and its memory");
  sub->callback([command] { command->run(); });
}

}  // namespace trifold
