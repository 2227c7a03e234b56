#include "parallel/processes/rank_status.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trifold {
namespace {

using Statuses = std::span<const std::optional<RankStatus>>;

// Of the ranks that must arrive, those that have not.
std::vector<int> missing_ranks(const RankStatus::Waiting& waiting, int waiter, Statuses ranks) {
  std::vector<int> missing;
  for (const int rank : waiting.ranks) {
    if (rank == waiter) continue;
    const auto index = static_cast<std::size_t>(rank);
    const std::optional<RankStatus> other = index < ranks.size() ? ranks[index] : std::nullopt;
    const auto calls = other ? other->calls.find(waiting.group) : std::map<std::string, std::int64_t>::const_iterator{};
    const bool arrived =
        other && !waiting.group.empty() && calls != other->calls.end() && calls->second >= waiting.call;
    if (!arrived) missing.push_back(rank);
  }
  return missing;
}

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

std::string say_rank(int rank, Statuses ranks, std::int64_t last_step) {
  const std::optional<RankStatus>& status = ranks[static_cast<std::size_t>(rank)];
  if (!status) return fmt::format("rank {} does not answer, step {} was its last", rank, last_step);
  if (!status->waiting) return fmt::format("rank {} waits for nobody, step {} was its last", rank, status->step);
  const std::vector<int> missing = missing_ranks(*status->waiting, rank, ranks);
  return fmt::format("rank {} waits in {} for {}, step {} was its last", rank, status->waiting->what,
                     missing.empty() ? "its end" : ranks_text(missing), status->step);
}

}  // namespace

std::string encode_statuses(std::span<const RankStatus> statuses) {
  nlohmann::json all = nlohmann::json::array();
  for (const RankStatus& status : statuses) {
    nlohmann::json& json = all.emplace_back(nlohmann::json{{"step", status.step}, {"calls", status.calls}});
    if (status.waiting)
      json["waiting"] = {{"what", status.waiting->what},
                         {"group", status.waiting->group},
                         {"call", status.waiting->call},
                         {"ranks", status.waiting->ranks}};
  }
  return all.dump();
}

std::vector<RankStatus> decode_statuses(const std::string& text) {
  std::vector<RankStatus> all;
  for (const nlohmann::json& json : nlohmann::json::parse(text)) {
    RankStatus& status = all.emplace_back();
    status.step = json.at("step");
    status.calls = json.at("calls");
    if (const auto waiting = json.find("waiting"); waiting != json.end())
      status.waiting = {.what = waiting->at("what"),
                        .group = waiting->at("group"),
                        .call = waiting->at("call"),
                        .ranks = waiting->at("ranks")};
  }
  return all;
}

std::string stall_report(Statuses ranks, std::span<const std::int64_t> last_steps, double seconds) {
  std::string text = fmt::format("ranks have waited {:.0f} s for each other: ", seconds);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    text += (rank == 0 ? "" : "; ") + say_rank(static_cast<int>(rank), ranks, last_steps[rank]);
  return text;
}

}  // namespace trifold
