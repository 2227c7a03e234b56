// The Winograd loops of one instruction set, spread over winograd_*.isa.cpp; winograd_loops.isa.cpp gathers them.
#pragma once

#include "kernels/cpu/simd/vec.h"
#include "kernels/cpu/simd/winograd_loops.h"

namespace trifold::cpu::TRIFOLD_ISA {

// Tiles a product takes at once, so that rows x panel accumulators fill the register file without spilling.
#if defined(__AVX512F__)
inline constexpr int kTileRows = 12;
#elif defined(__AVX2__)
inline constexpr int kTileRows = 6;
#else
inline constexpr int kTileRows = 2;
#endif

void winograd_transform_input(const WinogradInput& args);
void winograd_transform_output(const WinogradOutput& args);
void winograd_transform_gradient(const WinogradGradient& args);
void winograd_transform_weights(const WinogradWeights& args);
void winograd_multiply(const WinogradProduct& args);
void winograd_multiply_weights(const WinogradWeightProduct& args);
void winograd_transform_weight_gradient(const WinogradWeightGradient& args);

// Walks a range of tiles as runs that lie in one row of tiles of one sample.
class WinogradRuns {
 public:
  static constexpr int kLongestRun = 8;  // keeps the line buffer of a run in the first-level cache

  explicit WinogradRuns(const WinogradTiles& tiles)
      : sample(tiles.first / (std::int64_t{tiles.rows} * tiles.columns)),
        row(static_cast<int>(tiles.first / tiles.columns % tiles.rows)),
        column(static_cast<int>(tiles.first % tiles.columns)),
        tiles_(tiles) {
    measure();
  }

  bool done() const { return offset >= tiles_.count; }

  void next() {
    offset += length;
    column += length;
    if (column == tiles_.columns) {
      column = 0;
      if (++row == tiles_.rows) {
        row = 0;
        ++sample;
      }
    }
    measure();
  }

  std::int64_t sample;
  int row;                  // of tiles
  int column;               // of tiles: the run's first
  int length = 0;           // tiles
  std::int64_t offset = 0;  // of the run's first tile from tiles.first

 private:
  void measure() {
    length = tiles_.columns - column;
    if (length > kLongestRun) length = kLongestRun;
    if (length > tiles_.count - offset) length = static_cast<int>(tiles_.count - offset);
  }

  const WinogradTiles tiles_;
};

}  // namespace trifold::cpu::TRIFOLD_ISA
