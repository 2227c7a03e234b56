// The ways to divide a layer among tensor ranks, and the part of a parameter that a rank then has.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"

namespace trifold {

enum class LayerSplit {
  whole,         // every rank computes all of it
  out_channels,  // a rank computes its channels of the output from the whole input
  in_channels,   // a rank reads its channels of the input; the ranks' outputs are summed
  groups,        // a rank has its groups of channels, of input and output alike
  rows,          // a rank has its rows of the image, of input and output alike
  blocks,        // ranks are a square grid; each has its block of input, weights and output (see ops/grid.h)
};

const char* name_of(LayerSplit split);  // "none", "out_channels", "in_channels", "groups", "rows", "blocks"
std::optional<LayerSplit> parse_split(std::string_view name);
const std::vector<std::string>& split_names();

// Which part of a parameter a rank has: run `index` of `count` equal runs along `dim`; dim -1: all of it. A block has
// of its run along dim 0 only run `column` of `columns` along dim 1. Ranks that have the same part are numbered by
// `copy`, so that a sum over the whole parameter takes each part once.
struct Shard {
  int dim = -1;
  int index = 0;
  int count = 1;
  int column = 0;
  int columns = 1;
  int copy = 0;

  int parts() const { return count * columns; }
  // The whole parameter's, of which `mine` is the shape of this part.
  Shape whole_shape(Shape mine) const {
    if (dim >= 0) mine[dim] *= count;
    if (columns > 1) mine[1] *= columns;
    return mine;
  }
};

}  // namespace trifold
