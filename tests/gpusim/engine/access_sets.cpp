#include "engine/access_sets.h"

#include <map>

namespace gpusim {
namespace {

struct Table {
  std::vector<std::vector<std::uint32_t>> sets;
  std::map<std::vector<std::uint32_t>, std::uint32_t> numbers;
};
Table& table() {
  static auto* all = new Table;
  return *all;
}

}  // namespace

const std::vector<std::uint32_t>& AccessSet::members_of_table_set(std::uint32_t number) {
  return table().sets[number];
}

std::uint32_t AccessSet::number_of_table_set(const std::vector<std::uint32_t>& members) {
  const auto [found, is_new] = table().numbers.try_emplace(members, static_cast<std::uint32_t>(table().sets.size()));
  if (is_new) table().sets.push_back(members);
  return found->second;
}

}  // namespace gpusim
