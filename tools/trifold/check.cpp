// trifold check job.json: validates, and prints the layers with shapes, parameters, FLOPs and bytes, the exact memory
// that each rank will take, and what the ranks exchange, before anything runs. With --pass it prints what one pass of
// the compiler made instead.
#include <array>
#include <cstdlib>
#include <map>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "core/error.h"
#include "job_arguments.h"
#include "kernels/ops/collective.h"
#include "layers/layer_figures.h"
#include "parallel/processes/launch.h"
#include "parallel/rank_placement.h"
#include "runtime/cluster/partial_sync.h"
#include "runtime/compiler/build_graph.h"
#include "runtime/compiler/passes.h"
#include "runtime/config/nearest_name.h"
#include "runtime/train/model_options.h"
#include "runtime/train/parallel_plan.h"
#include "runtime/train/shard_data.h"

namespace trifold {
namespace {

using Json = nlohmann::ordered_json;

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

// What a rank exchanges in one step.
struct CollectiveRow {
  std::string op;     // "all_reduce tensor"
  std::string layer;  // empty: the gradients of all
  const char* phase = "";
  std::size_t bytes = 0;   // of the tensor, each time
  double sent = 0;         // bytes that leave this rank, each time
  std::int64_t times = 1;  // a step
};

struct RankRow {
  int rank = 0;
  std::string name;  // "rank 1 (dp 0, pp 1, tp 0)"
  std::size_t region_bytes[kRegions] = {};
  std::size_t bytes = 0;
  std::vector<CollectiveRow> collectives;
  std::vector<std::string> programs;
  std::map<std::string, std::size_t> saved_bytes;  // by parameter: what a checkpoint holds of it
};

std::vector<CollectiveRow> collectives_of(const Program& program, const ParallelPlan& plan) {
  const auto bytes_of = [&](const std::vector<ValueId>& values) {
    double bytes = 0;
    for (const ValueId id : values) bytes += static_cast<double>(program.descs[static_cast<std::size_t>(id)].bytes());
    return bytes;
  };
  std::vector<CollectiveRow> rows;
  for (const Node& node : program.graph.nodes) {
    const auto* exchange = dynamic_cast<const Exchange*>(node.op.get());
    if (exchange == nullptr) continue;
    const ValueId value = node.in.empty() ? node.out[0] : node.in[0];
    rows.push_back({.op = to_string(*node.op),
                    .layer = node.layer < 0 ? "" : program.graph.layers[static_cast<std::size_t>(node.layer)].id,
                    .phase = name_of(node.phase),
                    .bytes = program.descs[static_cast<std::size_t>(value)].bytes(),
                    .sent = exchange->sent_bytes(bytes_of(node.in), bytes_of(node.out), plan.mesh.size(exchange->axis)),
                    .times = node.phase == Phase::update ? 1 : plan.pipeline.micro_batches});
  }
  return rows;
}

// Whole tensors, whatever part of them this rank has: parameters, their optimiser state, and what batch norm keeps.
void add_saved_bytes(const Program& program, const OptimizerArgs& optimizer,
                     std::map<std::string, std::size_t>& saved) {
  for (const Parameter& parameter : program.graph.parameters) {
    const bool trained = program.graph[parameter.value].role == Role::parameter;
    const auto elements =
        static_cast<std::size_t>(parameter.whole_shape(program.graph[parameter.value].shape).elements());
    saved[parameter.name] = elements * sizeof(float) * (trained ? 1 + optimizer_state_names(optimizer).size() : 1);
  }
  if (const ValueId scale = program.graph.loss_scale; scale != kNoValue)
    saved["loss_scale"] = program.descs[static_cast<std::size_t>(scale)].bytes();
}

// The copy that process 0 holds while a checkpoint is written.
std::size_t checkpoint_bytes(const std::vector<RankRow>& ranks) {
  std::map<std::string, std::size_t> saved;
  for (const RankRow& rank : ranks) saved.insert(rank.saved_bytes.begin(), rank.saved_bytes.end());
  std::size_t bytes = 0;
  for (const auto& [name, each] : saved) bytes += each;
  return bytes;
}

// Replicas do the same: one of them is compiled.
std::vector<RankRow> rank_rows(const Job& job, const ModelOptions& options, const ParallelPlan& plan, bool dump) {
  std::vector<RankRow> rows;
  for (int rank = 0; rank < plan.mesh.size(); ++rank) {
    const MeshPlace place = place_of(plan.mesh, rank);
    if (place.data > 0) {
      RankRow like = rows[static_cast<std::size_t>(rank_of(plan.mesh, {0, place.pipeline, place.tensor}))];
      like.rank = rank;
      like.name = fmt::format("rank {} (dp {}, pp {}, tp {})", rank, place.data, place.pipeline, place.tensor);
      rows.push_back(std::move(like));
      continue;
    }
    RankRow row;
    row.rank = rank;
    row.name = fmt::format("rank {} (dp {}, pp {}, tp {})", rank, place.data, place.pipeline, place.tensor);
    for (const ModelOptions& chunk : plan.rank_options(options, nullptr, rank)) {
      const Program training = compile_training(job.model, chunk);
      const Program evaluation = compile_evaluation(job.model, chunk, training);
      const std::array<const Program*, 2> programs = {&training, &evaluation};
      for (int region = 1; region < kRegions; ++region)
        row.region_bytes[region] +=
            std::max(training.memory.region_bytes[region], evaluation.memory.region_bytes[region]);
      row.bytes += planned_bytes(programs);
      for (CollectiveRow& collective : collectives_of(training, plan)) row.collectives.push_back(std::move(collective));
      add_saved_bytes(training, chunk.optimizer, row.saved_bytes);
      if (dump) row.programs.push_back(to_string(training));
      check_memory(job, chunk, programs);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

struct CheckCommand {
  JobArguments job;
  bool program = false;
  std::string pass;
  int shown_rank = 0;  // whose graph or program after the pass
  int processes = 0;   // 0: those that were started

  // Of several processes the first one speaks.
  void run() const {
    const Launch launch = find_launch([](const char* variable) -> const char* { return std::getenv(variable); });
    if (launch.rank > 0) return;
    const std::optional<Pass> wanted = wanted_pass();
    const Job whole = job.load();
    const Job loaded = whole.plan.servers ? shard_job(whole) : whole;  // of a worker, then
    const RankPlacement placement = processes > 0 ? place_ranks(mesh_of(loaded.plan), processes, "--processes")
                                                  : place_ranks(mesh_of(loaded.plan), launch.size, launch.starter);
    const ModelOptions options = model_options(loaded);
    const ParallelPlan plan = make_parallel_plan(loaded, options, measure_for_stages(loaded, options));
    if (wanted) return print_pass(*wanted, loaded, options, plan);
    const ModelContext context{.batch = options.batch / plan.pipeline.micro_batches,
                               .global_batch = options.batch,
                               .bn_group = options.bn_group,
                               .classes = loaded.model.classes};
    const std::vector<LayerFigures> rows = layer_figures(build_graph(loaded.model, context, Mode::train));
    const std::string turns = whole.plan.servers ? turns_of(whole, rows) : "";
    const std::vector<RankRow> ranks = rank_rows(loaded, options, plan, program);
    if (job.json)
      print_json(rows, ranks, plan, placement);
    else
      print_table(context, rows, ranks, plan, placement);
    if (options.prepare && !job.json)
      fmt::print("images come as raw bytes and are augmented and normalised on {}\n", options.device->name());
    if (whole.plan.servers && !job.json) fmt::print("a worker's share is shown; {}", describe_division(whole));
    if (!turns.empty() && !job.json) fmt::print("{}\n", turns);
    for (const RankRow& rank : ranks)
      for (const std::string& text : rank.programs) fmt::print("\n{}:\n{}", rank.name, text);
    std::fflush(stdout);
  }

  std::optional<Pass> wanted_pass() const {
    if (pass.empty()) return std::nullopt;
    const std::optional<Pass> wanted = parse_pass(pass);
    if (!wanted)
      fail_input("--pass {}: there is no such pass{} (known: {})", pass, did_you_mean(pass, pass_names()),
                 comma_list(pass_names()));
    return wanted;
  }

  // The graph or program of one rank after a pass; of a stage with several chunks, those of all of them.
  void print_pass(Pass wanted, const Job& loaded, const ModelOptions& options, const ParallelPlan& plan) const {
    if (shown_rank >= plan.mesh.size())
      fail_input("--rank {}: the plan has {} rank{}, counted from 0", shown_rank, plan.mesh.size(),
                 plan.mesh.size() == 1 ? "" : "s");
    std::vector<std::string> texts;
    std::vector<std::string> ran;
    for (ModelOptions& chunk : plan.rank_options(options, nullptr, shown_rank)) {
      ran.clear();
      chunk.observer = [&](const PassResult& result) {
        ran.push_back(name_of(result.pass));
        if (result.pass == wanted) texts.push_back(to_string(result));
      };
      compile_training(loaded.model, chunk);
    }
    if (texts.empty()) fail_input("--pass {}: this plan has no such pass; it runs {}", pass, comma_list(ran));
    for (std::size_t chunk = 0; chunk < texts.size(); ++chunk) {
      if (texts.size() > 1) fmt::print("{}chunk {}:\n", chunk > 0 ? "\n" : "", chunk);
      fmt::print("{}", texts[chunk]);
    }
    std::fflush(stdout);
  }

  // Which layers are synchronised when; an Error where plan.sync names none such.
  static std::string turns_of(const Job& job, const std::vector<LayerFigures>& rows) {
    std::vector<ServedTensor> tensors;
    for (const LayerFigures& row : rows)
      if (row.parameters > 0) tensors.push_back({.name = row.id + ".parameters", .elements = row.parameters});
    assign_turns(tensors, *job.plan.servers, {1}, job.file.string());
    return describe_turns(std::move(tensors));
  }

  static Json regions_of(const RankRow& rank) {
    Json regions = Json::object();
    for (int region = 1; region < kRegions; ++region)
      if (rank.region_bytes[region] > 0) regions[name_of(static_cast<Region>(region))] = rank.region_bytes[region];
    return regions;
  }

  static void print_json(const std::vector<LayerFigures>& rows, const std::vector<RankRow>& ranks,
                         const ParallelPlan& plan, const RankPlacement& placement) {
    Json layers = Json::array();
    for (const LayerFigures& row : rows)
      layers.push_back({{"id", row.id},
                        {"type", row.type},
                        {"shape", dims_of(row.shape)},
                        {"parameters", row.parameters},
                        {"flops", row.forward_flops},
                        {"training_flops", row.training_flops},
                        {"activation_bytes", row.activation_bytes}});
    Json collectives = Json::array();
    Json planned = Json::array();
    Json memory = Json::array();
    for (const RankRow& rank : ranks) {
      planned.push_back(rank.bytes);
      memory.push_back(regions_of(rank));
      for (const CollectiveRow& each : rank.collectives)
        collectives.push_back({{"rank", rank.rank},
                               {"op", each.op},
                               {"layer", each.layer},
                               {"phase", each.phase},
                               {"bytes", each.bytes},
                               {"sent_bytes", each.sent},
                               {"times", each.times}});
    }
    Json process_of_rank = Json::array();
    for (const RankRow& rank : ranks) process_of_rank.push_back(placement.process_of(rank.rank));
    const Json json = {{"layers", layers},
                       {"plan", to_string(plan.mesh)},
                       {"process_of_rank", process_of_rank},
                       {"stages", plan.layers_of_part},
                       {"collectives", collectives},
                       {"memory", regions_of(ranks.front())},
                       {"memory_by_rank", memory},
                       {"planned_bytes", planned},
                       {"checkpoint_bytes", checkpoint_bytes(ranks)}};
    fmt::print("{}\n", json.dump());
  }

  static void print_table(const ModelContext& context, const std::vector<LayerFigures>& rows,
                          const std::vector<RankRow>& ranks, const ParallelPlan& plan, const RankPlacement& placement) {
    std::size_t id_width = 5;
    for (const LayerFigures& row : rows) id_width = std::max(id_width, row.id.size());
    fmt::print("{:<{}}  {:<22} {:>18} {:>12} {:>12} {:>12}\n", "layer", id_width, "type", "output", "parameters",
               "FLOPs", "activation");
    std::int64_t parameters = 0;
    double forward = 0;
    double training = 0;
    std::size_t activations = 0;
    for (const LayerFigures& row : rows) {
      fmt::print("{:<{}}  {:<22} {:>18} {:>12} {:>12} {:>12}\n", row.id, id_width, row.type, to_string(row.shape),
                 row.parameters, scaled(row.forward_flops), bytes_text(row.activation_bytes));
      parameters += row.parameters;
      forward += row.forward_flops;
      training += row.training_flops;
      activations += row.activation_bytes;
    }
    fmt::print(
        "\n{} parameters; {}FLOP forward, {}FLOP a training step of {} samples; {} of activations without reuse\n",
        parameters, scaled(forward), scaled(training), context.batch, bytes_text(activations));
    if (placement.processes > 1) fmt::print("{}\n", to_string(placement));
    if (plan.cut.parts > 1) print_stages(rows, plan);
    for (const RankRow& rank : ranks) {
      fmt::print("memory{}, exactly:", ranks.size() > 1 ? " of " + rank.name : "");
      for (int region = 1; region < kRegions; ++region)
        if (rank.region_bytes[region] > 0)
          fmt::print(" {} {},", name_of(static_cast<Region>(region)), bytes_text(rank.region_bytes[region]));
      fmt::print(" together {}\n", bytes_text(rank.bytes));
    }
    fmt::print("a checkpoint: {}, copied while it is written\n", bytes_text(checkpoint_bytes(ranks)));
    for (const RankRow& rank : ranks) print_collectives(rank);
  }

  static void print_stages(const std::vector<LayerFigures>& rows, const ParallelPlan& plan) {
    std::size_t at = 0;
    for (std::size_t part = 0; part < plan.layers_of_part.size(); ++part) {
      const auto count = static_cast<std::size_t>(plan.layers_of_part[part]);
      double flops = 0;
      for (std::size_t i = at; i < at + count; ++i) flops += rows[i].training_flops;
      double repeated = 0;
      if (plan.recomputes[part])
        for (std::size_t i = at; i < at + count; ++i) repeated += rows[i].forward_flops;
      fmt::print("stage {}: {} layers, '{}' to '{}', {}FLOP a micro-batch{}\n", part, count, rows[at].id,
                 rows[at + count - 1].id, scaled(flops),
                 repeated > 0 ? fmt::format(" and {}FLOP again, recomputing", scaled(repeated)) : "");
      at += count;
    }
  }

  static void print_collectives(const RankRow& rank) {
    if (rank.collectives.empty()) return;
    double bytes = 0;
    double sent = 0;
    std::size_t op_width = 24;
    for (const CollectiveRow& each : rank.collectives) op_width = std::max(op_width, each.op.size());
    fmt::print("{} exchanges, a step:\n", rank.name);
    for (const CollectiveRow& each : rank.collectives) {
      fmt::print("  {:<{}} {:<2} {:<28} {:>10} x {}, {}B sent\n", each.op, op_width, each.phase,
                 each.layer.empty() ? "all gradients" : each.layer, bytes_text(each.bytes), each.times,
                 scaled(each.sent));
      bytes += static_cast<double>(each.bytes) * static_cast<double>(each.times);
      sent += each.sent * static_cast<double>(each.times);
    }
    fmt::print("  {}B in {} exchanges, {}B sent\n", scaled(bytes), rank.collectives.size(), scaled(sent));
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
  sub->add_option("--pass", command->pass,
                  "prints the graph or program after this pass, and nothing else: " + comma_list(pass_names()));
  sub->add_option("--rank", command->shown_rank, "the rank whose graph --pass prints (default: 0)")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--processes", command->processes,
                  "shows how the ranks lie on so many processes (default: those that mpirun or srun started)")
      ->check(CLI::PositiveNumber);
  sub->callback([command] { command->run(); });
}

}  // namespace trifold
