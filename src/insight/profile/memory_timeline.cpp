#include "insight/profile/memory_timeline.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "parallel/pipeline/pipeline_slots.h"

namespace trifold {
namespace {

// A micro-batch's visits of one program's nodes, in the order of both.
struct Visit {
  int node = 0;
  int moment = 0;
};

// First and last node that names a value; -1: none does.
struct Touched {
  int first = -1;
  int last = -1;
};

class Builder {
 public:
  Builder(const ParallelModel& model, int rank, std::span<const Span> spans) : model_(model), rank_(rank) {
    add_moments(spans);
    const auto chunks = static_cast<int>(model.chunks(rank).size());
    const MeshPlace place = place_of(model.plan().mesh, rank);
    if (model.plan().mesh.pipeline > 1) slots_ = assign_slots(model.plan().pipeline, place.pipeline);
    for (int chunk = 0; chunk < chunks; ++chunk) add_chunk(chunk, chunks);
    found_.ranks = {rank};
    found_.evaluation_bytes = model.memory_bytes(rank) - found_.bytes;
  }

  MemoryTimeline take() { return std::move(found_); }

 private:
  const Program& program(int chunk) const {
    return model_.chunks(rank_)[static_cast<std::size_t>(chunk)]->training().program();
  }

  void add_moments(std::span<const Span> spans) {
    std::map<std::pair<int, int>, int> name_at;  // by chunk and node
    for (const Span& span : spans) {
      if (span.kind != Span::Kind::node) continue;
      const Program& of = program(span.chunk);
      const Node& node = of.graph.nodes[static_cast<std::size_t>(span.node)];
      const auto [at, added] = name_at.try_emplace({span.chunk, span.node}, static_cast<int>(found_.nodes.size()));
      if (added) found_.nodes.push_back(name_of_node(of, node));
      if (found_.moments.empty()) begin_ = span.begin;
      const auto ms_since = [&](Span::Clock::time_point time) {
        return std::chrono::duration<double, std::milli>(time - begin_).count();
      };
      visits_[{span.chunk, span.micro_batch}].push_back({span.node, static_cast<int>(found_.moments.size())});
      found_.moments.push_back({.node = at->second, .micro_batch = span.micro_batch, .begin_ms = ms_since(span.begin)});
      chunk_of_moment_.push_back(span.chunk);
      found_.end_ms = ms_since(span.end);
    }
  }

  static std::string layer_of(const Program& of, const Node& node) {
    return node.layer < 0 ? "" : of.graph.layers[static_cast<std::size_t>(node.layer)].id;
  }
  static std::string name_of_node(const Program& of, const Node& node) {
    const std::string layer = layer_of(of, node);
    return fmt::format("{}{}{} {}", layer, layer.empty() ? "" : " ", node.op->name(), trifold::name_of(node.phase));
  }

  void add_chunk(int chunk, int chunks) {
    const Program& of = program(chunk);
    for (int region = 1; region < kRegions; ++region) {
      const std::size_t bytes = of.memory.region_bytes[region];
      base_[region] = found_.bytes;
      if (bytes == 0) continue;
      const std::string name = trifold::name_of(static_cast<Region>(region));
      found_.regions.push_back({chunks > 1 ? fmt::format("chunk {}: {}", chunk, name) : name, found_.bytes, bytes});
      found_.bytes += bytes;
    }
    if (found_.moments.empty()) return;
    for (const Region region : {Region::parameters, Region::gradients, Region::accumulated, Region::optimizer})
      add_flat(of, region);
    for (const Region region : {Region::states, Region::inputs, Region::reports}) add_placed(of, region);
    add_lasting(of);
    add_blocks(of, chunk);
    add_update_scratch(of, chunk);
  }

  // --- what outlasts the step

  void add_whole_step(MemoryOwner owner, Region region, std::size_t offset, std::size_t bytes) {
    add_life(std::move(owner), {.first = 0,
                                .last = static_cast<int>(found_.moments.size()) - 1,
                                .offset = base_[static_cast<int>(region)] + offset,
                                .bytes = bytes});
  }

  static std::string layer_of_parameter(const Graph& graph, int parameter) {
    for (const LayerInfo& layer : graph.layers)
      if (std::ranges::find(layer.parameters, parameter) != layer.parameters.end()) return layer.id;
    return "";
  }

