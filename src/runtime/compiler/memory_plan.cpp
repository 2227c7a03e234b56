#include "runtime/compiler/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "kernels/ops/collective.h"
#include "runtime/compiler/flat_layout.h"

namespace trifold {
namespace {

constexpr std::size_t kAlign = 64;
std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

// Values that lie in one piece of memory (views, updates in place) form a family, found by union-find.
class Families {
 public:
  explicit Families(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  int root(int id) {
    int& up = parent_[static_cast<std::size_t>(id)];
    return up == id ? id : up = root(up);
  }
  void join(int child, int into) { parent_[static_cast<std::size_t>(root(child))] = root(into); }

 private:
  std::vector<int> parent_;
};

struct Lifetime {
  int first = -1;
  int last = -1;
  void touch(int node) {
    if (first < 0) first = node;
    last = std::max(last, node);
  }
};

Region region_of(Role role) {
  switch (role) {
    case Role::input:
      return Region::inputs;
    case Role::parameter:
      return Region::parameters;
    case Role::parameter_gradient:
      return Region::gradients;
    case Role::state:
      return Region::states;
    case Role::report:
      return Region::reports;
    case Role::activation:
    case Role::gradient:
      break;
  }
  return Region::arena;
}

class Planner {
 public:
  Planner(const Graph& graph, const std::vector<TensorDesc>& descs, const std::vector<std::size_t>& scratch_bytes,
          const FlatLayout& flat, const MicroBatches& micro_batches, const GivenPlaces& given)
      : graph_(graph),
        descs_(descs),
        scratch_bytes_(scratch_bytes),
        flat_(flat),
        micro_batches_(micro_batches),
        given_(given),
        families_(graph.values.size()),
        packed_(graph.values.size(), false),
        offset_in_family_(graph.values.size(), 0) {}

  MemoryPlan run() {
    plan_.places.resize(graph_.values.size());
    join_packs();
    place_kept_values();
    join_views();
    measure_lifetimes();
    join_in_place();
    place_arena();
    repeat_slots();
    return std::move(plan_);
  }

 private:
  Place& place(ValueId id) { return plan_.places[static_cast<std::size_t>(id)]; }
  std::size_t& region_bytes(Region region) { return plan_.region_bytes[static_cast<int>(region)]; }
  bool is_packed(ValueId id) const { return packed_[static_cast<std::size_t>(id)]; }
  bool in_arena(ValueId id) const { return is_packed(id) || region_of(graph_[id].role) == Region::arena; }

  void give(ValueId id, Region region) {
    const std::size_t bytes = descs_[static_cast<std::size_t>(id)].bytes();
    place(id) = {region, region_bytes(region), bytes};
    region_bytes(region) += aligned(bytes);
  }

  void join_packs() {
    for (const GivenPlaces::Packed& packed : given_.packed) {
      packed_[static_cast<std::size_t>(packed.value)] = true;
      offset_in_family_[static_cast<std::size_t>(packed.value)] = packed.offset;
      families_.join(packed.value, packed.pack);
    }
    for (const GivenPlaces::Packed& packed : given_.packed) packed_[static_cast<std::size_t>(packed.pack)] = true;
  }

  void place_kept_values() {
    // Gradients lie at the same offsets as their parameters, so that an update is one pass over flat buffers.
    for (std::size_t i = 0; i < graph_.parameters.size(); ++i) {
      const Parameter& parameter = graph_.parameters[i];
      if (graph_[parameter.value].role != Role::parameter) {
        give(parameter.value, Region::states);
        continue;
      }
      const std::size_t bytes = descs_[static_cast<std::size_t>(parameter.value)].bytes();
      if (!flat_.shards(Region::parameters)) place(parameter.value) = {Region::parameters, flat_.offsets[i], bytes};
      if (parameter.gradient != kNoValue && !flat_.shards(Region::gradients))
        place(parameter.gradient) = {Region::gradients, flat_.offsets[i], bytes};
    }
    for (const Region region : {Region::parameters, Region::gradients}) region_bytes(region) = flat_.bytes_of(region);
    for (const GivenPlaces::Fixed& fixed : given_.fixed) place(fixed.value) = fixed.place;
    if (graph_.loss_scale != kNoValue) give(graph_.loss_scale, Region::states);
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id) {
      const Role role = graph_[id].role;
      if (role == Role::input || role == Role::report) give(id, region_of(role));
    }
  }

