#include "parallel/tensor/placement_conversion.h"

#include "core/error.h"
#include "kernels/ops/grid.h"
#include "kernels/ops/shape_ops.h"

namespace trifold {
namespace {

template <class T>
OpPtr shared_op(T op) {
  return std::make_shared<const T>(std::move(op));
}

OpPtr take_channels(std::int64_t first) {
  SplitChannels op;
  op.first_channel = {first};
  return shared_op(op);
}

OpPtr take_rows(std::int64_t first, RowEdge edge = RowEdge::zero) {
  TakeRows op;
  op.first_row = first;
  op.edge = edge;
  return shared_op(op);
}

OpPtr gather_rows(const Shape& whole, int part, int parts) {
  GatherRows op;
  op.moves = moves_for_whole(whole[2], part, parts);
  return shared_op(op);
}

OpPtr sum_over_tensor_ranks() {
  AllReduce op;
  op.axis = Axis::tensor;
  return shared_op(op);
}

}  // namespace

PlacementConversion convert_placement(Placement from, Placement to, const Shape& whole, int part, int parts) {
  TRIFOLD_CHECK((from == Placement::whole) != (to == Placement::whole), "a value is converted by way of the whole");
  Shape mine = whole;
  switch (from == Placement::whole ? to : from) {
    case Placement::shared:
      return {shared_op(Reshape{}), sum_over_tensor_ranks(), whole};
    case Placement::partial:
      return {sum_over_tensor_ranks(), nullptr, whole};
    case Placement::channels: {
      mine[1] /= parts;
      const OpPtr take = take_channels(part * mine[1]);
      const OpPtr gather = shared_op(GatherChannels{});
      return to == Placement::whole ? PlacementConversion{gather, take, whole}
                                    : PlacementConversion{take, gather, mine};
    }
    case Placement::rows: {
      const RowMoves own = moves_for({}, whole[2], whole[2], part, parts);
      mine[2] = own.mine().count();
      const OpPtr take = take_rows(own.mine().begin);
      const OpPtr gather = gather_rows(whole, part, parts);
      if (to == Placement::whole) return {gather, take, whole};
      return {take, gather, mine, own.has};
    }
    case Placement::blocks: {
      TakeBlock take;
      take.grid = {grid_side(parts), part};
      GatherBlocks gather;
      gather.grid = take.grid;
      for (const int dim : {0, 1}) mine[dim] /= take.grid.side;
      if (to == Placement::whole) return {shared_op(gather), shared_op(take), whole};
      return {shared_op(take), shared_op(gather), mine};
    }
    case Placement::whole:
      break;
  }
  TRIFOLD_CHECK(false, "no such conversion");
}

PlacementConversion fetch_rows(const RowMoves& moves, RowEdge edge, const Shape& whole) {
  HaloExchange exchange;
  exchange.moves = moves;
  exchange.edge = edge;
  HaloAdd add;
  add.moves = moves;
  Shape mine = whole;
  mine[2] = moves.wanted().count();
  return {shared_op(exchange), shared_op(add), mine, moves.wants, edge};
}

PlacementConversion cut_rows(const RowMoves& moves, RowEdge edge, const Shape& whole) {
  Shape mine = whole;
  mine[2] = moves.wanted().count();
  return {take_rows(moves.wanted().begin, edge), nullptr, mine, moves.wants, edge};
}

}  // namespace trifold
