// The ops that bring a value from one placement among tensor ranks to another, and its gradient back.
#pragma once

#include "core/shape.h"
#include "layers/row_window.h"
#include "layers/split.h"

namespace trifold {

struct PlacementConversion {
  OpPtr forward;
  OpPtr backward;
  Shape shape;                    // of what this rank then has
  std::vector<RowRun> rows = {};  // by rank, where each then has some
  RowEdge edge = RowEdge::zero;
};

// Between whole and another; `whole` is the shape of the whole value, `part` this rank's of `parts`.
PlacementConversion convert_placement(Placement from, Placement to, const Shape& whole, int part, int parts);

// From the rows that each rank has to those that a window needs.
PlacementConversion fetch_rows(const RowMoves& moves, RowEdge edge, const Shape& whole);
// The same from a value that is whole on every rank and needs no gradient.
PlacementConversion cut_rows(const RowMoves& moves, RowEdge edge, const Shape& whole);

}  // namespace trifold
