// What the rows and columns of a grid of tensor ranks exchange, for the backends whose memory is the host's.
#include <algorithm>

#include "core/error.h"
#include "kernels/backend.h"
#include "kernels/ops/grid.h"
#include "parallel/rank_groups.h"

namespace trifold {
namespace {

// A matrix in row-major order, as rows of bytes.
struct ByteMatrix {
  std::size_t rows = 0;
  std::size_t row_bytes = 0;

  explicit ByteMatrix(const TensorDesc& tensor) {
    TRIFOLD_CHECK(tensor.shape.rank() == 2 && tensor.layout.plain(), "a block of {}", to_string(tensor));
    rows = static_cast<std::size_t>(tensor.shape[0]);
    row_bytes = tensor.bytes() / rows;
  }
  std::size_t bytes() const { return rows * row_bytes; }
};

// `block` to or from its place in `whole`.
void copy_block(const ByteMatrix& block, const std::byte* from, std::size_t from_row_bytes, std::byte* to,
                std::size_t to_row_bytes) {
  for (std::size_t row = 0; row < block.rows; ++row)
    std::copy_n(from + row * from_row_bytes, block.row_bytes, to + row * to_row_bytes);
}

// The ranks of one row or column, of which each sends a piece of the same size to each other.
class LineMessages {
 public:
  LineMessages(const KernelRequest& request, std::size_t piece_bytes)
      : ranks_(request.ranks), piece_bytes_(piece_bytes) {
    const auto& op = op_as<GridExchange>(request);
    for (int place = 0; place < op.grid.side; ++place)
      line_.push_back(op.line == GridLine::row ? op.grid.row() * op.grid.side + place
                                               : place * op.grid.side + op.grid.column());
    mine_ = static_cast<std::size_t>(std::ranges::find(line_, op.grid.rank) - line_.begin());
    sends_.resize(line_.size());
    receives_.resize(line_.size());
  }

  std::size_t side() const { return line_.size(); }
  std::size_t mine() const { return mine_; }
  std::size_t scratch_bytes() const { return line_.size() * padded(); }
  std::byte* received(std::byte* scratch, std::size_t place) const { return scratch + place * padded(); }

  // piece_for(place): what goes to that rank of the line; received() then has theirs.
  template <class Pieces>
  void exchange(std::byte* scratch, Pieces piece_for) {
    for (std::size_t place = 0; place < line_.size(); ++place) {
      if (place == mine_) continue;
      receives_[place] = group().receive({received(scratch, place), piece_bytes_}, line_[place]);
      sends_[place] = group().send({piece_for(place), piece_bytes_}, line_[place]);
    }
    for (std::size_t place = 0; place < line_.size(); ++place) {
      if (place == mine_) continue;
      group().wait(receives_[place]);
      group().wait(sends_[place]);
    }
  }

 private:
  std::size_t padded() const { return (piece_bytes_ + 63) / 64 * 64; }
  Communicator& group() const {
    TRIFOLD_CHECK(ranks_ != nullptr, "the program was compiled without its ranks");
    return ranks_->along(Axis::tensor);
  }

  const RankGroups* ranks_;
  std::size_t piece_bytes_;
  std::vector<int> line_;  // its ranks, in order
  std::size_t mine_ = 0;   // this rank's place in it
  std::vector<Ticket> sends_, receives_;
};

class GridKernel : public Kernel {
 public:
  std::string implementation() const override { return name_of(Axis::tensor); }
};

class GridGatherKernel final : public GridKernel {
 public:
  explicit GridGatherKernel(const KernelRequest& request)
      : block_(request.in[0]), whole_(request.out[0]), line_(request, block_.bytes()) {}

  std::size_t scratch_bytes() const override { return line_.scratch_bytes(); }

  void run(const StepContext&) override {
    line_.exchange(scratch(), [&](std::size_t) { return in<std::byte>(0); });
    for (std::size_t place = 0; place < line_.side(); ++place)
      copy_block(block_, place == line_.mine() ? in<std::byte>(0) : line_.received(scratch(), place), block_.row_bytes,
                 out<std::byte>(0) + place * block_.row_bytes, whole_.row_bytes);
  }

 private:
  ByteMatrix block_, whole_;
  LineMessages line_;
};

// Adds the line's pieces to out(0) in its order; `own` is this rank's.
void add_pieces(const LineMessages& line, std::byte* scratch, const float* own, float* sum, std::size_t elements) {
  std::fill_n(sum, elements, 0.0f);
  for (std::size_t place = 0; place < line.side(); ++place) {
    const float* term = place == line.mine() ? own : reinterpret_cast<const float*>(line.received(scratch, place));
    for (std::size_t i = 0; i < elements; ++i) sum[i] += term[i];
  }
}

class GridSumScatterKernel final : public GridKernel {
 public:
  explicit GridSumScatterKernel(const KernelRequest& request)
      : whole_(request.in[0]), block_(request.out[0]), line_(request, block_.bytes()) {}

