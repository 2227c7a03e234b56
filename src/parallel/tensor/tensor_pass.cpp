#include "parallel/tensor/tensor_pass.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "kernels/ops/grid.h"
#include "parallel/tensor/layer_parts.h"
#include "parallel/tensor/placement_conversion.h"
#include "parallel/tensor/split_choice.h"

namespace trifold {
namespace {

// What the names of converted values end in.
const char* suffix_of(Placement placement) {
  switch (placement) {
    case Placement::whole:
      return " whole";
    case Placement::channels:
      return " part";
    case Placement::rows:
      return " rows";
    case Placement::blocks:
      return " block";
    case Placement::shared:
      return " shared";
    case Placement::partial:
      return " term";
  }
  return "";
}

// Builds the divided graph layer by layer. Values of the whole graph keep their ids there; the divided graph has ids of
// its own.
class TensorPass {
 public:
  TensorPass(const ForwardGraph& whole, const TensorPlan& plan)
      : whole_(whole), plan_(plan), builder_(whole.graph[whole.graph.images].shape, whole.context, whole.mode) {
    for (std::size_t i = 0; i < whole.layers.size(); ++i)
      for (const ValueId in : whole.graph.layers[i].in) readers_[in].push_back(i);
    place(whole.first_input, builder_.forward().first_input, Placement::whole);
  }

  ForwardGraph run() {
    for (std::size_t i = 0; i < whole_.layers.size(); ++i) divide_layer(i);
    return builder_.finish();
  }

 private:
  // What a value of the divided graph is.
  struct Placed {
    Placement placement = Placement::whole;
    ValueId whole = kNoValue;  // the value of the whole graph that it is, or is a part of
  };

  // A value as other layers read it.
  struct ReadAs {
    Placement placement = Placement::whole;
    PlacementConversion by = {};
    ValueId value = kNoValue;
  };

  void divide_layer(std::size_t index) {
    const GraphLayer& whole = whole_.layers[index];
    const LayerInfo& info = whole_.graph.layers[index];
    const Shape& whole_out = whole_.graph[info.out].shape;
    std::vector<ValueId> in;
    for (const ValueId value : info.in) in.push_back(divided_.at(value));
    const LayerSplit split = choose(index, in);
    const Placement reads = placement_read(*whole.layer, split, in);
    for (ValueId& value : in)
      value = reads == Placement::rows ? with_rows_for(*whole.layer, value, whole_out) : placed_as(value, reads);

    builder_.add_layer(whole.spec, part_of(whole, split, in), in);
    mark_parameters(index, split);
    const bool sums = split == LayerSplit::in_channels || (split == LayerSplit::rows && whole.layer->sums_over_rows());
    LayerInfo& divided = graph().layers.back();
    place(info.out, divided.out, sums ? Placement::partial : placement_written(split, reads));
    if (!sums) return;
    divided.out = add_up_terms(divided.out);
    divided_[info.out] = divided.out;
  }

  const Graph& graph() const { return builder_.forward().graph; }
  Graph& graph() { return builder_.forward().graph; }
  int next_layer() const { return static_cast<int>(graph().layers.size()); }

  // --- how values lie

  void place(ValueId whole, ValueId divided, Placement placement) {
    divided_[whole] = divided;
    placed_[divided] = {placement, whole};
    if (placement == Placement::rows && whole_shape(divided)[2] % plan_.parts != 0) graph().rows_differ = true;
  }

  Placement placement_of(ValueId divided) const { return placed_.at(divided).placement; }
  const Shape& whole_shape(ValueId divided) const { return whole_.graph[placed_.at(divided).whole].shape; }

  static Placement placement_written(LayerSplit split, Placement reads) {
    return split == LayerSplit::out_channels || split == LayerSplit::groups ? Placement::channels : reads;
  }

