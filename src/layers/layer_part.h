// The part of a layer that one of several tensor ranks computes: what Layer::narrow() receives.
#pragma once

#include <cstdint>
#include <vector>

#include "core/shape.h"
#include "kernels/ops/halo.h"
#include "layers/split.h"

namespace trifold {

// What a rank has of an input, and where it lies in the whole input.
struct InputPart {
  Shape whole;
  std::int64_t first_channel = 0;
  std::int64_t first_row = 0;
  std::vector<RowRun> rows = {};  // by rank, where each rank has a run of the rows
};

struct LayerPart {
  LayerSplit split = LayerSplit::whole;  // whole: the layer works on whatever part its inputs are
  int index = 0;
  int count = 1;
  std::vector<InputPart> in = {};
};

}  // namespace trifold
