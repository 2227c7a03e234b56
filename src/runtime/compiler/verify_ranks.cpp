// What ranks do together: each of them must come to the same exchanges in the same order.
#include <algorithm>
#include <typeinfo>
#include <vector>

#include <fmt/format.h>

#include "kernels/ops/collective.h"
#include "runtime/compiler/verify.h"

namespace trifold {
namespace {

// In the order of execution. Messages go from one rank to another and are matched by their tags, not by their order.
std::vector<const Node*> exchanges_along(const Program& program, Axis axis) {
  std::vector<const Node*> found;
  for (const Node& node : program.graph.nodes) {
    const auto* exchange = dynamic_cast<const Exchange*>(node.op.get());
    if (exchange != nullptr && exchange->axis == axis && !exchange->is_message()) found.push_back(&node);
  }
  return found;
}

}  // namespace

void verify_exchanges(const Program& rank, const Program& other, Axis axis, std::string_view pass) {
  const std::vector<const Node*> mine = exchanges_along(rank, axis);
  const std::vector<const Node*> others = exchanges_along(other, axis);
  for (std::size_t i = 0; i < std::max(mine.size(), others.size()); ++i) {
    if (i >= mine.size()) fail_pass(pass, other.graph, *others[i], "is an exchange that another rank does not have");
    if (i >= others.size()) fail_pass(pass, rank.graph, *mine[i], "is an exchange that another rank does not have");
    const Op& op = *mine[i]->op;
    const Op& met = *others[i]->op;
    if (typeid(op) != typeid(met) || mine[i]->layer != others[i]->layer || mine[i]->phase != others[i]->phase ||
        mine[i]->repeats_forward != others[i]->repeats_forward)
      fail_pass(pass, rank.graph, *mine[i],
                fmt::format("meets '{}' of another rank", node_name(other.graph, *others[i])));
  }
}

void verify_ranks(std::span<const RankPrograms> ranks) {
  const auto verify = [](const RankPrograms& rank, const RankPrograms& other, Axis axis) {
    for (std::size_t i = 0; i < rank.programs.size(); ++i)
      verify_exchanges(*rank.programs[i], *other.programs[i], axis, "compiling every rank");
  };
  for (const RankPrograms& rank : ranks)
    for (const RankPrograms& other : ranks) {
      const MeshPlace& a = rank.place;
      const MeshPlace& b = other.place;
      if (a.pipeline != b.pipeline) continue;
      if (a.data == b.data && a.tensor < b.tensor) verify(rank, other, Axis::tensor);
      if (a.tensor == b.tensor && a.data < b.data) verify(rank, other, Axis::data);
    }
}

}  // namespace trifold