  // Parameters one after the other, in as many copies as the region has; with ZeRO this replica's part of each bucket.
  void add_flat(const Program& of, Region region) {
    const FlatLayout& flat = of.flat;
    const std::size_t copy_bytes = flat.bytes_of(region);
    if (copy_bytes == 0) return;
    const MemoryKind kind = region == Region::parameters  ? MemoryKind::parameters
                            : region == Region::optimizer ? MemoryKind::optimizer_state
                                                          : MemoryKind::weight_gradients;
    for (std::size_t copy = 0; copy + copy_bytes <= of.memory.bytes(region); copy += copy_bytes)
      for (const Bucket& bucket : flat.buckets)
        for (const int parameter : bucket.parameters) {
          const Parameter& of_layer = of.graph.parameters[static_cast<std::size_t>(parameter)];
          std::size_t begin = flat.offsets[static_cast<std::size_t>(parameter)];
          std::size_t end = begin + of.descs[static_cast<std::size_t>(of_layer.value)].bytes();
          std::size_t moved = 0;  // from the whole buffer's offsets to the region's
          if (flat.shards(region)) {
            const std::size_t part = flat.part_begin(bucket, flat.replication.replica);
            begin = std::max(begin, part);
            end = std::min(end, part + flat.part_bytes(bucket));
            moved = part - flat.part(bucket, region).offset;
          }
          if (begin >= end) continue;
          add_whole_step({of_layer.name, layer_of_parameter(of.graph, parameter), kind}, region, copy + begin - moved,
                         end - begin);
        }
  }

  // Values with places of their own, in every slot. Views and values that stand for several of them come later.
  void add_placed(const Program& of, Region region) {
    std::vector<ValueId> ids;
    for (ValueId id = 0; id < static_cast<ValueId>(of.memory.places.size()); ++id)
      if (of.memory.places[static_cast<std::size_t>(id)].region == region) ids.push_back(id);
    const auto place = [&](ValueId id) -> const Place& { return of.memory.places[static_cast<std::size_t>(id)]; };
    std::ranges::stable_sort(ids, {}, [&](ValueId id) { return std::pair(place(id).offset, place(id).bytes); });
    const int slots = region == Region::inputs ? of.memory.slots : 1;
    std::size_t end = 0;
    for (const ValueId id : ids) {
      if (place(id).offset < end) continue;
      end = place(id).offset + place(id).bytes;
      std::string layer;
      for (int i = 0; i < static_cast<int>(of.graph.parameters.size()); ++i)
        if (of.graph.parameters[static_cast<std::size_t>(i)].value == id) layer = layer_of_parameter(of.graph, i);
      const MemoryKind kind = region == Region::inputs ? MemoryKind::batch : MemoryKind::layer_states;
      for (int slot = 0; slot < slots; ++slot)
        add_whole_step({of.graph[id].name, layer, kind}, region,
                       place(id).offset + static_cast<std::size_t>(slot) * of.memory.slot_bytes(region),
                       place(id).bytes);
    }
  }

  void add_lasting(const Program& of) {
    for (std::size_t i = 0; i < of.kernels.size(); ++i)
      if (of.kernels[i] && of.kernels[i]->lasting_bytes() > 0) {
        const Node& node = of.graph.nodes[i];
        add_whole_step({name_of_node(of, node), layer_of(of, node), MemoryKind::communication}, Region::messages,
                       of.memory.scratch_offset[i], of.kernels[i]->lasting_bytes());
      }
  }

  // --- what comes and goes

  // Values that lie in a block during its life, earliest first. Blocks that share memory do not share time.
  std::vector<ValueId> values_in(const Program& of, const ArenaBlock& block,
                                 const std::vector<Touched>& touched) const {
    std::vector<ValueId> found;
    for (ValueId id = 0; id < static_cast<ValueId>(touched.size()); ++id) {
      const Place& place = of.memory.places[static_cast<std::size_t>(id)];
      const Touched& life = touched[static_cast<std::size_t>(id)];
      if (place.region == block.region && place.offset >= block.offset && place.offset < block.offset + block.bytes &&
          life.first >= block.first && life.last <= block.last)
        found.push_back(id);
    }
    std::ranges::stable_sort(found, {}, [&](ValueId id) { return touched[static_cast<std::size_t>(id)].first; });
    return found;
  }