  Placement placement_read(const Layer& layer, LayerSplit split, std::span<const ValueId> in) const {
    switch (split) {
      case LayerSplit::out_channels:
        return Placement::shared;
      case LayerSplit::in_channels:
      case LayerSplit::groups:
        return Placement::channels;
      case LayerSplit::rows:
        return Placement::rows;
      case LayerSplit::blocks:
        return Placement::blocks;
      case LayerSplit::whole:
        break;
    }
    const bool in_parts =
        std::ranges::all_of(in, [&](ValueId value) { return placement_of(value) == Placement::channels; });
    return in_parts && layer.is_channel_local() ? Placement::channels : Placement::whole;
  }

  // --- the layer's part

  LayerSplit choose(std::size_t index, std::span<const ValueId> in) const {
    std::vector<Shape> shapes;
    std::vector<Placement> come;
    for (const ValueId value : in) {
      shapes.push_back(whole_shape(value));
      come.push_back(placement_of(value));
    }
    const GraphLayer& layer = whole_.layers[index];
    return choose_split({.spec = layer.spec,
                         .layer = *layer.layer,
                         .in = shapes,
                         .come = come,
                         .named = index < plan_.splits.size() ? plan_.splits[index] : std::nullopt,
                         .parts = plan_.parts,
                         .is_read_by_products = [&] { return is_read_by_products(index); }});
  }

  // Whether all that read the layer, beyond layers that are local to channels, are products.
  bool is_read_by_products(std::size_t index) const {
    const auto readers = readers_.find(whole_.graph.layers[index].out);
    if (readers == readers_.end()) return false;
    return std::ranges::all_of(readers->second, [&](std::size_t reader) {
      const Layer& layer = *whole_.layers[reader].layer;
      return layer.sums_over_channels() ||
             (layer.is_channel_local() && whole_.graph.layers[reader].in.size() == 1 && is_read_by_products(reader));
    });
  }

  // `in`: as the layer reads them.
  std::shared_ptr<const Layer> part_of(const GraphLayer& whole, LayerSplit split, std::span<const ValueId> in) const {
    const bool reads_whole =
        std::ranges::all_of(in, [&](ValueId value) { return placement_of(value) == Placement::whole; });
    if (split == LayerSplit::whole && reads_whole) return whole.layer;
    LayerPart part{.split = split, .index = plan_.part, .count = plan_.parts};
    for (const ValueId value : in) part.in.push_back(part_of_input(value));
    return make_layer_part(whole.spec.type, whole.spec.values, part);
  }

  InputPart part_of_input(ValueId value) const {
    InputPart part{.whole = whole_shape(value)};
    if (placement_of(value) == Placement::channels) part.first_channel = plan_.part * graph()[value].shape[1];
    if (placement_of(value) != Placement::rows) return part;
    for (int rank = 0; rank < plan_.parts; ++rank) part.rows.push_back(rows_of_part(part.whole[2], rank, plan_.parts));
    part.first_row = part.rows[static_cast<std::size_t>(plan_.part)].begin;
    return part;
  }

  // Parameters start as the whole layer's do.
  void mark_parameters(std::size_t index, LayerSplit split) {
    const std::vector<int>& whole = whole_.graph.layers[index].parameters;
    const std::vector<int>& mine = graph().layers.back().parameters;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const Parameter& of = whole_.graph.parameters[static_cast<std::size_t>(whole[i])];
      Parameter& parameter = graph().parameters[static_cast<std::size_t>(mine[i])];
      parameter.init = of.init;
      parameter.decay = of.decay;
      parameter.shard = shard_of(whole_.graph[of.value].shape, graph()[parameter.value].shape, split);
    }
    // All ranks have the parameters, and each makes the terms of their gradients that its rows give.
    if (split == LayerSplit::rows)
      builder_.forward().layers.back().parameter_gradient_op =
          convert_placement(Placement::whole, Placement::shared, {}, plan_.part, plan_.parts).gradient;
  }

