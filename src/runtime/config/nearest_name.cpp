#include "runtime/config/nearest_name.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include <fmt/format.h>

namespace trifold {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return result;
}

// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      cost[i][j] =
          std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> names) {
  constexpr std::size_t kLongest = 80;  // nobody mistypes a longer one, and the table grows with the square
  if (name.empty() || name.size() > kLongest) return std::nullopt;
  const std::string wanted = lower(name);
  std::optional<std::string> best;
  std::size_t best_distance = 0;
  for (const std::string& candidate : names) {
    if (candidate.size() > kLongest) continue;
    const std::string known = lower(candidate);
    std::size_t distance = edit_distance(wanted, known);
    const bool begins = wanted.size() >= 2 && (known.starts_with(wanted) || wanted.starts_with(known));
    const bool contains = wanted.size() >= 3 && known.find(wanted) != std::string::npos;
    if (begins || contains) distance = std::min<std::size_t>(distance, 1);
    if (2 * distance > std::max(wanted.size(), known.size())) continue;
    if (best && distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> names) {
  const std::optional<std::string> nearest = nearest_name(name, names);
  return nearest ? fmt::format("; did you mean '{}'?", *nearest) : std::string();
}

std::string quoted_alternatives(std::span<const std::string> names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += fmt::format("'{}'", names[i]);
  }
  return text;
}

std::string comma_list(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace trifold
