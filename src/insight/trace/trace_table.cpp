// What a trace tells, as text and as JSON.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "insight/trace/trace_reader.h"

namespace trifold {
namespace {

std::string split_line(const std::string& name, std::size_t width, std::int64_t steps, const StepSplit& ms) {
  return fmt::format("{:<{}}  {:>6} {:>9.3f} {:>9.3f} {:>13.3f} {:>9.3f} {:>9.3f} {:>10.3f}\n", name, width, steps,
                     ms.sum(), ms.compute, ms.exposed_comm, ms.bubble, ms.input, ms.optimizer);
}

nlohmann::ordered_json to_json(const StepSplit& ms) {
  return {{"compute", ms.compute},
          {"exposed_comm", ms.exposed_comm},
          {"bubble", ms.bubble},
          {"input", ms.input},
          {"optimizer", ms.optimizer}};
}

}  // namespace

std::string to_text(const TraceSummary& summary, const std::string& file) {
  std::string text = fmt::format("{}: {} rank{}, {} step{} in {:.3f} s, {} events\n", file, summary.ranks.size(),
                                 summary.ranks.size() == 1 ? "" : "s", summary.steps, summary.steps == 1 ? "" : "s",
                                 summary.span_ms / 1e3, summary.events);
  if (summary.rounds > 0)
    text += fmt::format("round {} of {}, the median, as compare shows it\n", summary.round + 1, summary.rounds);
  std::size_t width = 9;
  for (const TracedRank& rank : summary.ranks) width = std::max(width, rank.name.size());
  text += fmt::format("{:<{}}  {:>6} {:>9} {:>9} {:>13} {:>9} {:>9} {:>10}\n", "ms a step", width, "steps", "step",
                      "compute", "exposed comm", "bubble", "input", "optimizer");
  for (const TracedRank& rank : summary.ranks) text += split_line(rank.name, width, rank.steps, rank.step_ms);
  if (summary.ranks.size() > 1) text += split_line("mean", width, summary.ranks[0].steps, summary.mean_ms);
  for (const auto& [name, arrows] : summary.arrows) {
    text += fmt::format("arrows \"{}\": {} with both ends, {} without", name, arrows.matched, arrows.unmatched);
    text += arrows.most_backwards_us > 0 ? fmt::format("; {:.3f} us backwards at most\n", arrows.most_backwards_us)
                                         : std::string("\n");
  }
  for (const auto& [name, value] : summary.notes) text += fmt::format("{}: {}\n", name, value);
  if (!summary.gaps.empty()) text += "longest times of a rank without a kernel:\n";
  for (const TraceGap& gap : summary.gaps)
    text += fmt::format("  {:>9.3f} ms  rank {} at {:.3f} ms, after {}, before {}{}\n", gap.ms, gap.rank, gap.at_ms,
                        gap.after, gap.before.empty() ? "the step's end" : gap.before,
                        gap.in.empty() ? "" : ", most of it in: " + gap.in);
  return text;
}

std::string to_json_text(const TraceSummary& summary, const std::string& file) {
  nlohmann::ordered_json json = {
      {"file", file},           {"whole", summary.fault.empty()},     {"events", summary.events},
      {"steps", summary.steps}, {"span_ms", summary.span_ms},         {"rounds", summary.rounds},
      {"round", summary.round}, {"step_ms", to_json(summary.mean_ms)}};
  json["ranks"] = nlohmann::ordered_json::array();
  for (const TracedRank& rank : summary.ranks)
    json["ranks"].push_back({{"rank", rank.rank},
                             {"name", rank.name},
                             {"steps", rank.steps},
                             {"begin_ms", rank.begin_ms},
                             {"end_ms", rank.end_ms},
                             {"step_ms", to_json(rank.step_ms)}});
  json["arrows"] = nlohmann::ordered_json::object();
  for (const auto& [name, arrows] : summary.arrows)
    json["arrows"][name] = {
        {"matched", arrows.matched}, {"unmatched", arrows.unmatched}, {"most_backwards_us", arrows.most_backwards_us}};
  json["gaps"] = nlohmann::ordered_json::array();
  for (const TraceGap& gap : summary.gaps)
    json["gaps"].push_back({{"rank", gap.rank},
                            {"at_ms", gap.at_ms},
                            {"ms", gap.ms},
                            {"after", gap.after},
                            {"before", gap.before},
                            {"in", gap.in}});
  json["notes"] = summary.notes;
  if (!summary.fault.empty()) json["fault"] = summary.fault;
  return json.dump();
}

}  // namespace trifold