  Shard shard_of(const Shape& whole, const Shape& mine, LayerSplit split) const {
    if (split == LayerSplit::blocks) {
      // Rank (i, j) has the outputs of its column and the inputs of its row: so a column gathers all inputs.
      const TensorGrid grid{grid_side(plan_.parts), plan_.part};
      Shard shard{.dim = 0, .index = grid.column(), .count = grid.side};
      if (whole.rank() == 2)
        shard.column = grid.row(), shard.columns = grid.side;
      else
        shard.copy = grid.row();
      return shard;
    }
    for (int dim = whole.rank() - 1; dim >= 0; --dim)
      if (mine[dim] != whole[dim]) return {dim, plan_.part, plan_.parts};
    return {.copy = plan_.part};
  }

  // --- conversions

  // The value as a layer reads it: converted once for all that read it so.
  ValueId placed_as(ValueId value, Placement wanted) {
    const Placement has = placement_of(value);
    if (has == wanted) return value;
    if (has != Placement::whole && wanted != Placement::whole)
      return placed_as(placed_as(value, Placement::whole), wanted);
    return convert(value, wanted, convert_placement(has, wanted, whole_shape(value), plan_.part, plan_.parts));
  }

  // The rows of the value that this rank's rows of the layer's output need.
  ValueId with_rows_for(const Layer& layer, ValueId value, const Shape& whole_out) {
    const std::optional<RowWindow> window = layer.row_window();
    if (!window) return placed_as(value, Placement::rows);
    const Shape& whole = whole_shape(value);
    const RowMoves moves = moves_for(*window, whole[2], whole_out[2], plan_.part, plan_.parts);
    if (moves.wants == moves.has) return placed_as(value, Placement::rows);
    // Images are on every rank, and nobody asks for their gradient.
    if (placement_of(value) == Placement::whole && !builder_.forward().is_trained(value))
      return convert(value, Placement::rows, cut_rows(moves, window->edge, whole));
    return convert(placed_as(value, Placement::rows), Placement::rows, fetch_rows(moves, window->edge, whole));
  }

  ValueId convert(ValueId value, Placement wanted, PlacementConversion by) {
    for (const ReadAs& known : read_as_[value])
      if (known.placement == wanted && known.by.rows == by.rows && known.by.edge == by.edge) return known.value;
    const Value& from = graph()[value];
    const ValueId converted =
        builder_.add_conversion(value, by.forward, by.gradient,
                                {from.name + suffix_of(wanted), by.shape, from.dtype, Role::activation}, next_layer());
    placed_[converted] = {wanted, placed_.at(value).whole};
    const auto differs = [&](const RowRun& run) { return run.count() != by.rows.front().count(); };
    if (std::ranges::any_of(by.rows, differs)) graph().rows_differ = true;
    read_as_[value].push_back({wanted, std::move(by), converted});
    return converted;
  }

  // The layer that was added last makes a term of its output on each rank.
  ValueId add_up_terms(ValueId terms) {
    const Value term = graph()[terms];
    const PlacementConversion sum =
        convert_placement(Placement::partial, Placement::whole, term.shape, plan_.part, plan_.parts);
    const ValueId value = builder_.add_conversion(
        terms, sum.forward, sum.gradient, {term.name + " sum", term.shape, term.dtype, term.role}, next_layer() - 1);
    placed_[value] = {Placement::whole, placed_.at(terms).whole};
    return value;
  }

  const ForwardGraph& whole_;
  const TensorPlan& plan_;
  ForwardGraphBuilder builder_;
  std::map<ValueId, std::vector<std::size_t>> readers_;  // by value of the whole graph: layers that read it
  std::map<ValueId, ValueId> divided_;                   // by value of the whole graph: what layers start from
  std::map<ValueId, Placed> placed_;                     // by value of the divided graph
  std::map<ValueId, std::vector<ReadAs>> read_as_;       // by value of the divided graph
};

}  // namespace

ForwardGraph divide_among_tensor_ranks(ForwardGraph whole, const TensorPlan& plan) {
  return plan.parts > 1 ? TensorPass(whole, plan).run() : std::move(whole);
}

}  // namespace trifold
