// trifold schedule: a pipeline's schedule as text and as a picture, with its bubble and what each stage must hold,
// before any device is needed.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commands.h"
#include "parallel/pipeline/pipeline_svg.h"
#include "runtime/checkpoint/atomic_file.h"

namespace trifold {
namespace {

struct ScheduleCommand {
  std::string name{kDefaultSchedule};
  Pipeline pipeline{.stages = 4, .micro_batches = 8};
  std::vector<double> costs = {1, 1, 1};
  std::filesystem::path svg;

  void run() {
    pipeline.schedule = &pipeline_schedule(name);
    const StageCost cost{costs[0], costs[1], costs[2]};
    const Timeline timeline = play(pipeline, std::vector<StageCost>(static_cast<std::size_t>(pipeline.stages), cost));
    const double unit = std::min({cost.forward, cost.input_gradient, cost.weight_gradient}) / pipeline.chunks;
    fmt::print("{}\n", to_text(timeline, unit));
    fmt::print("bubble: {:.1f} % of the work, {:.1f} % of the step\n", 100 * timeline.bubble(),
               100 * timeline.bubble() / (1 + timeline.bubble()));
    fmt::print("held: {} micro-batches{} by stages 0 to {}\n", fmt::join(timeline.held, ", "),
               pipeline.chunks > 1 ? " of a chunk" : "", pipeline.stages - 1);
    if (pipeline.schedule->updates_every_micro_batch) print_staleness();
    if (svg.empty()) return;
    write_file_atomically(svg, to_svg(timeline, pipeline));
    fmt::print("drawn in {}\n", svg.string());
  }

  void print_staleness() const {
    std::vector<int> stalest;
    for (int stage = 0; stage < pipeline.stages; ++stage)
      stalest.push_back(std::ranges::max(staleness_of(pipeline, stage)));
    fmt::print("staleness: gradients are of weights at most {} updates old at stages 0 to {}\n",
               fmt::join(stalest, ", "), pipeline.stages - 1);
  }
};

}  // namespace

void add_schedule_command(CLI::App& app) {
  auto command = std::make_shared<ScheduleCommand>();
  CLI::App* sub =
      app.add_subcommand("schedule", "shows the order of a pipeline's work: trifold schedule 1f1b --stages 4");
  sub->add_option("name", command->name, fmt::format("one of the schedules below (default {})", kDefaultSchedule));
  sub->add_option("--stages", command->pipeline.stages, "pipeline stages (default 4)");
  sub->add_option("--micro-batches", command->pipeline.micro_batches, "parts of a batch (default 8)");
  sub->add_option(
      "--chunks", command->pipeline.chunks,
      fmt::format("chunks of layers per stage, for {} (default 1)", fmt::join(chunked_schedule_names(), " or ")));
  sub->add_option("--costs", command->costs, "of forward, input gradient, weight gradient (default 1,1,1)")
      ->delimiter(',')
      ->expected(3)
      ->check(CLI::PositiveNumber);
  sub->add_option("--svg", command->svg, "draws it into this file");
  std::string list = "Schedules:";
  for (const PipelineSchedule& schedule : pipeline_schedules())
    list += fmt::format("\n  {:<16}{}", schedule.name, schedule.help);
  sub->footer(list);
  sub->callback([command] { command->run(); });
}

}  // namespace trifold
