// The ops that bring a value from one spread among tensor ranks to another, and its gradient back.
#pragma once

#include "layers/row_window.h"
#include "layers/split.h"
#include "core/shape.h"

namespace trifold {

struct SpreadConversion {
  OpPtr forward;
  OpPtr backward;
  Shape shape;                    // of what this rank then has
  std::vector<RowRun> rows = {};  // by rank, where each then has some
  RowEdge edge = RowEdge::zero;
};

// Between whole and another; `whole` is the shape of the whole value, `part` this rank's of `parts`.
SpreadConversion convert_spread(Spread from, Spread to, const Shape& whole, int part, int parts);

// From the rows that each rank has to those that a window needs.
SpreadConversion fetch_rows(const RowMoves& moves, RowEdge edge, const Shape& whole);
// The same from a value that is whole on every rank and needs no gradient.
SpreadConversion cut_rows(const RowMoves& moves, RowEdge edge, const Shape& whole);

}  // namespace trifold