  void join_views() {
    for (const Node& node : graph_.nodes) {
      if (!node.op->is_view()) continue;
      const auto in = static_cast<std::size_t>(node.in[0]);
      const auto out = static_cast<std::size_t>(node.out[0]);
      if (!in_arena(node.in[0]) || place(node.in[0]).region != Region::none) {
        place(node.out[0]) = place(node.in[0]);  // a view of the images, or a view of such a view
        continue;
      }
      families_.join(node.out[0], node.in[0]);
      offset_in_family_[out] = offset_in_family_[in];
      packed_[out] = packed_[in];
    }
  }

  void measure_lifetimes() {
    lifetimes_.assign(graph_.values.size(), {});
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) {
      const Node& node = graph_.nodes[static_cast<std::size_t>(i)];
      for (const ValueId id : node.in) lifetime(id).touch(i);
      for (const ValueId id : node.out) lifetime(id).touch(i);
    }
    // What is read after the step, or by another stage, lives to its end.
    for (const Node& node : graph_.nodes)
      if (sends_from_there(node)) lifetime(node.in[0]).touch(static_cast<int>(graph_.nodes.size()));
    if (graph_.output != kNoValue) lifetime(graph_.output).touch(static_cast<int>(graph_.nodes.size()));
  }

  Lifetime& lifetime(ValueId id) { return lifetimes_[static_cast<std::size_t>(families_.root(id))]; }

  void join_in_place() {
    for (int i = 0; i < static_cast<int>(graph_.nodes.size()); ++i) {
      const Node& node = graph_.nodes[static_cast<std::size_t>(i)];
      if (node.op->is_view()) continue;
      std::vector<int> taken;
      for (std::size_t o = 0; o < node.out.size(); ++o) {
        const ValueId out = node.out[o];
        if (!in_arena(out) || is_packed(out) || lifetime(out).first != i) continue;
        for (const int candidate : node.op->in_place(static_cast<int>(o))) {
          const ValueId in = node.in[static_cast<std::size_t>(candidate)];
          if (!in_arena(in) || is_packed(in) || place(in).region != Region::none || lifetime(in).last != i) continue;
          const int root = families_.root(in);
          if (std::ranges::find(taken, root) != taken.end() || root == families_.root(out)) continue;
          if (descs_[static_cast<std::size_t>(in)].bytes() != descs_[static_cast<std::size_t>(out)].bytes()) continue;
          // Read through two inputs of this node: it must not be overwritten by either.
          if (std::ranges::count_if(node.in, [&](ValueId id) { return in_arena(id) && families_.root(id) == root; }) >
              1)
            continue;
          const Lifetime joined = {lifetime(in).first, std::max(lifetime(in).last, lifetime(out).last)};
          families_.join(out, in);
          lifetime(in) = joined;
          taken.push_back(families_.root(in));
          break;
        }
      }
    }
  }

  // Its input's memory is the message's until that has arrived.
  static bool sends_from_there(const Node& node) {
    const auto* send = dynamic_cast<const Send*>(node.op.get());
    return send != nullptr && send->copies == 0;
  }

  // The parts of a micro-batch's work that other micro-batches may come between.
  int part_of(const Node& node) const {
    if (node.phase == Phase::forward) return 0;
    return micro_batches_.splits_backward && node.phase == Phase::backward_weight ? 2 : 1;
  }

  // What one part makes and another reads, and what is on its way to another stage.
  std::vector<bool> families_kept_between_parts() {
    std::vector<bool> kept(graph_.values.size(), false);
    if (!micro_batches_.interleave) return kept;
    std::vector<int> part(graph_.values.size(), -1);
    for (const Node& node : graph_.nodes)
      for (const std::vector<ValueId>& ids : {node.in, node.out})
        for (const ValueId id : ids) {
          if (!in_arena(id)) continue;
          const auto family = static_cast<std::size_t>(families_.root(id));
          const bool crosses = part[family] >= 0 && part[family] != part_of(node);
          part[family] = part_of(node);
          if (crosses || sends_from_there(node)) kept[family] = true;
        }
    return kept;
  }

  void repeat_slots() {
    plan_.slots = micro_batches_.slots;
    for (const Region region : {Region::kept, Region::inputs})
      region_bytes(region) *= static_cast<std::size_t>(micro_batches_.slots);
  }

