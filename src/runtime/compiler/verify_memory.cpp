// Memory: the program is walked in the order in which it is executed, and every byte knows which write made it. A node
// that reads a value must find that value's bytes, all of them.
//
// One micro-batch stands for all: another one may come between its parts (forward, backward, gradients of weights), of
// which only its slot survives, so the arena is emptied there. Flat values are stretches of the buffers that outlive a
// step; they lie over the parameters, gradients and states of the graph.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/ops/collective.h"
#include "runtime/compiler/memory_contents.h"
#include "runtime/compiler/verify.h"

namespace trifold {
namespace {

class MemoryVerifier {
 public:
  MemoryVerifier(const Program& program, const GivenPlaces& given, const CompileOptions& options, std::string_view pass)
      : program_(program),
        graph_(program.graph),
        plan_(program.memory),
        micro_batches_(options.micro_batches),
        stashes_weights_(options.stashes_weights),
        pass_(pass),
        content_(graph_.values.size(), kNothing),
        flat_(graph_.values.size(), false) {
    for (const GivenPlaces::Packed& packed : given.packed) members_[packed.pack].push_back(packed.value);
  }

  void run() {
    check_plan();
    find_flat_values();
    fill_from_outside();
    for (const int part : {0, 1, 2}) run_part(part);
    check_results();
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (graph_.nodes[i].phase == Phase::update) execute(i);
  }

 private:
  static constexpr int kNothing = MemoryContents::kUnwritten;

  struct Write {
    std::string what;   // "'conv1' by 'conv1 conv2d.forward'"
    bool flat = false;  // of a whole buffer
  };
  // Memory that another rank reads, or writes too, after the node has run.
  struct InFlight {
    Place place;
    const Node* node = nullptr;
    bool written = false;
  };

  const Place& place(ValueId id) const { return plan_.places[static_cast<std::size_t>(id)]; }
  int& content(ValueId id) { return content_[static_cast<std::size_t>(id)]; }
  bool is_flat(ValueId id) const { return flat_[static_cast<std::size_t>(id)]; }
  const std::string& name(ValueId id) const { return graph_[id].name; }
  MemoryContents& contents(Region region) { return contents_[static_cast<int>(region)]; }

  [[noreturn]] void fail(const Node& node, const std::string& what) const { fail_pass(pass_, graph_, node, what); }
  [[noreturn]] void fail(const std::string& what) const { fail_pass(pass_, what); }

  static std::string text(const Place& at) {
    return fmt::format("{} {}..{}", name_of(at.region), at.offset, at.offset + at.bytes);
  }
  static bool overlap(const Place& a, const Place& b) {
    return a.region == b.region && a.bytes > 0 && b.bytes > 0 && a.offset < b.offset + b.bytes &&
           b.offset < a.offset + a.bytes;
  }
  static bool within(const Place& inner, const Place& outer) {
    return inner.region == outer.region && inner.offset >= outer.offset &&
           inner.offset + inner.bytes <= outer.offset + outer.bytes;
  }
  static bool outlives_the_step(Region region) {
    return region == Region::parameters || region == Region::gradients || region == Region::accumulated ||
           region == Region::optimizer || region == Region::states;
  }

  // --- what holds before anything runs

  void check_plan() const {
    if (plan_.places.size() != graph_.values.size() || program_.descs.size() != graph_.values.size() ||
        plan_.scratch_offset.size() != graph_.nodes.size() || program_.kernels.size() != graph_.nodes.size())
      fail("the program does not have one place per value and one kernel per node");
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id) {
      const Place& at = place(id);
      if (at.region == Region::none) continue;
      if (at.bytes != program_.descs[static_cast<std::size_t>(id)].bytes())
        fail(fmt::format("'{}' has {} bytes of memory but needs {}", name(id), at.bytes,
                         program_.descs[static_cast<std::size_t>(id)].bytes()));
      const std::size_t slot = plan_.slot_bytes(at.region);
      const std::size_t end = slot > 0 ? slot : plan_.bytes(at.region);
      if (at.offset + at.bytes > end)
        fail(fmt::format("'{}' lies in {}, beyond its end at {}", name(id), text(at), end));
    }
    for (const auto& [pack, members] : members_)
      for (const ValueId member : members)
        if (!within(place(member), place(pack)))
          fail(fmt::format("'{}' lies in {}, outside of '{}' in {}, which it is part of", name(member),
                           text(place(member)), name(pack), text(place(pack))));
  }

