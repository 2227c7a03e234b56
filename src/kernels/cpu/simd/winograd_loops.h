// The inner loops of Winograd F(4x4,3x3): transforms into and out of the 36 "frequencies" of a 6x6 tile, and the matrix
// products in between. Tiles are numbered (sample, tile row, tile column); every transformed array is a set of planes
// [36][channel block][tile][lane]. The driver that chooses blocks and threads is kernels/cpu/winograd.h.
#pragma once

#include <cstdint>

namespace trifold::cpu {

inline constexpr int kWinogradOutput = 4;        // a tile makes 4x4 outputs
inline constexpr int kWinogradFrequencies = 36;  // from a 6x6 window of the input
inline constexpr int kWinogradPanel = 2;         // vectors of output channels that a matrix product makes at once

struct WinogradPlanes {
  float* data = nullptr;
  std::int64_t frequency_stride = 0;  // floats from one frequency to the next
  std::int64_t block_stride = 0;      // floats from one channel block to the next; tiles are `lanes` floats apart
};

struct WinogradTiles {
  std::int64_t first = 0;
  std::int64_t count = 0;
  int rows = 0;     // tiles in a column of one image
  int columns = 0;  // tiles in a row of one image
};

// An activation, or a range of its channel blocks: [sample][total_blocks][height][width][lane].
struct WinogradImage {
  std::int64_t total_blocks = 0;
  std::int64_t first_block = 0;
  std::int64_t block_count = 0;
  int height = 0;
  int width = 0;
};

struct WinogradInput {
  const float* x = nullptr;
  WinogradImage image;
  int pad_h = 0;
  int pad_w = 0;
  const float* scale =
      nullptr;  // [C], with shift: x is read as x * scale + shift, and 0 outside the image all the same
  const float* shift = nullptr;  // [C]
  bool relu = false;             // after scale and shift
  WinogradTiles tiles;
  WinogradPlanes planes;  // block 0 is image.first_block, tile 0 is tiles.first
};

struct WinogradOutput {
  float* y = nullptr;
  WinogradImage image;
  const float* bias = nullptr;  // [O]
  bool relu = false;
  const float* stat_center = nullptr;  // [O]
  double* stat_sum = nullptr;          // [groups][O], added to; null: no statistics
  double* stat_sumsq = nullptr;
  std::int64_t stat_group = 1;  // samples
  WinogradTiles tiles;
  WinogradPlanes planes;
};

struct WinogradGradient {
  const float* dy = nullptr;
  WinogradImage image;
  double* bias_sum = nullptr;  // [O], added to; may be null
  WinogradTiles tiles;
  WinogradPlanes planes;
};

// Weights are [O/lanes][I/lanes][3][3][lane of I][lane of O]. "Depth" is the channel that a product sums over.
struct WinogradWeights {
  const float* weights = nullptr;
  std::int64_t in_blocks = 0;
  std::int64_t out_blocks = 0;
  bool for_input_gradient = false;  // depth is O, result is I, and the taps are rotated by half a turn
  std::int64_t depth_first = 0;     // blocks
  std::int64_t depth_count = 0;
  std::int64_t panel_first = 0;  // block of result channels
  int panel_width = 0;           // 1 or kWinogradPanel blocks
  float* transformed = nullptr;  // [36][depth channel][panel_width][lane]
  std::int64_t frequency_stride = 0;
};

// result[f][panel block][tile] (+)= sum over depth of input[f][depth block][tile] * transformed weights[f]
struct WinogradProduct {
  WinogradPlanes input;
  std::int64_t depth_count = 0;    // blocks
  const float* weights = nullptr;  // as transform_weights makes them
  std::int64_t weights_frequency_stride = 0;
  int panel_width = 0;
  std::int64_t tiles = 0;
  bool accumulate = false;
  WinogradPlanes result;
};

// result[panel][f][input channel][panel_width][lane] (+)= sum over tiles of input[f][channel][tile] *
// gradient[f][panel][tile]; the last panel has one block if out_blocks is odd.
struct WinogradWeightProduct {
  WinogradPlanes input;
  std::int64_t in_blocks = 0;
  WinogradPlanes gradient;
  std::int64_t out_blocks = 0;
  std::int64_t tiles = 0;
  bool accumulate = false;
  float* result = nullptr;
  std::int64_t panel_stride = 0;
  std::int64_t frequency_stride = 0;
};

struct WinogradWeightGradient {
  const float* transformed = nullptr;  // [36][input channel][panel_width][lane]
  std::int64_t frequency_stride = 0;
  int panel_width = 0;
  std::int64_t in_block_count = 0;  // channel blocks in `transformed`
  std::int64_t in_block_first = 0;
  std::int64_t in_blocks = 0;
  std::int64_t panel_first = 0;  // block of O
  float* weights = nullptr;
};

struct WinogradLoops {
  int lanes;      // channels of a block
  int tile_rows;  // tiles that a matrix product takes at once: blocks of tiles are best a multiple of it
  void (*transform_input)(const WinogradInput&);
  void (*transform_output)(const WinogradOutput&);
  void (*transform_gradient)(const WinogradGradient&);
  void (*transform_weights)(const WinogradWeights&);
  void (*multiply)(const WinogradProduct&);
  void (*multiply_weights)(const WinogradWeightProduct&);
  void (*transform_weight_gradient)(const WinogradWeightGradient&);
};

// The loops for active_isa().
const WinogradLoops& winograd_loops();

}  // namespace trifold::cpu
