// Tensor ranks as a square grid, and what its rows and columns exchange: the parts of a matrix product whose matrices
// all lie in blocks (SUMMA). Rank r of side * side is in row r / side and column r % side; it has block (row, column)
// of every activation [N, F]: a run of the samples and a run of the features.
#pragma once

#include "kernels/ops/collective.h"

namespace trifold {

// 0 where there are not as many ranks as a square has places.
constexpr int grid_side(int ranks) {
  for (int side = 1; side * side <= ranks; ++side)
    if (side * side == ranks) return side;
  return 0;
}

struct TensorGrid {
  int side = 1;
  int rank = 0;

  int row() const { return rank / side; }
  int column() const { return rank % side; }
};

enum class GridLine { row, column };  // the ranks of this one's row, or of its column

constexpr const char* name_of(GridLine line) {
  return line == GridLine::row ? "row" : "column";
}

struct GridExchange : Exchange {
  TensorGrid grid;
  GridLine line = GridLine::row;

  GridExchange() { axis = Axis::tensor; }
  std::string attributes() const override { return fmt::format("{} grid {}", name_of(axis), name_of(line)); }
};

// in: x [R, C]; out: [R, side * C], those of the line's ranks side by side.
struct GridGather final : GridExchange {
  std::string_view name() const override { return "grid_gather"; }
  void check_shapes(const OpTensors& tensors) const override;
  double sent_bytes(double in, double, double) const override { return (grid.side - 1) * in; }
  bool takes_any_type() const override { return true; }
};

// in: x [R, side * C]; out: [R, C], this rank's columns of the sum over the line, in its order.
struct GridSumScatter final : GridExchange {
  std::string_view name() const override { return "grid_sum_scatter"; }
  void check_shapes(const OpTensors& tensors) const override;
  double sent_bytes(double in, double, double) const override { return in * (grid.side - 1) / grid.side; }
  bool keeps_f32(Side, int) const override { return true; }
};

// in: x; out: the sum over the line, in its order.
struct GridSum final : GridExchange {
  std::string_view name() const override { return "grid_sum"; }
  void check_shapes(const OpTensors& tensors) const override;
  double sent_bytes(double in, double, double) const override { return (grid.side - 1) * in; }
  bool keeps_f32(Side, int) const override { return true; }
};

// in: this rank's block [N/side, F/side]; out: the whole [N, F].
struct GatherBlocks final : Exchange {
  TensorGrid grid;

  GatherBlocks() { axis = Axis::tensor; }
  std::string_view name() const override { return "gather_blocks"; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override { return name_of(axis); }
  double sent_bytes(double, double out, double among) const override { return (among - 1) / among * out; }
  bool takes_any_type() const override { return true; }
};

// The inverse, which exchanges nothing.
struct TakeBlock final : Op {
  TensorGrid grid;

  std::string_view name() const override { return "take_block"; }
  OpKind kind() const override { return OpKind::movement; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override { return fmt::format("{}, {}", grid.row(), grid.column()); }
  bool takes_any_type() const override { return true; }
};

}  // namespace trifold
