#include "parallel/tensor/split_choice.h"

#include <algorithm>

#include "core/error.h"
#include "kernels/ops/grid.h"

namespace trifold {
namespace {

class SplitChooser {
 public:
  explicit SplitChooser(const SplitQuestion& question)
      : q_(question), possible_(question.layer.splits(question.in, question.parts)) {}

  LayerSplit choose() const {
    const bool rows_come =
        std::ranges::all_of(q_.come, [](Placement placement) { return placement == Placement::rows; });
    if (q_.named == LayerSplit::rows) return by_rows();
    if (q_.named == LayerSplit::whole && rows_come && q_.layer.row_window() && q_.layer.row_window()->is_local())
      return LayerSplit::rows;  // whole or not, it is the same work: there is nothing to gather for
    const bool blocks_come =
        std::ranges::all_of(q_.come, [](Placement placement) { return placement == Placement::blocks; });
    if (blocks_come && q_.layer.is_element_wise()) return LayerSplit::blocks;
    if (q_.named) {
      if (q_.named == LayerSplit::blocks && !can(LayerSplit::blocks)) fail_blocks();
      if (q_.named != LayerSplit::whole && !can(*q_.named)) fail_channels(*q_.named);
      return *q_.named;
    }
    // What comes in parts is read in parts; what is whole is divided where the parts can be read so by the next
    // product.
    if (rows_come && can_take_rows()) return LayerSplit::rows;
    if (blocks_come && can(LayerSplit::blocks)) return LayerSplit::blocks;
    if (q_.come[0] == Placement::channels)
      return can(LayerSplit::groups)        ? LayerSplit::groups
             : can(LayerSplit::in_channels) ? LayerSplit::in_channels
                                            : LayerSplit::whole;
    return can(LayerSplit::out_channels) && q_.is_read_by_products() ? LayerSplit::out_channels : LayerSplit::whole;
  }

 private:
  bool can(LayerSplit split) const { return std::ranges::find(possible_, split) != possible_.end(); }

  LayerSplit by_rows() const {
    if (can_take_rows()) return LayerSplit::rows;
    // Other layers (flatten, linear, a loss) need the whole, whatever rule names them.
    const bool reads_image =
        q_.in[0].rank() == 4 && (q_.layer.sums_over_rows() || q_.layer.infer_shape(q_.in).rank() == 4);
    if (reads_image) fail_rows();
    return LayerSplit::whole;
  }

  bool has_rows_for_all(const Shape& shape) const { return shape.rank() == 4 && shape[2] >= q_.parts; }

  bool can_take_rows() const {
    if (!std::ranges::all_of(q_.in, [&](const Shape& shape) { return has_rows_for_all(shape); })) return false;
    return q_.layer.sums_over_rows() || (q_.layer.row_window() && has_rows_for_all(q_.layer.infer_shape(q_.in)));
  }

  [[noreturn]] void fail_rows() const {
    const Shape out = q_.layer.infer_shape(q_.in);
    if (!q_.layer.sums_over_rows() && !q_.layer.row_window())
      fail_input("{}: layer '{}' ({}) cannot be split by rows; use \"by\": \"none\" for it", q_.spec.place, q_.spec.id,
                 q_.spec.type);
    const std::int64_t in_rows = q_.in[0][2];
    const std::int64_t out_rows = out.rank() == 4 ? out[2] : in_rows;
    fail_input(
        "{}: layer '{}' ({}), from {} to {} rows, cannot be split by rows into {} parts of a row or more; use a "
        "plan.tp of at most {}, or \"by\": \"none\" for it",
        q_.spec.place, q_.spec.id, q_.spec.type, in_rows, out.rank() == 4 ? out_rows : 1, q_.parts,
        std::min(in_rows, out_rows));
  }

  [[noreturn]] void fail_blocks() const {
    const std::string who = fmt::format("{}: layer '{}' ({})", q_.spec.place, q_.spec.id, q_.spec.type);
    const int side = grid_side(q_.parts);
    if (side == 0)
      fail_input("{} cannot be split by blocks among {} ranks, which make no square; use a plan.tp of 4, 9 or 16", who,
                 q_.parts);
    if (q_.in[0].rank() != 2)
      fail_input("{} cannot be split by blocks, which only linear layers can; use \"by\": \"none\" for it", who);
    fail_input(
        "{}, from {} to {} features of {} samples, cannot be split into {} by {} blocks; {} must divide all three, or "
        "use \"by\": \"none\" for it",
        who, q_.in[0][1], q_.layer.infer_shape(q_.in)[1], q_.in[0][0], side, side, side);
  }

  [[noreturn]] void fail_channels(LayerSplit split) const {
    const auto channels = [](const Shape& shape) { return shape.rank() > 1 ? shape[1] : 1; };
    fail_input("{}: layer '{}' ({}), from {} to {} channels, cannot be split by {} into {} parts; use {}",
               q_.spec.place, q_.spec.id, q_.spec.type, channels(q_.in[0]), channels(q_.layer.infer_shape(q_.in)),
               name_of(split), q_.parts, remedy(split));
  }

  // Another split into these parts, or the parts that this split can have.
  std::string remedy(LayerSplit split) const {
    std::string others;
    for (const LayerSplit other : possible_) others += fmt::format("\"{}\" or ", name_of(other));
    if (!others.empty()) return fmt::format("\"by\": {}\"none\" for it", others);
    for (int parts = q_.parts - 1; parts > 1; --parts) {
      const std::vector<LayerSplit> fewer = q_.layer.splits(q_.in, parts);
      if (fewer.empty()) continue;
      const bool same = std::ranges::find(fewer, split) != fewer.end();
      return fmt::format("a plan.tp such as {}{}, or \"by\": \"none\" for it", parts,
                         same ? "" : fmt::format(" with \"by\": \"{}\"", name_of(fewer.front())));
    }
    return "\"by\": \"none\" for it";
  }

  const SplitQuestion& q_;
  std::vector<LayerSplit> possible_;
};

}  // namespace

LayerSplit choose_split(const SplitQuestion& question) {
  return SplitChooser(question).choose();
}

}  // namespace trifold
