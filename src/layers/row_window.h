// Which rows of its input a layer needs for rows of its output, and what ranks that share an image by rows exchange
// for it.
#pragma once

#include "kernels/ops/halo.h"

namespace trifold {

// Row y of the output reads rows y * stride - pad + i * dilation of the input, for i below kernel.
struct RowWindow {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t pad = 0;
  std::int64_t dilation = 1;
  RowEdge edge = RowEdge::zero;  // what the padding holds

  RowRun needed_for(const RowRun& out) const {
    return {out.begin * stride - pad, (out.end - 1) * stride - pad + dilation * (kernel - 1) + 1};
  }
  bool is_local() const { return kernel == 1 && stride == 1 && pad == 0; }
};

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
