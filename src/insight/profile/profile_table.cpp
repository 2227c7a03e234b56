// Profiles for people and for programs: grouping, sorting, text, JSON, CSV.
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "insight/profile/profile.h"

namespace trifold {
namespace {

std::tuple<std::string, std::string, std::string, std::string, int> key_of(const ProfileRow& row, ProfileGroup group) {
  switch (group) {
    case ProfileGroup::none:
      return {row.name, row.implementation, row.layer, row.phase, row.rank};
    case ProfileGroup::kernel:
      return {row.name, row.implementation, "", row.phase, -1};
    case ProfileGroup::layer:
      return {"", "", row.layer.empty() ? row.name : row.layer, "", -1};
    case ProfileGroup::phase:
      return {"", "", "", row.phase, -1};
    case ProfileGroup::rank:
      return {"", "", "", "", row.rank};
    case ProfileGroup::micro_batch:
      return {row.name, "", "", row.phase, row.rank};
    case ProfileGroup::launch:
      break;  // lines of their own, see gpu_table.cpp
  }
  return {};
}

double measure_of(const ProfileRow& row, ProfileSort sort) {
  switch (sort) {
    case ProfileSort::total:
      return row.total_ms;
    case ProfileSort::calls:
      return static_cast<double>(row.calls);
    case ProfileSort::mean:
      return row.mean_ms();
    case ProfileSort::flops:
      return row.flops;
    case ProfileSort::bytes:
      return row.bytes;
    case ProfileSort::gflops:
      return row.gflops();
    case ProfileSort::gbps:
      return row.gbps();
    case ProfileSort::roof:
      return row.roof_ms == 0 ? -1e9 : -row.roof_percent();
  }
  return 0;
}

// Convolutions in the step against the same ones by themselves, as a sentence; "" where they were not run so.
std::string sentence_on_alone(const std::vector<ProfileRow>& rows) {
  double flops = 0, in_step_ms = 0, alone_ms = 0;
  int close = 0, count = 0;
  for (const ProfileRow& row : rows) {
    if (row.alone_ms == 0 || row.kind != OpKind::convolution) continue;
    const auto calls = static_cast<double>(row.calls);
    flops += row.flops;
    in_step_ms += row.median_ms * calls;
    alone_ms += row.alone_ms * calls;
    ++count;
    if (row.alone_percent() >= 90) ++close;
  }
  if (count == 0) return "";
  return fmt::format(
      "Convolutions do {:.1f} GFLOP/s in the step and {:.1f} by themselves (median calls): {:.0f} %; {} of {} reach 90 "
      "% of theirs.\n",
      flops / in_step_ms / 1e6, flops / alone_ms / 1e6, 100 * alone_ms / in_step_ms, close, count);
}

std::string quoted(const std::string& text) {
  return text.find_first_of(",\"\n") == std::string::npos ? text : nlohmann::json(text).dump();
}

}  // namespace

std::vector<ProfileRow> grouped(const std::vector<ProfileRow>& rows, ProfileGroup group, ProfileSort sort) {
  std::map<decltype(key_of(rows.front(), group)), ProfileRow> groups;
  std::map<const ProfileRow*, double> longest;  // part of a group, which says what bounds it
  for (const ProfileRow& row : rows) {
    const auto key = key_of(row, group);
    const auto [place, added] = groups.try_emplace(key, row);
    ProfileRow& sum = place->second;
    if (added) {
      std::tie(sum.name, sum.implementation, sum.layer, sum.phase, sum.rank) = key;
      longest[&sum] = row.total_ms;
      continue;
    }
    const auto of_calls = [&](double ours, double theirs) {
      const auto before = static_cast<double>(sum.calls), more = static_cast<double>(row.calls);
      return (ours * before + theirs * more) / (before + more);
    };
    sum.median_ms = of_calls(sum.median_ms, row.median_ms);
    sum.alone_ms = sum.alone_ms == 0 || row.alone_ms == 0 ? 0 : of_calls(sum.alone_ms, row.alone_ms);
    sum.calls += row.calls;
    sum.total_ms += row.total_ms;
    sum.min_ms = std::min(sum.min_ms, row.min_ms);
    sum.max_ms = std::max(sum.max_ms, row.max_ms);
    sum.flops += row.flops;
    sum.bytes += row.bytes;
    sum.roof_ms += row.roof_ms;
    sum.gpu += row.gpu;
    if (row.total_ms > longest[&sum]) {
      longest[&sum] = row.total_ms;
      sum.bound = row.bound;
    }
  }
  std::vector<ProfileRow> found;
  for (auto& [key, row] : groups) found.push_back(std::move(row));
  std::ranges::stable_sort(
      found, [&](const ProfileRow& a, const ProfileRow& b) { return measure_of(a, sort) > measure_of(b, sort); });
  return found;
}

std::string to_text(const Profile& profile, const ProfileTable& table) {
  if (profile.gpu) return gpu_to_text(profile, table);
  std::string text = fmt::format("{}\n\n", to_text(profile.roofs));
  text += fmt::format("{}: {} steps of {} images on {} rank{} of {} thread{}, {:.2f} ms a step\n", profile.job,
                      profile.steps, profile.batch, profile.ranks, profile.ranks == 1 ? "" : "s", profile.threads,
                      profile.threads == 1 ? "" : "s", profile.wall_ms / profile.steps);
  const std::vector<ProfileRow> rows =
      grouped(table.group == ProfileGroup::micro_batch ? profile.micro_batches : profile.rows, table.group, table.sort);
  const auto name_of = [&](const ProfileRow& row) {
    if (table.group == ProfileGroup::layer) return row.layer;
    if (table.group == ProfileGroup::phase) return row.phase;
    if (table.group == ProfileGroup::rank) return fmt::format("rank {}", row.rank);
    if (table.group == ProfileGroup::micro_batch) return fmt::format("rank {} {} {}", row.rank, row.name, row.phase);
    std::string name = row.name + (row.implementation.empty() ? "" : " " + row.implementation);
    if (table.group == ProfileGroup::none)
      name = fmt::format("{}{}{}", profile.ranks > 1 ? fmt::format("{}: ", row.rank) : "",
                         row.layer.empty() ? "" : row.layer + " ", name);
    return name;
  };
  std::size_t width = 6;
  const std::size_t shown = table.top <= 0 ? rows.size() : std::min(rows.size(), static_cast<std::size_t>(table.top));
  for (std::size_t i = 0; i < shown; ++i) width = std::max(width, name_of(rows[i]).size());
  const char* const head = table.group == ProfileGroup::layer         ? "layer"
                           : table.group == ProfileGroup::phase       ? "phase"
                           : table.group == ProfileGroup::rank        ? "rank"
                           : table.group == ProfileGroup::micro_batch ? "micro-batch"
                                                                      : "kernel";
  const bool alone = std::ranges::any_of(rows, [](const ProfileRow& row) { return row.alone_ms > 0; });
  text += fmt::format("{:<{}}  {:>6} {:>9} {:>8} {:>8} {:>8} {:>6} {:>8} {}{:>7} {:>7} {:>6}  {}\n", head, width,
                      "calls", "total ms", "mean", "min", "max", "share", "GFLOP/s", alone ? "of alone " : "", "GB/s",
                      "FLOP/B", "roof", "bound");
  for (std::size_t i = 0; i < shown; ++i) {
    const ProfileRow& row = rows[i];
    const auto or_dash = [](double value, const char* format) {
      return value > 0 ? fmt::format(fmt::runtime(format), value) : std::string("-");
    };
    text += fmt::format("{:<{}}  {:>6} {:>9.2f} {:>8.3f} {:>8.3f} {:>8.3f} {:>4.1f} % {:>8} {}{:>7} {:>7} {:>6}  {}\n",
                        name_of(row), width, row.calls, row.total_ms, row.mean_ms(), row.min_ms, row.max_ms,
                        100 * row.total_ms / profile.all_ms(), or_dash(row.gflops(), "{:.1f}"),
                        alone ? fmt::format("{:>8} ", or_dash(row.alone_percent(), "{:.0f} %")) : "",
                        or_dash(row.gbps(), "{:.1f}"), or_dash(row.intensity(), "{:.1f}"),
                        or_dash(row.roof_percent(), "{:.0f} %"), row.bound);
  }
  if (shown < rows.size()) text += fmt::format("... and {} more (--top 0 shows all)\n", rows.size() - shown);
  text += fmt::format(
      "\n{:.1f} % of the time of the ranks is in the lines of kernels, copies and waits; the rest is \"between "
      "kernels\". Noting {} spans of {:.3f} us each cost {:.2f} %.\n",
      100 * profile.attributed(), profile.spans, profile.span_us, 100 * profile.overhead());
  if (profile.processes > 1)
    text += fmt::format("The clocks of the {} processes agree to within {:.1f} us in the trace.\n", profile.processes,
                        profile.clock_us);
  if (std::ranges::any_of(rows, [](const ProfileRow& row) { return row.roof_percent() > 105; }))
    text += "FLOPs are the direct method's; Winograd does fewer, so it may pass the roof.\n";
  text += sentence_on_alone(profile.rows);
  for (const std::string& line : profile.advice) text += fmt::format("advice: {}\n", line);
  return text;
}

std::string to_json_text(const Profile& profile) {
  if (profile.gpu) return gpu_to_json_text(profile);
  nlohmann::ordered_json json = {{"job", profile.job},
                                 {"batch", profile.batch},
                                 {"ranks", profile.ranks},
                                 {"threads", profile.threads},
                                 {"steps", profile.steps},
                                 {"machine", nlohmann::ordered_json::parse(to_json_text(profile.roofs))},
                                 {"wall_ms", profile.wall_ms},
                                 {"attributed", profile.attributed()},
                                 {"overhead", profile.overhead()},
                                 {"processes", profile.processes},
                                 {"clock_uncertainty_us", profile.clock_us}};
  json["kernels"] = nlohmann::ordered_json::array();
  for (const ProfileRow& row : profile.rows)
    json["kernels"].push_back({{"name", row.name},
                               {"implementation", row.implementation},
                               {"layer", row.layer},
                               {"phase", row.phase},
                               {"rank", row.rank},
                               {"calls", row.calls},
                               {"total_ms", row.total_ms},
                               {"mean_ms", row.mean_ms()},
                               {"min_ms", row.min_ms},
                               {"max_ms", row.max_ms},
                               {"median_ms", row.median_ms},
                               {"share", row.total_ms / profile.all_ms()},
                               {"flops", row.flops},
                               {"bytes", row.bytes},
                               {"gflops", row.gflops()},
                               {"alone_gflops", row.alone_gflops()},
                               {"gbps", row.gbps()},
                               {"intensity", row.intensity()},
                               {"roof_percent", row.roof_percent()},
                               {"bound", row.bound}});
  json["micro_batches"] = nlohmann::ordered_json::array();
  for (const ProfileRow& row : profile.micro_batches)
    json["micro_batches"].push_back({{"rank", row.rank},
                                     {"name", row.name},
                                     {"phase", row.phase},
                                     {"calls", row.calls},
                                     {"total_ms", row.total_ms}});
  json["advice"] = profile.advice;
  json["memory"] = to_json(profile.memory);
  return json.dump();
}

std::string to_csv_text(const Profile& profile) {
  if (profile.gpu) return gpu_to_csv_text(profile);
  std::string text =
      "name,implementation,layer,phase,rank,calls,total_ms,mean_ms,min_ms,max_ms,median_ms,share,flops,bytes,gflops,"
      "alone_gflops,"
      "gbps,"
      "intensity,roof_percent,bound\n";
  for (const ProfileRow& row : profile.rows)
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", quoted(row.name),
                        quoted(row.implementation), quoted(row.layer), row.phase, row.rank, row.calls, row.total_ms,
                        row.mean_ms(), row.min_ms, row.max_ms, row.median_ms, row.total_ms / profile.all_ms(),
                        row.flops, row.bytes, row.gflops(), row.alone_gflops(), row.gbps(), row.intensity(),
                        row.roof_percent(), row.bound);
  return text;
}

}  // namespace trifold
