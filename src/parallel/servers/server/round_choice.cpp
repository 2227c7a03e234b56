#include "parallel/servers/server/round_choice.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "core/error.h"

namespace trifold {

void put_report(Message& message, const RoundReport& report) {
  message.fields["clock"] = report.clock;
  message.fields["last"] = {report.last.clock, report.last.shard};
  message.fields["shards"] = report.shards;
  message.payload = Payload::own(report.distances);
}

RoundReport take_report(const Message& message, int shards) {
  try {
    RoundReport report{.clock = message.fields.at("clock"),
                       .last = {.clock = message.fields.at("last").at(0), .shard = message.fields.at("last").at(1)},
                       .shards = message.fields.at("shards").get<std::vector<int>>()};
    const bool rising = std::ranges::adjacent_find(report.shards, std::greater_equal<>()) == report.shards.end();
    const bool in_range = report.shards.empty() || (report.shards.front() >= 0 && report.shards.back() < shards);
    const std::size_t numbers = report.shards.size() * report.shards.size();
    if (!rising || !in_range || report.last.shard >= shards || message.payload.size() != numbers * sizeof(double))
      fail_runtime("distances of no such shards, or not as many");
    report.distances.resize(numbers);
    if (numbers > 0) std::memcpy(report.distances.data(), message.payload.bytes().data(), message.payload.size());
    return report;
  } catch (const nlohmann::json::exception& error) {
    fail_runtime("a message of distances lacks something: {}", error.what());
  }
}

std::optional<RoundChoice> RoundChooser::take(const std::string& server, RoundReport report) {
  if (std::ranges::find(args_.owners, server) == args_.owners.end())
    fail_runtime("server {} has no slices to speak of", server);
  reports_.insert_or_assign(server, std::move(report));
  if (reports_.size() < args_.owners.size()) return std::nullopt;
  std::optional<RoundChoice> choice = choose();
  if (!choice || choice->clock <= last_.clock) return std::nullopt;
  last_ = *choice;
  return choice;
}

// Of the earliest clock that anybody is at: nobody is past a clock that was not chosen for. Who is past it already has
// completed it by a choice of an epoch before this one, which counts, or had no part in it.
std::optional<RoundChoice> RoundChooser::choose() const {
  std::int64_t clock = reports_.begin()->second.clock;
  for (const auto& [server, report] : reports_) clock = std::min(clock, report.clock);
  for (const auto& [server, report] : reports_)
    if (report.last.clock == clock) return report.last;

  std::optional<std::vector<int>> common;
  for (const auto& [server, report] : reports_) {
    if (report.clock != clock) continue;
    if (!common) {
      common = report.shards;
      continue;
    }
    std::vector<int> both;
    std::ranges::set_intersection(*common, report.shards, std::back_inserter(both));
    common = std::move(both);
  }
  const std::size_t count = common->size();
  if (static_cast<int>(count) < args_.needed) return std::nullopt;
  std::vector<double> sum(count * count, 0.0);
  for (const auto& [server, report] : reports_) {
    if (report.clock != clock) continue;
    std::vector<std::size_t> at;  // where the common ones are
    for (const int shard : *common)
      at.push_back(static_cast<std::size_t>(std::ranges::lower_bound(report.shards, shard) - report.shards.begin()));
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = 0; j < count; ++j)
        sum[i * count + j] += report.distances[at[i] * report.shards.size() + at[j]];
  }
  return RoundChoice{.clock = clock, .shard = (*common)[static_cast<std::size_t>(args_.rule->choose(sum))]};
}

}  // namespace trifold