  // Greedy by size: the largest block first, each at the lowest offset that is free during its life. A slot is one
  // micro-batch's, whose parts follow each other as the nodes do.
  void place_arena() {
    struct Request {
      std::size_t bytes;
      Lifetime life;
      int root;  // value family, or -1 - node for scratch
      Region region;
    };
    const std::vector<bool> kept = families_kept_between_parts();
    const auto region_of_family = [&](int root) {
      return kept[static_cast<std::size_t>(root)] ? Region::kept : Region::arena;
    };
    std::vector<Request> requests;
    std::vector<std::size_t> family_bytes(graph_.values.size(), 0);
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id) {
      if (!in_arena(id) || lifetime(id).first < 0 || place(id).region != Region::none) continue;
      std::size_t& bytes = family_bytes[static_cast<std::size_t>(families_.root(id))];
      bytes = std::max(bytes, descs_[static_cast<std::size_t>(id)].bytes());
    }
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id)
      if (family_bytes[static_cast<std::size_t>(id)] > 0)
        requests.push_back(
            {aligned(family_bytes[static_cast<std::size_t>(id)]), lifetime(id), id, region_of_family(id)});
    for (int i = 0; i < static_cast<int>(scratch_bytes_.size()); ++i)
      if (const std::size_t bytes = scratch_bytes_[static_cast<std::size_t>(i)]; bytes > 0)
        requests.push_back({aligned(bytes), {i, i}, -1 - i, Region::arena});
    std::ranges::stable_sort(requests, [](const Request& a, const Request& b) { return a.bytes > b.bytes; });

    plan_.scratch_offset.assign(graph_.nodes.size(), 0);
    std::vector<std::size_t> family_offset(graph_.values.size(), 0);
    for (const Request& request : requests) {
      const std::size_t offset = lowest_free(request.region, request.bytes, request.life);
      const bool scratch = request.root < 0;
      const std::string name = scratch ? "scratch of " + node_name(-1 - request.root) : graph_[request.root].name;
      plan_.blocks.push_back({name, offset, request.bytes, request.life.first, request.life.last, request.region});
      if (scratch)
        plan_.scratch_offset[static_cast<std::size_t>(-1 - request.root)] = offset;
      else
        family_offset[static_cast<std::size_t>(request.root)] = offset;
      region_bytes(request.region) = std::max(region_bytes(request.region), offset + request.bytes);
    }
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id) {
      const auto root = static_cast<std::size_t>(families_.root(id));
      if (in_arena(id) && family_bytes[root] > 0 && place(id).region == Region::none && lifetime(id).first >= 0)
        place(id) = {region_of_family(static_cast<int>(root)),
                     family_offset[root] + offset_in_family_[static_cast<std::size_t>(id)],
                     descs_[static_cast<std::size_t>(id)].bytes()};
    }
  }

  std::string node_name(int index) const {
    const Node& node = graph_.nodes[static_cast<std::size_t>(index)];
    const std::string layer = node.layer < 0 ? "" : graph_.layers[static_cast<std::size_t>(node.layer)].id + " ";
    return layer + std::string(node.op->name());
  }

  std::size_t lowest_free(Region region, std::size_t bytes, const Lifetime& life) const {
    std::vector<std::pair<std::size_t, std::size_t>> taken;  // offset, end
    for (const ArenaBlock& block : plan_.blocks)
      if (block.region == region && block.first <= life.last && life.first <= block.last)
        taken.emplace_back(block.offset, block.offset + block.bytes);
    std::ranges::sort(taken);
    std::size_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (begin >= offset + bytes) break;
      offset = std::max(offset, end);
    }
    return offset;
  }

  const Graph& graph_;
  const std::vector<TensorDesc>& descs_;
  const std::vector<std::size_t>& scratch_bytes_;
  const FlatLayout& flat_;
  MicroBatches micro_batches_;
  const GivenPlaces& given_;
  Families families_;
  std::vector<bool> packed_;  // by value: within another one's memory, or the one that others lie in
  std::vector<std::size_t> offset_in_family_;
  std::vector<Lifetime> lifetimes_;
  MemoryPlan plan_;
};

}  // namespace

const char* name_of(Region region) {
  switch (region) {
    case Region::none:
      return "none";
    case Region::arena:
      return "arena";
    case Region::kept:
      return "kept activations";
    case Region::parameters:
      return "parameters";
    case Region::gradients:
      return "gradients";
    case Region::accumulated:
      return "accumulated gradients";
    case Region::optimizer:
      return "optimizer state";
    case Region::states:
      return "states";
    case Region::messages:
      return "messages";
    case Region::inputs:
      return "inputs";
    case Region::reports:
      return "reports";
  }
  return "?";
}

std::size_t MemoryPlan::total_bytes() const {
  return std::accumulate(std::begin(region_bytes), std::end(region_bytes), std::size_t{0});
}

MemoryPlan plan_memory(const Graph& graph, const std::vector<TensorDesc>& descs,
                       const std::vector<std::size_t>& scratch_bytes, const FlatLayout& flat,
                       const MicroBatches& micro_batches, const GivenPlaces& given) {
  return Planner(graph, descs, scratch_bytes, flat, micro_batches, given).run();
}

}  // namespace trifold
