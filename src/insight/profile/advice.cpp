// What a profile's numbers support saying, each with the figure it rests on.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "insight/profile/profile.h"

namespace trifold {
namespace {

constexpr double kWorthSaying = 0.05;  // share of the time
constexpr double kFarFromRoof = 30;    // percent

double share_of(const Profile& profile, auto belongs) {
  double ms = 0;
  for (const ProfileRow& row : profile.rows)
    if (belongs(row)) ms += row.total_ms;
  return ms / profile.all_ms();
}

void say_far_from_roof(const Profile& profile, std::vector<std::string>& advice) {
  for (const ProfileRow& row : grouped(profile.rows, ProfileGroup::kernel, ProfileSort::total)) {
    const double share = row.total_ms / profile.all_ms();
    if (share < kWorthSaying || row.roof_ms == 0 || row.roof_percent() > kFarFromRoof) continue;
    const char* reason =
        row.bound == "latency"              ? "its pieces are too small to fill the threads: a larger train.batch helps"
        : row.kind == OpKind::layout_change ? "it only changes a layout between two neighbours that disagree"
        : row.kind == OpKind::convolution && row.bound == "memory"
            ? "it has few channels, so little arithmetic for each byte"
        : row.bound == "memory" ? "it is a pass of its own over memory, fused into no neighbour"
                                : "its shape does not fill the vector units";
    const std::string by =
        row.implementation.empty() || row.implementation == "loop" ? "" : " by " + row.implementation;
    advice.push_back(fmt::format("{}{} takes {:.0f} % of the time at {:.0f} % of its {} roof: {}", row.name, by,
                                 100 * share, row.roof_percent(), row.bound == "latency" ? "machine's" : row.bound,
                                 reason));
  }
}

void say_imbalance(const Profile& profile, std::vector<std::string>& advice) {
  if (profile.stages < 2) return;
  std::map<int, double> busy;
  for (const ProfileRow& row : profile.rows)
    if (row.bound != "waiting") busy[row.rank] += row.total_ms;
  if (busy.size() < 2) return;
  const auto by_work = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [least, most] = std::ranges::minmax_element(busy, by_work);
  if (most->second > 1.2 * least->second)
    advice.push_back(fmt::format(
        "stages are uneven: rank {} works {:.0f} ms a step, rank {} only {:.0f} ms; plan.stages=measured balances them",
        most->first, most->second / profile.steps, least->first, least->second / profile.steps));
}

}  // namespace

std::vector<std::string> advice_on(const Profile& profile) {
  std::vector<std::string> advice;
  const double loading = share_of(profile, [](const ProfileRow& row) { return row.name == "wait for data"; });
  if (loading > kWorthSaying)
    advice.push_back(fmt::format(
        "{:.0f} % of the time is spent waiting for data: give the loader more threads (data.threads) or augment less",
        100 * loading));
  const double waiting = share_of(profile, [](const ProfileRow& row) { return row.phase == "communication"; });
  if (profile.stages == 1 && waiting > 2 * kWorthSaying)
    advice.push_back(fmt::format("{:.0f} % of the time is in exchanges between ranks: `trifold compare` other plans",
                                 100 * waiting));
  const double latency = share_of(profile, [](const ProfileRow& row) { return row.bound == "latency"; });
  if (latency > 2 * kWorthSaying)
    advice.push_back(fmt::format(
        "{:.0f} % of the time is in kernels that hardly last longer than starting them: a larger train.batch helps",
        100 * latency));
  say_far_from_roof(profile, advice);
  say_imbalance(profile, advice);
  return advice;
}

}  // namespace trifold