  void add_blocks(const Program& of, int chunk) {
    std::vector<Touched> touched(of.graph.values.size());
    std::vector<int> maker(of.graph.values.size(), -1);
    int planned = 0;  // nodes; the update's come after them
    for (int i = 0; i < static_cast<int>(of.graph.nodes.size()); ++i) {
      const Node& node = of.graph.nodes[static_cast<std::size_t>(i)];
      if (node.phase != Phase::update) planned = i + 1;
      for (const std::vector<ValueId>* ids : {&node.in, &node.out})
        for (const ValueId id : *ids) {
          Touched& life = touched[static_cast<std::size_t>(id)];
          if (life.first < 0) life.first = i;
          life.last = i;
          if (ids == &node.out && maker[static_cast<std::size_t>(id)] < 0) maker[static_cast<std::size_t>(id)] = i;
        }
    }
    for (const ArenaBlock& block : of.memory.blocks) {
      const int last = std::min(block.last, planned - 1);
      const Node& first_node = of.graph.nodes[static_cast<std::size_t>(block.first)];
      const std::vector<ValueId> values = values_in(of, block, touched);
      if (values.empty()) {
        add_lives({name_of_node(of, first_node), layer_of(of, first_node), MemoryKind::scratch}, of, block, chunk,
                  block.first, last);
        continue;
      }
      const bool packed = std::ranges::any_of(
          values, [&](ValueId id) { return of.memory.places[static_cast<std::size_t>(id)].offset != block.offset; });
      if (packed) {
        const ValueId whole = *std::ranges::max_element(
            values, {}, [&](ValueId id) { return of.memory.places[static_cast<std::size_t>(id)].bytes; });
        const MemoryKind kind =
            of.graph[whole].role == Role::activation ? MemoryKind::parameter_copies : MemoryKind::weight_gradients;
        add_lives({of.graph[whole].name, "", kind}, of, block, chunk, block.first, last);
        continue;
      }
      // A value that is made where another lay takes it over; a view does not.
      std::vector<std::pair<ValueId, int>> owners;  // and the node from which on
      for (const ValueId id : values) {
        const int made = maker[static_cast<std::size_t>(id)];
        const bool view = made >= 0 && of.graph.nodes[static_cast<std::size_t>(made)].op->is_view();
        if (owners.empty() || !view) owners.emplace_back(id, touched[static_cast<std::size_t>(id)].first);
      }
      owners.front().second = block.first;
      for (std::size_t i = 0; i < owners.size(); ++i) {
        const auto [id, from] = owners[i];
        const int to = i + 1 < owners.size() ? owners[i + 1].second - 1 : last;
        if (to < from) continue;  // taken over by another output of the same node
        const int made = maker[static_cast<std::size_t>(id)];
        const Node& node = made < 0 ? first_node : of.graph.nodes[static_cast<std::size_t>(made)];
        add_lives({of.graph[id].name, layer_of(of, node), kind_of(of, id, from, to)}, of, block, chunk, from, to);
      }
    }
  }

  static MemoryKind kind_of(const Program& of, ValueId id, int from, int to) {
    if (of.graph[id].role == Role::gradient) return MemoryKind::activation_gradients;
    if (of.graph[id].role == Role::parameter_gradient) return MemoryKind::weight_gradients;
    const auto forward = [&](int node) {
      return of.graph.nodes[static_cast<std::size_t>(node)].phase == Phase::forward;
    };
    return forward(from) && !forward(to) ? MemoryKind::kept_activations : MemoryKind::passing_activations;
  }

