// The ops that bring a value from one placement among tensor ranks to another, and the ops that take its gradient back:
// what is a sum forward is nothing backward, and the other way round.
#pragma once

#include "core/shape.h"
#include "kernels/op.h"
#include "parallel/tensor/placement.h"
#include "parallel/tensor/row_moves.h"

namespace trifold {

struct PlacementConversion {
  OpPtr forward;
  OpPtr gradient;                 // the conjugate of `forward`; null: the gradient stays as it is
  Shape shape;                    // of what this rank then has
  std::vector<RowRun> rows = {};  // by rank, where each then has some
  RowEdge edge = RowEdge::zero;
};

// Between whole and another placement; `whole` is the shape of the whole value, `part` this rank's of `parts`.
PlacementConversion convert_placement(Placement from, Placement to, const Shape& whole, int part, int parts);

// From the rows that each rank has to those that a window needs.
PlacementConversion fetch_rows(const RowMoves& moves, RowEdge edge, const Shape& whole);
// The same from a value that is whole on every rank and needs no gradient.
PlacementConversion cut_rows(const RowMoves& moves, RowEdge edge, const Shape& whole);

}  // namespace trifold
