#include "insight/profile/profile_exchange.h"

#include <nlohmann/json.hpp>

namespace trifold {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ProfileRow, name, kind, implementation, layer, phase, rank, calls, total_ms, min_ms,
                                   max_ms, median_ms, flops, bytes, alone_ms, roof_ms, bound)

void gather_rows(const World& world, Profile& profile) {
  const nlohmann::json mine = {
      {"rows", profile.rows}, {"micro_batches", profile.micro_batches}, {"spans", profile.spans}};
  const std::vector<std::string> all = world.gather_texts(mine.dump());
  profile.processes = world.size();
  if (!world.first()) return;
  for (std::size_t process = 1; process < all.size(); ++process) {
    const nlohmann::json other = nlohmann::json::parse(all[process]);
    for (const nlohmann::json& row : other.at("rows")) profile.rows.push_back(row.get<ProfileRow>());
    for (const nlohmann::json& row : other.at("micro_batches")) profile.micro_batches.push_back(row.get<ProfileRow>());
    profile.spans += other.at("spans").get<std::int64_t>();
  }
}

}  // namespace trifold
