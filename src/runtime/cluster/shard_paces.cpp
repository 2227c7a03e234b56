#include "runtime/cluster/shard_paces.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "runtime/train/live_cluster.h"

namespace trifold {
namespace {

constexpr std::size_t kNamed = 3;  // of the slowest

bool values_can_be_stale(const ServerSync& sync) {
  return sync.consistency != Consistency::sync;
}

}  // namespace

void ShardPaces::add(const std::map<int, ShardReport>& reports) {
  last_.clear();
  last_late_ = 0;
  for (const auto& [shard, report] : reports) {
    Pace& pace = shards_[shard];
    pace.clocks += 1;
    pace.ms += report.step_ms;
    pace.stale += report.staleness > 0 ? 1 : 0;
    pace.worst = std::max(pace.worst, report.staleness);
    pace.late_slices += report.late;
    last_.push_back(report.staleness);
    last_late_ += report.late;
  }
}

std::vector<Metric> ShardPaces::metrics_of_step(const ServerSync& sync) const {
  std::vector<Metric> metrics;
  if (values_can_be_stale(sync) && !last_.empty()) {
    const auto sum = static_cast<double>(std::accumulate(last_.begin(), last_.end(), std::int64_t{0}));
    metrics.push_back({"staleness_worst", static_cast<double>(*std::ranges::max_element(last_))});
    metrics.push_back({"staleness_mean", sum / static_cast<double>(last_.size())});
    metrics.push_back({"stale_shards", static_cast<double>(last_.size()) -
                                           static_cast<double>(std::ranges::count(last_, std::int64_t{0}))});
  }
  if (sync.backup > 0) metrics.push_back({"late_slices", static_cast<double>(last_late_)});
  return metrics;
}

std::vector<std::string> ShardPaces::describe(const ServerSync& sync) const {
  std::vector<std::string> lines;
  if (shards_.empty()) return lines;
  std::vector<std::pair<double, int>> by_time;  // slowest first
  for (const auto& [shard, pace] : shards_) by_time.emplace_back(pace.ms_a_clock(), shard);
  std::ranges::sort(by_time, std::greater());
  const double median = by_time[by_time.size() / 2].first;
  std::string slow;
  for (std::size_t i = 0; i < std::min(kNamed, by_time.size()); ++i)
    if (by_time[i].first > kSlowShard * median)
      slow += fmt::format("{}{} ({:.0f} ms)", slow.empty() ? "" : ", ", by_time[i].second, by_time[i].first);
  if (!slow.empty()) lines.push_back(fmt::format("slow shards: {}; the median takes {:.0f} ms a step", slow, median));

  std::int64_t clocks = 0, stale = 0, worst = 0, late = 0;
  for (const auto& [shard, pace] : shards_) {
    clocks += pace.clocks;
    stale += pace.stale;
    worst = std::max(worst, pace.worst);
    late += pace.late_slices;
  }
  if (values_can_be_stale(sync))
    lines.push_back(
        fmt::format("stale values: in {:.0f} % of the shards' steps, at most {} clock{} old{}",
                    100 * static_cast<double>(stale) / static_cast<double>(clocks), worst, worst == 1 ? "" : "s",
                    sync.consistency == Consistency::ssp ? fmt::format(" (bound {})", sync.staleness) : ""));
  if (late > 0) {
    const auto latest = std::ranges::max_element(
        shards_, [](const auto& a, const auto& b) { return a.second.late_slices < b.second.late_slices; });
    lines.push_back(
        fmt::format("late pushes: {} slices, {} of them of shard {}", late, latest->second.late_slices, latest->first));
  }
  return lines;
}

}  // namespace trifold