  // The pieces that come, then those that go.
  std::size_t scratch_bytes() const override { return 2 * line_.scratch_bytes(); }

  void run(const StepContext&) override {
    std::byte* const packed = scratch() + line_.scratch_bytes();
    for (std::size_t place = 0; place < line_.side(); ++place)
      copy_block(block_, in<std::byte>(0) + place * block_.row_bytes, whole_.row_bytes, line_.received(packed, place),
                 block_.row_bytes);
    line_.exchange(scratch(), [&](std::size_t place) { return line_.received(packed, place); });
    add_pieces(line_, scratch(), reinterpret_cast<const float*>(line_.received(packed, line_.mine())), out(0),
               block_.bytes() / sizeof(float));
  }

 private:
  ByteMatrix whole_, block_;
  LineMessages line_;
};

class GridSumKernel final : public GridKernel {
 public:
  explicit GridSumKernel(const KernelRequest& request)
      : elements_(static_cast<std::size_t>(request.in[0].elements())), line_(request, request.in[0].bytes()) {}

  std::size_t scratch_bytes() const override { return line_.scratch_bytes(); }

  void run(const StepContext&) override {
    line_.exchange(scratch(), [&](std::size_t) { return in<std::byte>(0); });
    add_pieces(line_, scratch(), in(0), out(0), elements_);
  }

 private:
  std::size_t elements_;
  LineMessages line_;
};

class GatherBlocksKernel final : public GridKernel {
 public:
  explicit GatherBlocksKernel(const KernelRequest& request)
      : side_(static_cast<std::size_t>(op_as<GatherBlocks>(request).grid.side)),
        block_(request.in[0]),
        whole_(request.out[0]),
        ranks_(request.ranks) {}

  std::size_t scratch_bytes() const override { return whole_.bytes(); }

  void run(const StepContext&) override {
    TRIFOLD_CHECK(ranks_ != nullptr, "the program was compiled without its ranks");
    Communicator& group = ranks_->along(Axis::tensor);
    group.wait(group.all_gather({in<std::byte>(0), block_.bytes()}, {scratch(), whole_.bytes()}));
    for (std::size_t rank = 0; rank < side_ * side_; ++rank)
      copy_block(block_, scratch() + rank * block_.bytes(), block_.row_bytes,
                 out<std::byte>(0) + rank / side_ * block_.rows * whole_.row_bytes + rank % side_ * block_.row_bytes,
                 whole_.row_bytes);
  }

 private:
  std::size_t side_;
  ByteMatrix block_, whole_;
  const RankGroups* ranks_;
};

class TakeBlockKernel final : public Kernel {
 public:
  explicit TakeBlockKernel(const KernelRequest& request)
      : grid_(op_as<TakeBlock>(request).grid), whole_(request.in[0]), block_(request.out[0]) {}

  void run(const StepContext&) override {
    const std::size_t first = static_cast<std::size_t>(grid_.row()) * block_.rows * whole_.row_bytes +
                              static_cast<std::size_t>(grid_.column()) * block_.row_bytes;
    copy_block(block_, in<std::byte>(0) + first, whole_.row_bytes, out<std::byte>(0), block_.row_bytes);
  }

 private:
  TensorGrid grid_;
  ByteMatrix whole_, block_;
};

const RegisterKernel register_grid_kernels_cpu_grid_gather(cpu_backend(), "grid_gather", make_kernel<GridGatherKernel>);
const RegisterKernel register_grid_kernels_cpu_grid_sum_scatter(cpu_backend(), "grid_sum_scatter",
                                                                make_kernel<GridSumScatterKernel>);
const RegisterKernel register_grid_kernels_cpu_grid_sum(cpu_backend(), "grid_sum", make_kernel<GridSumKernel>);
const RegisterKernel register_grid_kernels_cpu_gather_blocks(cpu_backend(), "gather_blocks",
                                                             make_kernel<GatherBlocksKernel>);
const RegisterKernel register_grid_kernels_cpu_take_block(cpu_backend(), "take_block", make_kernel<TakeBlockKernel>);
const RegisterKernel reference_grid_gather(reference_backend(), "grid_gather", make_kernel<GridGatherKernel>);
const RegisterKernel reference_grid_sum_scatter(reference_backend(), "grid_sum_scatter",
                                                make_kernel<GridSumScatterKernel>);
const RegisterKernel reference_grid_sum(reference_backend(), "grid_sum", make_kernel<GridSumKernel>);
const RegisterKernel reference_gather_blocks(reference_backend(), "gather_blocks", make_kernel<GatherBlocksKernel>);
const RegisterKernel reference_take_block(reference_backend(), "take_block", make_kernel<TakeBlockKernel>);

}  // namespace
}  // namespace trifold