  // One life a micro-batch, in its slot, from the first of these nodes that it visits to the last.
  void add_lives(const MemoryOwner& owner, const Program& of, const ArenaBlock& block, int chunk, int from, int to) {
    for (const auto& [of_whom, visits] : visits_) {
      if (of_whom.first != chunk) continue;
      const auto begin = std::ranges::lower_bound(visits, from, {}, &Visit::node);
      const auto end = std::ranges::upper_bound(visits, to, {}, &Visit::node);
      if (begin >= end) continue;
      MemoryLife life{.first = begin->moment, .last = std::prev(end)->moment, .bytes = block.bytes};
      life.offset = base_[static_cast<int>(block.region)] + block.offset;
      if (block.region == Region::kept)
        life.offset += static_cast<std::size_t>(slot_of(chunk, of_whom.second)) * of.memory.slot_bytes(Region::kept);
      else
        life.last = std::min(life.last, end_of_run(life.first));
      add_life(owner, life);
    }
  }

  // Other micro-batches of a stage use the same arena: what one has there ends where another's work begins.
  int end_of_run(int moment) const {
    const auto who = [&](int at) {
      const auto index = static_cast<std::size_t>(at);
      return std::pair(chunk_of_moment_[index], found_.moments[index].micro_batch);
    };
    int last = moment;
    while (last + 1 < static_cast<int>(found_.moments.size()) && who(last + 1) == who(moment)) ++last;
    return last;
  }

  int slot_of(int chunk, int micro_batch) const {
    for (std::size_t i = 0; i < slots_.actions.size(); ++i)
      if (slots_.actions[i].chunk == chunk && slots_.actions[i].micro_batch == micro_batch) return slots_.slot[i];
    return 0;
  }

  // The update has the whole arena to itself.
  void add_update_scratch(const Program& of, int chunk) {
    for (const auto& [of_whom, visits] : visits_)
      for (const Visit& visit : visits) {
        const auto index = static_cast<std::size_t>(visit.node);
        const Node& node = of_whom.first == chunk ? of.graph.nodes[index] : Node{};
        if (of_whom.first != chunk || node.phase != Phase::update || of.kernels[index]->scratch_bytes() == 0) continue;
        add_life({name_of_node(of, node), layer_of(of, node), MemoryKind::scratch},
                 {.first = visit.moment,
                  .last = visit.moment,
                  .offset = base_[static_cast<int>(Region::arena)] + of.memory.scratch_offset[index],
                  .bytes = of.kernels[index]->scratch_bytes()});
      }
  }

  void add_life(MemoryOwner owner, MemoryLife life) {
    const auto [at, added] = owner_at_.try_emplace(owner, static_cast<int>(found_.owners.size()));
    if (added) found_.owners.push_back(std::move(owner));
    life.owner = at->second;
    found_.lives.push_back(life);
  }

  const ParallelModel& model_;
  int rank_;
  MemoryTimeline found_;
  Span::Clock::time_point begin_ = {};
  std::vector<int> chunk_of_moment_;
  std::map<std::pair<int, int>, std::vector<Visit>> visits_;  // by chunk and micro-batch
  SlottedActions slots_;
  std::map<MemoryOwner, int> owner_at_;
  std::size_t base_[kRegions] = {};  // of each region of the chunk at hand, in the rank's memory
};

}  // namespace

const char* name_of(MemoryKind kind) {
  static constexpr const char* kNames[kMemoryKinds] = {
      "parameters",       "optimiser state",  "weight gradients",    "layer states",         "batch",  "communication",
      "parameter copies", "kept activations", "passing activations", "activation gradients", "scratch"};
  return kNames[static_cast<int>(kind)];
}

std::vector<std::size_t> MemoryTimeline::live_bytes() const {
  std::vector<std::size_t> live(moments.size() + 1, 0);
  for (const MemoryLife& life : lives) {
    live[static_cast<std::size_t>(life.first)] += life.bytes;
    live[static_cast<std::size_t>(life.last) + 1] -= life.bytes;  // wraps, and back in the sum
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.pop_back();
  return live;
}

MemoryTimeline memory_timeline(const ParallelModel& model, int rank, std::span<const Span> spans) {
  return Builder(model, rank, spans).take();
}

void join_timeline(std::vector<MemoryTimeline>& timelines, MemoryTimeline next) {
  for (MemoryTimeline& each : timelines)
    if (each.bytes == next.bytes && each.nodes == next.nodes && each.owners == next.owners &&
        each.lives == next.lives) {
      each.ranks.insert(each.ranks.end(), next.ranks.begin(), next.ranks.end());
      return;
    }
  timelines.push_back(std::move(next));
}

}  // namespace trifold