  void find_flat_values() {
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id)
      flat_[static_cast<std::size_t>(id)] = outlives_the_step(place(id).region) && id != graph_.loss_scale;
    for (const Parameter& parameter : graph_.parameters)
      for (const ValueId id : {parameter.value, parameter.gradient})
        if (id != kNoValue) flat_[static_cast<std::size_t>(id)] = false;
  }

  // What is in memory before a step: inputs, parameters, states and the optimiser's state.
  void fill_from_outside() {
    for (const Region region : {Region::parameters, Region::accumulated, Region::optimizer}) {
      writes_.push_back({fmt::format("the {}", name_of(region)), true});
      contents(region).write(0, plan_.bytes(region), static_cast<int>(writes_.size()) - 1);
    }
    const auto fill = [&](ValueId id) {
      const Region region = place(id).region;
      if (region == Region::none || region == Region::arena || region == Region::kept) return;
      put(id, {fmt::format("'{}'", name(id)), false});
    };
    for (const Parameter& parameter : graph_.parameters) fill(parameter.value);
    if (graph_.loss_scale != kNoValue) fill(graph_.loss_scale);
    for (ValueId id = 0; id < static_cast<ValueId>(graph_.values.size()); ++id)
      if (graph_[id].role == Role::input) fill(id);
  }

  // --- the walk

  int part_of(const Node& node) const {
    if (!micro_batches_.interleave) return 0;
    if (node.phase == Phase::forward) return 0;
    return micro_batches_.splits_backward && node.phase == Phase::backward_weight ? 2 : 1;
  }

