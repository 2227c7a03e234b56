// Images of which every tensor rank has a run of rows, and what the ranks exchange of them. x [N,C,rows,W]. A layer
// whose windows reach beyond a rank's own rows first fetches the rows of the neighbours: the halo.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/ops/collective.h"

namespace trifold {

// Rows [begin, end) of an image. Rows outside of the image are its edge.
struct RowRun {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t count() const { return std::max<std::int64_t>(0, end - begin); }
  RowRun overlap(const RowRun& other) const { return {std::max(begin, other.begin), std::min(end, other.end)}; }
  bool operator==(const RowRun&) const = default;
};

// What part `part` of `parts` has of an image: nearly as many rows as the others.
constexpr RowRun rows_of_part(std::int64_t height, int part, int parts) {
  return {height * part / parts, height * (part + 1) / parts};
}

// Which rows every rank has, and which it is to get: any of the image, and of its edge.
struct RowMoves {
  int rank = 0;               // this one
  std::vector<RowRun> has;    // by rank: together the whole image
  std::vector<RowRun> wants;  // by rank

  RowRun moved(int from, int to) const {
    return has[static_cast<std::size_t>(from)].overlap(wants[static_cast<std::size_t>(to)]);
  }
  int ranks() const { return static_cast<int>(has.size()); }
  const RowRun& mine() const { return has[static_cast<std::size_t>(rank)]; }
  const RowRun& wanted() const { return wants[static_cast<std::size_t>(rank)]; }
  // Rows that this rank gives to others, and that others give to it.
  std::int64_t given() const {
    std::int64_t rows = 0;
    for (int to = 0; to < ranks(); ++to) rows += to == rank ? 0 : moved(rank, to).count();
    return rows;
  }
  std::int64_t taken() const {
    std::int64_t rows = 0;
    for (int from = 0; from < ranks(); ++from) rows += from == rank ? 0 : moved(from, rank).count();
    return rows;
  }
};

// What stands in the rows of the edge.
enum class RowEdge {
  zero,    // of a convolution or a mean
  lowest,  // minus infinity: of a maximum
};

// What the two that fetch rows are: in: x with this rank's rows; out: x with the rows it wants.
struct RowExchange : Exchange {
  RowMoves moves;
  RowEdge edge = RowEdge::zero;

  RowExchange() { axis = Axis::tensor; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override {
    return fmt::format("{} rows {}..{} of {}", name_of(axis), moves.wanted().begin, moves.wanted().end,
                       moves.has.back().end);
  }
  double sent_bytes(double in, double, double) const override {
    return in / static_cast<double>(moves.mine().count()) * static_cast<double>(moves.given());
  }
  bool takes_any_type() const override { return true; }
};

struct HaloExchange final : RowExchange {
  std::string_view name() const override { return "halo_exchange"; }
};

// Every rank wants the whole image.
struct GatherRows final : RowExchange {
  std::string_view name() const override { return "gather_rows"; }
  std::string attributes() const override { return name_of(axis); }
};

// The other way round: in: d of the rows that this rank had fetched; out: d of its own rows, each the sum of what all
// ranks that had it give, in the order of ranks.
struct HaloAdd final : Exchange {
  RowMoves moves;

  HaloAdd() { axis = Axis::tensor; }
  std::string_view name() const override { return "halo_add"; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override {
    return fmt::format("{} rows {}..{} of {}", name_of(axis), moves.wanted().begin, moves.wanted().end,
                       moves.has.back().end);
  }
  double sent_bytes(double in, double, double) const override {
    return in / static_cast<double>(moves.wanted().count()) * static_cast<double>(moves.taken());
  }
};

// in: x [N,C,H,W]; out: a run of its rows from `first_row`, which may begin and end in the edge. Nothing is exchanged.
struct TakeRows final : Op {
  std::int64_t first_row = 0;
  RowEdge edge = RowEdge::zero;

  std::string_view name() const override { return "take_rows"; }
  OpKind kind() const override { return OpKind::movement; }
  LayoutRule layout_rule() const override { return LayoutRule::like_leading_image; }
  void check_shapes(const OpTensors& tensors) const override;
  std::string attributes() const override { return fmt::format("from {}", first_row); }
  bool takes_any_type() const override { return true; }
};

}  // namespace trifold
