#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "insight/compare/report.h"

namespace trifold {
namespace {

// Rows of cells, the first row being the header. Texts stand left, numbers right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header, std::size_t texts = 1) : texts_(texts) {
    rows_.push_back(std::move(header));
  }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() == 1; }

  std::string text() const {
    std::vector<std::size_t> widths(rows_.front().size());
    for (const std::vector<std::string>& row : rows_)
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    std::string text;
    for (const std::vector<std::string>& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i)
        line += i < texts_ ? fmt::format("{:<{}}  ", row[i], widths[i]) : fmt::format("{:>{}}  ", row[i], widths[i]);
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
  }

 private:
  std::size_t texts_;
  std::vector<std::vector<std::string>> rows_;
};

std::string rate_text(double value) {
  return fmt::format("{:.{}f}", value, value < 100 ? 1 : 0);
}

std::string ms_text(double value) {
  return fmt::format("{:.2f}", value);
}

std::string percent_text(double value) {
  return fmt::format("{:.0f} %", 100 * value);
}

std::string mb_text(double bytes) {
  return fmt::format("{:.2f}", bytes / 1e6);
}

std::string mb_text(std::size_t bytes) {
  return mb_text(static_cast<double>(bytes));
}

std::string difference_text(double value) {
  return value == 0 ? "0" : fmt::format("{:.1e}", value);
}

std::string heading(const Comparison& found) {
  std::string text = fmt::format("{}: {} plan{}, {} steps of {} images each, in {} round{}; {} core{}\n", found.job,
                                 found.plans.size(), found.plans.size() == 1 ? "" : "s", found.steps, found.batch,
                                 found.rounds, found.rounds == 1 ? "" : "s", found.cores, found.cores == 1 ? "" : "s");
  if (!found.has_batch_norm) return text;
  text += fmt::format("batch norm takes {} sample{} together in every plan", found.bn_group,
                      found.bn_group == 1 ? "" : "s");
  if (found.bn_group == found.asked_group) return text + ", as the job asks\n";
  return text + fmt::format(": the largest group that each can honour (the job asks for {})\n", found.asked_group);
}

std::string speed_table(const Comparison& found) {
  TextTable table({"plan", "images/s", "spread", "speed-up", "efficiency", "step ms", "compute", "comm.", "bubble",
                   "input", "optimizer"});
  for (const PlanResult& plan : found.plans) {
    const StepSplit& step = plan.step_ms;
    const auto part = [&](double ms) { return plan.divided ? ms_text(ms) : std::string("-"); };
    table.add({plan.plan, rate_text(plan.images_per_s), percent_text(plan.spread), fmt::format("{:.2f}", plan.speedup),
               percent_text(plan.efficiency), ms_text(step.sum()), part(step.compute), part(step.exposed_comm),
               part(step.bubble), plan.served ? "-" : ms_text(step.input), part(step.optimizer)});
  }
  return "speed (efficiency: speed-up by the share of the cores used), and the milliseconds of a step, mean of the "
         "ranks\n" +
         table.text();
}

std::string equality_table(const Comparison& found) {
  TextTable table({"plan", "loss", "off by at most", "in step", "gradients", "in layer"});
  for (const PlanResult& plan : found.plans) {
    const bool same_loss = plan.loss_difference.relative == 0;
    const bool same_gradient = plan.gradient_difference.relative == 0;
    table.add({plan.plan, fmt::format("{:.6f}", plan.losses.back()), difference_text(plan.loss_difference.relative),
               same_loss ? "-" : std::to_string(plan.loss_difference.step),
               plan.served ? "-" : difference_text(plan.gradient_difference.relative),
               same_gradient ? "-" : plan.gradient_difference.layer});
  }
  return fmt::format(
             "the same model: the loss of step {}, and how far the losses of all steps and the gradients of step 1 are "
             "from the\nsingle run's (rounding alone moves its losses by {} and its gradients by {})\n",
             found.steps, difference_text(found.loss_rounding), difference_text(found.gradient_rounding)) +
         table.text();
}