  void run_part(int part) {
    bool first = part > 0;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (node.phase == Phase::update || part_of(node) != part) continue;
      if (std::exchange(first, false)) come_between();
      execute(i);
    }
  }

  void come_between() {
    for (const InFlight& other : in_flight_)
      if (other.place.region == Region::arena)
        fail(*other.node, fmt::format("sends from {}, which the next micro-batch uses", text(other.place)));
    contents(Region::arena).clear();
    if (stashes_weights_)
      put({Region::parameters, 0, plan_.bytes(Region::parameters)}, {"the update of another micro-batch", false});
  }

  void execute(std::size_t index) {
    const Node& node = graph_.nodes[index];
    for (const std::vector<ValueId>& ids : {node.in, node.out})
      for (const ValueId id : ids)
        if (place(id).region == Region::none) fail(node, fmt::format("uses '{}', which has no memory", name(id)));
    if (node.op->is_view()) return take_view(node);
    if (program_.kernels[index] == nullptr) fail(node, "has no kernel");
    for (const ValueId in : node.in) read(node, in);
    check_outputs(node);
    take_scratch(node, scratch_of(index));
    for (const ValueId out : node.out) write(node, out);
    if (dynamic_cast<const JoinSums*>(node.op.get()) != nullptr)
      std::erase_if(in_flight_, [](const InFlight& each) { return each.written; });
    if (const auto* send = dynamic_cast<const Send*>(node.op.get()); send && send->copies == 0) {
      if (place(node.in[0]).region == Region::inputs)
        fail(node,
             fmt::format("sends from {}, which the samples of a later micro-batch overwrite", text(place(node.in[0]))));
      in_flight_.push_back({place(node.in[0]), &node, false});
    }
    if (const auto* sum = dynamic_cast<const AllReduce*>(node.op.get()); sum && sum->aside)
      in_flight_.insert(in_flight_.end(), {{place(node.out[0]), &node, true}, {scratch_of(index), &node, true}});
  }

  void take_view(const Node& node) {
    const ValueId from = node.in[0];
    const ValueId to = node.out[0];
    if (!within(place(to), place(from)))
      fail(node, fmt::format("views '{}' in {} as '{}' in {}, which lies outside of it", name(from), text(place(from)),
                             name(to), text(place(to))));
    read(node, from);
    content(to) = content(from);
  }

  void read(const Node& node, ValueId id) {
    for (const InFlight& other : in_flight_)
      if (other.written && overlap(other.place, place(id)) && dynamic_cast<const JoinSums*>(node.op.get()) == nullptr)
        fail(node, fmt::format("reads '{}' in {}, which '{}' is still adding up", name(id), text(place(id)),
                               node_name(graph_, *other.node)));
    if (is_flat(id)) return read_flat(node, id);
    const auto members = members_.find(id);
    if (members == members_.end()) return expect(node, id, place(id), content(id));
    for (const ValueId member : members->second) expect(node, member, place(member), content(member));
  }

  // Padding is never written: what counts is what lies between.
  void read_flat(const Node& node, ValueId id) {
    if (place(id).bytes == 0) return;
    bool written = false;
    contents(place(id).region).visit(place(id).offset, place(id).offset + place(id).bytes, [&](auto, auto, int by) {
      written = written || by != kNothing;
    });
    if (!written) fail(node, fmt::format("reads '{}' in {}, which nothing has written", name(id), text(place(id))));
    for (const ValueId piece : pieces_) {
      if (!overlap(place(piece), place(id))) continue;
      const std::size_t begin = std::max(place(piece).offset, place(id).offset);
      const std::size_t end = std::min(place(piece).offset + place(piece).bytes, place(id).offset + place(id).bytes);
      expect(node, piece, {place(piece).region, begin, end - begin}, content(piece));
    }
  }

  void expect(const Node& node, ValueId id, const Place& at, int wanted) {
    if (wanted == kNothing)
      fail(node, fmt::format("reads '{}' in {} before anything has written it there", name(id), text(at)));
    contents(at.region).visit(at.offset, at.offset + at.bytes, [&](std::size_t begin, std::size_t end, int by) {
      if (by == wanted || (by != kNothing && write_of(by).flat && outlives_the_step(at.region))) return;
      fail(node, fmt::format("reads '{}' in {}, but bytes {}..{} hold {}", name(id), text(at), begin, end,
                             by == kNothing ? "nothing of this micro-batch" : write_of(by).what));
    });
  }
  const Write& write_of(int by) const { return writes_[static_cast<std::size_t>(by)]; }

  // An output may lie over an input only where the op says so, and exactly.
  void check_outputs(const Node& node) const {
    for (std::size_t o = 0; o < node.out.size(); ++o) {
      const Place& out = place(node.out[o]);
      for (std::size_t other = 0; other < o; ++other)
        if (overlap(out, place(node.out[other])))
          fail(node, fmt::format("writes '{}' and '{}' to the same bytes of {}", name(node.out[other]),
                                 name(node.out[o]), text(out)));
      const std::vector<int> may = node.op->in_place(static_cast<int>(o));
      int shared = 0;
      for (std::size_t i = 0; i < node.in.size(); ++i) {
        const Place& in = place(node.in[i]);
        if (!overlap(out, in) || exchanges_parts(node, node.in[i], node.out[o])) continue;
        const bool allowed = std::ranges::find(may, static_cast<int>(i)) != may.end();
        if (!allowed || ++shared > 1 || in.offset != out.offset || in.bytes != out.bytes)
          fail(node, fmt::format("writes '{}' to {} while it reads '{}' in {}", name(node.out[o]), text(out),
                                 name(node.in[i]), text(in)));
      }
    }
  }

  // Collectives of the update gather to, and scatter from, the buffer that has this rank's part.
  bool exchanges_parts(const Node& node, ValueId in, ValueId out) const {
    return is_flat(in) && is_flat(out) && dynamic_cast<const Exchange*>(node.op.get()) != nullptr &&
           (within(place(in), place(out)) || within(place(out), place(in)));
  }

  Place scratch_of(std::size_t index) const {
    const Kernel& kernel = *program_.kernels[index];
    const std::size_t offset = plan_.scratch_offset[index];
    if (kernel.lasting_bytes() > 0) return {Region::messages, offset, kernel.lasting_bytes()};
    return {Region::arena, offset, kernel.scratch_bytes()};
  }

  void take_scratch(const Node& node, const Place& at) {
    if (at.bytes == 0) return;
    if (at.offset + at.bytes > plan_.bytes(at.region))
      fail(node, fmt::format("has its scratch in {}, beyond its end at {}", text(at), plan_.bytes(at.region)));
    for (const std::vector<ValueId>& ids : {node.in, node.out})
      for (const ValueId id : ids)
        if (overlap(at, place(id)))
          fail(node, fmt::format("has its scratch in {} over '{}' in {}", text(at), name(id), text(place(id))));
    if (at.region == Region::messages)
      contents(at.region).visit(at.offset, at.offset + at.bytes, [&](auto, auto, int by) {
        if (by != kNothing) fail(node, fmt::format("keeps memory in {}, which holds {}", text(at), write_of(by).what));
      });
    overwrite(node, at, {fmt::format("the scratch of '{}'", node_name(graph_, node)), false});
  }

  void write(const Node& node, ValueId id) {
    if (place(id).region == Region::inputs)
      fail(node, fmt::format("writes '{}' over the inputs in {}", name(id), text(place(id))));
    overwrite(node, place(id), {fmt::format("'{}' of '{}'", name(id), node_name(graph_, node)), is_flat(id)});
    content(id) = static_cast<int>(writes_.size()) - 1;
    if (const auto members = members_.find(id); members != members_.end())
      for (const ValueId member : members->second) content(member) = content(id);
    if (place(id).region == Region::gradients && !is_flat(id)) pieces_.push_back(id);
  }

  void overwrite(const Node& node, const Place& at, Write by) {
    for (const InFlight& other : in_flight_)
      if (overlap(other.place, at) && dynamic_cast<const JoinSums*>(node.op.get()) == nullptr)
        fail(node, fmt::format("writes {} to {}, which '{}' has not finished with", by.what, text(at),
                               node_name(graph_, *other.node)));
    put(at, std::move(by));
  }
  void put(const Place& at, Write by) {
    writes_.push_back(std::move(by));
    contents(at.region).write(at.offset, at.offset + at.bytes, static_cast<int>(writes_.size()) - 1);
  }
  void put(ValueId id, Write by) {
    put(place(id), std::move(by));
    content(id) = static_cast<int>(writes_.size()) - 1;
  }

  // What the trainer reads when forward and backward work is done. From a pipeline it reads only evaluation's output.
  void check_results() {
    const auto check = [&](ValueId id) {
      contents(place(id).region).visit(place(id).offset, place(id).offset + place(id).bytes, [&](auto, auto, int by) {
        if (by == kNothing || by != content(id))
          fail(fmt::format("the result '{}' is no longer in {} at the end", name(id), text(place(id))));
      });
    };
    const bool overtaken = micro_batches_.interleave &&
                           std::ranges::any_of(graph_.nodes, [&](const Node& node) { return part_of(node) > 0; });
    if (graph_.report != kNoValue) check(graph_.report);
    if (graph_.output != kNoValue && !overtaken) check(graph_.output);
  }

  const Program& program_;
  const Graph& graph_;
  const MemoryPlan& plan_;
  MicroBatches micro_batches_;
  bool stashes_weights_;
  std::string_view pass_;
  MemoryContents contents_[kRegions];
  std::vector<Write> writes_;
  std::vector<int> content_;                         // by value: the write that made what it holds
  std::vector<bool> flat_;                           // by value
  std::map<ValueId, std::vector<ValueId>> members_;  // of values that others are packed in
  std::vector<ValueId> pieces_;                      // gradients of parameters, as far as they are written
  std::vector<InFlight> in_flight_;
};

}  // namespace

void verify_memory(const Program& program, const GivenPlaces& given, const CompileOptions& options,
                   std::string_view pass) {
  MemoryVerifier(program, given, options, pass).run();
}

}  // namespace trifold
