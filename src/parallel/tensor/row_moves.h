// Which rows of an image tensor ranks exchange, so that each has the rows that its part of a layer needs.
#pragma once

#include "layers/row_window.h"

namespace trifold {

// For an image of `height` rows, of which every rank has its part, and an output of `out_height` that they share alike.
inline RowMoves moves_for(const RowWindow& window, std::int64_t height, std::int64_t out_height, int rank, int ranks) {
  RowMoves moves{.rank = rank, .has = {}, .wants = {}};
  for (int part = 0; part < ranks; ++part) {
    moves.has.push_back(rows_of_part(height, part, ranks));
    moves.wants.push_back(window.needed_for(rows_of_part(out_height, part, ranks)));
  }
  return moves;
}

// Every rank gets all of the image.
inline RowMoves moves_for_whole(std::int64_t height, int rank, int ranks) {
  RowMoves moves = moves_for({}, height, height, rank, ranks);
  moves.wants.assign(moves.has.size(), {0, height});
  return moves;
}

}  // namespace trifold
