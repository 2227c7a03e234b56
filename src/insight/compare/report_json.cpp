#include <cmath>

#include <nlohmann/json.hpp>

#include "insight/compare/report.h"

namespace trifold {
namespace {

using ReportJson = nlohmann::ordered_json;

// JSON has no infinity: a difference without bound is null.
ReportJson number(double value) {
  return std::isfinite(value) ? ReportJson(value) : ReportJson(nullptr);
}

ReportJson step_json(const PlanResult& plan) {
  const StepSplit& step = plan.step_ms;
  if (plan.served)
    return {{"compute", nullptr}, {"exposed_comm", nullptr}, {"bubble", nullptr},
            {"input", nullptr},   {"optimizer", nullptr},    {"undivided", step.undivided}};
  const auto measured = [&](double value) { return plan.divided ? ReportJson(value) : ReportJson(nullptr); };
  return {{"compute", step.compute},
          {"exposed_comm", measured(step.exposed_comm)},
          {"bubble", measured(step.bubble)},
          {"input", step.input},
          {"optimizer", measured(step.optimizer)}};
}

// By kind: one number a rank.
ReportJson sent_json(const PlanResult& plan) {
  if (plan.served) return {{"worker", plan.served->sent}};
  ReportJson sent = ReportJson::object();
  for (std::size_t rank = 0; rank < plan.traffic.size(); ++rank)
    for (const Traffic& traffic : plan.traffic[rank]) {
      ReportJson& ranks = sent[traffic.kind];
      if (ranks.is_null()) ranks = std::vector<double>(plan.traffic.size());
      ranks[rank] = ranks[rank].get<double>() + traffic.sent;
    }
  return sent;
}

// Bytes a step, from rank (row) to rank (column).
ReportJson sent_to_json(const PlanResult& plan) {
  const std::size_t ranks = plan.traffic.size();
  std::vector<std::vector<double>> bytes(ranks, std::vector<double>(ranks));
  for (std::size_t rank = 0; rank < ranks; ++rank)
    for (const Traffic& traffic : plan.traffic[rank])
      for (const auto& [to, sent] : traffic.sent_to) bytes[rank][static_cast<std::size_t>(to)] += sent;
  return bytes;
}

ReportJson collectives_json(const PlanResult& plan) {
  ReportJson rows = ReportJson::array();
  for (std::size_t rank = 0; rank < plan.traffic.size(); ++rank)
    for (const Traffic& traffic : plan.traffic[rank]) {
      ReportJson row = {{"rank", rank},           {"kind", traffic.kind},   {"axis", name_of(traffic.axis)},
                        {"ranks", traffic.ranks}, {"calls", traffic.calls}, {"bytes", traffic.bytes},
                        {"sent", traffic.sent}};
      if (traffic.seconds > 0) {
        const Bandwidth bandwidth = bandwidth_of(traffic);
        row.update({{"ms", 1e3 * traffic.seconds}, {"algbw_gbps", bandwidth.algorithm}, {"busbw_gbps", bandwidth.bus}});
      }
      rows.push_back(std::move(row));
    }
  return rows;
}

ReportJson memory_json(const PlanResult& plan) {
  ReportJson ranks = ReportJson::array();
  for (const MemoryUse& use : plan.memory) {
    ReportJson regions = ReportJson::object();
    for (std::size_t i = 0; i < kRegions; ++i)
      if (use.planned[i] > 0)
        regions[name_of(static_cast<Region>(i))] = {{"planned", use.planned[i]}, {"found", use.found[i]}};
    ranks.push_back(std::move(regions));
  }
  return ranks;
}

ReportJson timeline_json(const PlanResult& plan) {
  ReportJson ranks = ReportJson::array();
  for (std::size_t rank = 0; rank < plan.timeline.size(); ++rank) {
    ReportJson spans = ReportJson::array();
    for (const TimelineSpan& span : plan.timeline[rank])
      spans.push_back({{"work", span.work},
                       {"micro_batch", span.micro_batch},
                       {"begin_ms", span.begin_ms},
                       {"end_ms", span.end_ms}});
    ranks.push_back({{"rank", rank}, {"spans", std::move(spans)}});
  }
  return ranks;
}

ReportJson served_json(const ServedResult& served) {
  return {{"mode", served.mode},
          {"servers", served.servers},
          {"workers", served.workers},
          {"staleness_bound", served.staleness_bound ? ReportJson(*served.staleness_bound) : ReportJson(nullptr)},
          {"max_staleness", served.staleness},
          {"mean_staleness", served.mean_staleness},
          {"bytes_received", served.received},
          {"worker_process_bytes", served.peak_bytes}};
}

ReportJson plan_json(const PlanResult& plan) {
  ReportJson peak = ReportJson::array();
  ReportJson planned = ReportJson::array();
  for (const MemoryUse& use : plan.memory) {
    peak.push_back(use.found_bytes());
    planned.push_back(use.planned_bytes());
  }
  ReportJson json = {{"plan", plan.plan},
                     {"dp", plan.mesh.data},
                     {"tp", plan.mesh.tensor},
                     {"pp", plan.mesh.pipeline},
                     {"threads", plan.threads},
                     {"images_per_s", plan.images_per_s},
                     {"spread", plan.spread},
                     {"slowest_images_per_s", plan.slowest},
                     {"fastest_images_per_s", plan.fastest},
                     {"speedup", plan.speedup},
                     {"efficiency", plan.efficiency},
                     {"step_ms", step_json(plan)},
                     {"losses", plan.losses},
                     {"max_loss_rel_diff", number(plan.loss_difference.relative)},
                     {"max_grad_rel_diff", number(plan.gradient_difference.relative)},
                     {"worst_gradient", plan.gradient_difference.layer},
                     {"bytes_sent", sent_json(plan)},
                     {"sent_to", sent_to_json(plan)},
                     {"collectives", collectives_json(plan)},
                     {"peak_bytes", peak},
                     {"planned_bytes", planned},
                     {"memory", memory_json(plan)},
                     {"arithmetic", plan.arithmetic},
                     {"repeated_arithmetic", plan.repeated}};
  if (plan.pipeline)
    json["pipeline"] = {{"micro_batches", plan.pipeline->micro_batches},
                        {"stage_ms", plan.pipeline->stage_ms},
                        {"bubble_ms", plan.step_ms.bubble},
                        {"predicted_bubble_ms", plan.pipeline->predicted_bubble_ms}};
  if (plan.served) {
    for (const char* unknown : {"max_grad_rel_diff", "worst_gradient", "sent_to", "collectives", "peak_bytes",
                                "planned_bytes", "memory", "arithmetic", "repeated_arithmetic"})
      json[unknown] = nullptr;
    json["served"] = served_json(*plan.served);
  }
  json["timeline"] = timeline_json(plan);
  json["why"] = plan.why;
  if (!plan.trace.empty()) json["trace"] = plan.trace;
  return json;
}

}  // namespace

std::string to_json_text(const Comparison& comparison) {
  ReportJson plans = ReportJson::array();
  for (const PlanResult& plan : comparison.plans) plans.push_back(plan_json(plan));
  const ReportJson json = {{"job", comparison.job},
                           {"batch", comparison.batch},
                           {"steps", comparison.steps},
                           {"rounds", comparison.rounds},
                           {"cores", comparison.cores},
                           {"bn_group", comparison.bn_group},
                           {"loss_rounding", number(comparison.loss_rounding)},
                           {"gradient_rounding", number(comparison.gradient_rounding)},
                           {"plans", std::move(plans)},
                           {"winner", comparison.plans[comparison.winner].plan}};
  return json.dump();
}

}  // namespace trifold