std::string memory_table(const Comparison& found) {
  TextTable table(
      {"plan", "rank", "planned", "found", "activations", "parameters", "gradients", "optimizer", "inputs", "other"});
  for (const PlanResult& plan : found.plans) {
    if (plan.memory.empty()) {
      table.add({plan.plan, "-", "-", "-", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    const auto most = std::ranges::max_element(plan.memory, {}, &MemoryUse::planned_bytes);
    const auto of = [&](std::initializer_list<Region> regions) {
      std::size_t bytes = 0;
      for (const Region region : regions) bytes += most->planned[static_cast<std::size_t>(region)];
      return mb_text(bytes);
    };
    table.add({plan.plan, std::to_string(most - plan.memory.begin()), mb_text(most->planned_bytes()),
               mb_text(most->found_bytes()), of({Region::arena, Region::kept}), of({Region::parameters}),
               of({Region::gradients, Region::accumulated}), of({Region::optimizer}), of({Region::inputs}),
               of({Region::states, Region::messages, Region::reports})});
  }
  return "memory of the rank that takes most, MB\n" + table.text();
}

// The last rank to come waits least: its time is nearest to the exchange's own.
const Traffic& quickest(const PlanResult& plan, const Traffic& like) {
  const Traffic* best = &like;
  for (const std::vector<Traffic>& rank : plan.traffic)
    for (const Traffic& traffic : rank)
      if (traffic.kind == like.kind && traffic.axis == like.axis && traffic.bytes == like.bytes &&
          traffic.seconds < best->seconds)
        best = &traffic;
  return *best;
}

std::string traffic_table(const Comparison& found) {
  TextTable table({"plan", "what", "ranks", "calls", "MB in all", "MB sent", "ms", "GB/s alg.", "GB/s bus"}, 2);
  for (const PlanResult& plan : found.plans) {
    if (plan.traffic.empty()) continue;
    const auto sent = [](const std::vector<Traffic>& rank) {
      double bytes = 0;
      for (const Traffic& traffic : rank) bytes += traffic.sent;
      return bytes;
    };
    for (const Traffic& traffic : *std::ranges::max_element(plan.traffic, {}, sent)) {
      const Traffic& timed = quickest(plan, traffic);
      const bool has_time = timed.seconds > 0;
      const Bandwidth bandwidth = has_time ? bandwidth_of(timed) : Bandwidth{};
      const auto or_dash = [&](double value) { return has_time ? ms_text(value) : std::string("-"); };
      table.add({plan.plan, fmt::format("{} {}", traffic.kind, name_of(traffic.axis)), std::to_string(traffic.ranks),
                 std::to_string(traffic.calls), mb_text(traffic.bytes), mb_text(traffic.sent),
                 or_dash(1e3 * timed.seconds), or_dash(bandwidth.algorithm), or_dash(bandwidth.bus)});
    }
  }
  return table.empty() ? "" : "\nexchanged in a step by the rank that sends most\n" + table.text();
}

std::string pipeline_table(const Comparison& found) {
  TextTable table({"plan", "micro-batches", "bubble ms", "predicted", "work of the stages, ms"});
  for (const PlanResult& plan : found.plans) {
    if (!plan.pipeline) continue;
    table.add({plan.plan, std::to_string(plan.pipeline->micro_batches), ms_text(plan.step_ms.bubble),
               ms_text(plan.pipeline->predicted_bubble_ms),
               fmt::format("{:.2f}", fmt::join(plan.pipeline->stage_ms, ", "))});
  }
  return table.empty() ? ""
                       : "\npipelines: the bubble, and what the schedule makes of the stages' work\n" + table.text();
}

std::string served_table(const Comparison& found) {
  TextTable table({"plan", "servers", "workers", "MB sent", "MB received", "staleness", "mean", "bound", "process MB"});
  for (const PlanResult& plan : found.plans) {
    if (!plan.served) continue;
    const ServedResult& served = *plan.served;
    table.add({plan.plan, std::to_string(served.servers), std::to_string(served.workers),
               mb_text(std::ranges::max(served.sent)), mb_text(std::ranges::max(served.received)),
               std::to_string(served.staleness), fmt::format("{:.2f}", served.mean_staleness),
               served.staleness_bound ? std::to_string(*served.staleness_bound) : "-",
               mb_text(static_cast<double>(std::ranges::max(served.peak_bytes)))});
  }
  return table.empty()
             ? ""
             : "\nparameter servers: a step of the worker that sends most, and how many clocks what it pulled "
               "was behind\n" +
                   table.text();
}

std::string verdict(const Comparison& found) {
  const PlanResult& winner = found.plans[found.winner];
  std::string text = fmt::format("fastest: {}, {} images/s", winner.plan, rate_text(winner.images_per_s));
  if (found.winner != found.single) text += fmt::format(", {:.2f} times the single run", winner.speedup);
  text += "\n";
  if (found.plans.size() > 1) text += "why the others lost:\n";
  for (std::size_t i = 0; i < found.plans.size(); ++i)
    if (i != found.winner) text += fmt::format("  {}: {}\n", found.plans[i].plan, found.plans[i].why);
  return text;
}

}  // namespace

std::string to_text(const Comparison& comparison) {
  return heading(comparison) + "\n" + speed_table(comparison) + "\n" + equality_table(comparison) + "\n" +
         memory_table(comparison) + traffic_table(comparison) + pipeline_table(comparison) + served_table(comparison) +
         "\n" + verdict(comparison);
}

}  // namespace trifold
