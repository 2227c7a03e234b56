// Against trying every set of vertices.
#include "runtime/compiler/cheapest_cut.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace trifold {
namespace {

bool parts(const CutProblem& problem, const std::vector<bool>& cut) {
  std::vector<bool> reached(problem.costs.size(), false);
  for (const int source : problem.sources)
    if (!cut[static_cast<std::size_t>(source)]) reached[static_cast<std::size_t>(source)] = true;
  for (std::size_t round = 0; round < reached.size(); ++round)
    for (const auto& [from, to] : problem.edges)
      if (reached[static_cast<std::size_t>(from)] && !cut[static_cast<std::size_t>(to)])
        reached[static_cast<std::size_t>(to)] = true;
  return std::ranges::none_of(problem.sinks, [&](int sink) { return reached[static_cast<std::size_t>(sink)]; });
}

std::int64_t cost_of(const CutProblem& problem, const std::vector<bool>& cut) {
  std::int64_t cost = 0;
  for (std::size_t v = 0; v < cut.size(); ++v)
    if (cut[v]) cost += problem.costs[v];
  return cost;
}

TEST(CheapestCut, IsTheCheapestOfAll) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const int vertices = 2 + static_cast<int>(random() % 8);
    CutProblem problem;
    for (int v = 0; v < vertices; ++v) problem.costs.push_back(static_cast<std::int64_t>(random() % 10));
    for (int from = 0; from < vertices; ++from)
      for (int to = from + 1; to < vertices; ++to)
        if (random() % 3 == 0) problem.edges.emplace_back(from, to);
    for (int v = 0; v < vertices; ++v) {
      if (random() % 3 == 0) problem.sources.push_back(v);
      if (random() % 3 == 0) problem.sinks.push_back(v);
    }
    std::int64_t best = 1000;
    for (unsigned set = 0; set < 1U << vertices; ++set) {
      std::vector<bool> cut;
      for (int v = 0; v < vertices; ++v) cut.push_back((set >> v & 1U) != 0);
      if (parts(problem, cut)) best = std::min(best, cost_of(problem, cut));
    }
    const std::vector<bool> found = cheapest_cut(problem);
    EXPECT_TRUE(parts(problem, found));
    EXPECT_EQ(cost_of(problem, found), best);
  }
}

TEST(CheapestCut, OfSeveralIsNearestToTheSinks) {
  const CutProblem line{.costs = {4, 2, 2, 3}, .edges = {{0, 1}, {1, 2}, {2, 3}}, .sources = {0}, .sinks = {3}};
  EXPECT_EQ(cheapest_cut(line), (std::vector<bool>{false, false, true, false}));
}

}  // namespace
}  // namespace trifold
