// The cheapest vertices of a directed graph without which no way leads from a source to a sink.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace trifold {

struct CutProblem {
  std::vector<std::int64_t> costs;         // of each vertex
  std::vector<std::pair<int, int>> edges;  // from, to
  std::vector<int> sources;                // a source may be a sink, too
  std::vector<int> sinks;
};

// Whether each vertex belongs to the cut. Of several that are cheapest, the one nearest to the sinks.
std::vector<bool> cheapest_cut(const CutProblem& problem);

}  // namespace trifold
