// What the rows and columns of a grid of tensor ranks exchange. A line's pieces are messages between its ranks on the
// link of the whole axis, all in one piece of NCCL's work; sums are then made in the line's order.
#include "kernels/ops/grid.h"

#include <algorithm>

#include "kernels/cuda/run_copy.h"
#include "parallel/communicator/nccl/nccl_kernel.h"
#include "parallel/communicator/nccl/ordered_sum.h"

namespace trifold::cuda {
namespace {

// A matrix in row-major order, as rows of bytes.
struct ByteMatrix {
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;

  explicit ByteMatrix(const TensorDesc& tensor) {
    TRIFOLD_CHECK(tensor.shape.rank() == 2 && tensor.layout.plain(), "a block of {}", to_string(tensor));
    rows = tensor.shape[0];
    row_bytes = static_cast<std::int64_t>(tensor.bytes()) / rows;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(rows * row_bytes); }

  // All of this one, out of or into rows of another length.
  RunCopy copy(const std::byte* from, std::int64_t from_row_bytes, std::byte* to, std::int64_t to_row_bytes) const {
    return {.from = from, .to = to, .from_run = from_row_bytes, .to_run = to_row_bytes, .bytes = row_bytes};
  }
};

// The ranks of one row or column, of which each sends a piece of the same size to each other.
class LineKernel : public NcclKernel {
 public:
  LineKernel(const KernelRequest& request, std::size_t piece_bytes)
      : NcclKernel(request, Axis::tensor), piece_bytes_(piece_bytes) {
    const auto& op = op_as<GridExchange>(request);
    for (int place = 0; place < op.grid.side; ++place)
      line_.push_back(op.line == GridLine::row ? op.grid.row() * op.grid.side + place
                                               : place * op.grid.side + op.grid.column());
    mine_ = static_cast<std::size_t>(std::ranges::find(line_, op.grid.rank) - line_.begin());
  }

  std::size_t scratch_bytes() const override { return line_bytes(); }

 protected:
  std::size_t side() const { return line_.size(); }
  std::size_t mine() const { return mine_; }
  // A place for a piece of every rank of the line.
  std::size_t line_bytes() const { return side() * padded(); }
  std::byte* piece(std::byte* pieces, std::size_t place) const { return pieces + place * padded(); }
  std::byte* received(std::size_t place) const { return piece(scratch(), place); }

  // piece_for(place): what goes to that rank of the line; received() then has theirs.
  template <class Pieces>
  void bind_messages(Pieces piece_for) {
    outgoing_.clear();
    incoming_.clear();
    for (std::size_t place = 0; place < side(); ++place) {
      if (place == mine_) continue;
      outgoing_.push_back({line_[place], {piece_for(place), piece_bytes_}});
      incoming_.push_back({line_[place], {received(place), piece_bytes_}});
    }
  }
  void exchange() { link().exchange(outgoing_, incoming_, stream()); }

  // The pieces as terms of a sum of dense rows. This rank's lies in `own`, whose rows may be longer.
  std::vector<SumTerm> terms_of(std::int64_t row_elements, const std::byte* own, std::int64_t own_row_elements) const {
    std::vector<SumTerm> terms;
    for (std::size_t place = 0; place < side(); ++place)
      terms.push_back({.from = place == mine_ ? own : received(place),
                       .from_run = place == mine_ ? own_row_elements : row_elements,
                       .begin = 0,
                       .end = row_elements});
    return terms;
  }

 private:
  std::size_t padded() const { return (piece_bytes_ + 63) / 64 * 64; }

  std::size_t piece_bytes_;
  std::vector<int> line_;  // its ranks, in order
  std::size_t mine_ = 0;   // this rank's place in it
  std::vector<NcclLink::Outgoing> outgoing_;
  std::vector<NcclLink::Incoming> incoming_;
};

class GridGatherKernel final : public LineKernel {
 public:
  explicit GridGatherKernel(const KernelRequest& request)
      : LineKernel(request, request.in[0].bytes()), block_(request.in[0]), whole_(request.out[0]) {}

  void run(const StepContext&) override {
    exchange();
    copy_runs(copies_, block_.rows, device());
  }

 private:
  void on_bind() override {
    bind_messages([&](std::size_t) { return in<std::byte>(0); });
    copies_.clear();
    for (std::size_t place = 0; place < side(); ++place)
      copies_.push_back(block_.copy(place == mine() ? in<std::byte>(0) : received(place), block_.row_bytes,
                                    out<std::byte>(0) + static_cast<std::int64_t>(place) * block_.row_bytes,
                                    whole_.row_bytes));
  }

  ByteMatrix block_, whole_;
  std::vector<RunCopy> copies_;
};

class GridSumScatterKernel final : public LineKernel {
 public:
  explicit GridSumScatterKernel(const KernelRequest& request)
      : LineKernel(request, request.out[0].bytes()), whole_(request.in[0]), block_(request.out[0]) {}

  // The pieces that come, then those that go.
  std::size_t scratch_bytes() const override { return 2 * line_bytes(); }

  void run(const StepContext&) override {
    copy_runs(packing_, block_.rows, device());
    exchange();
    sum_in_order(
        {.terms = terms_, .runs = block_.rows, .run_elements = in_floats(block_.row_bytes), .to = out<std::byte>(0)},
        device());
  }

 private:
  static std::int64_t in_floats(std::int64_t bytes) { return bytes / static_cast<std::int64_t>(sizeof(float)); }

  void on_bind() override {
    std::byte* const packed = scratch() + line_bytes();
    bind_messages([&](std::size_t place) { return piece(packed, place); });
    const auto columns_of = [&](std::size_t place) {
      return in<std::byte>(0) + static_cast<std::int64_t>(place) * block_.row_bytes;
    };
    packing_.clear();
    for (std::size_t place = 0; place < side(); ++place)
      if (place != mine())
        packing_.push_back(block_.copy(columns_of(place), whole_.row_bytes, piece(packed, place), block_.row_bytes));
    terms_ = terms_of(in_floats(block_.row_bytes), columns_of(mine()), in_floats(whole_.row_bytes));
  }

  ByteMatrix whole_, block_;
  std::vector<RunCopy> packing_;
  std::vector<SumTerm> terms_;
};

class GridSumKernel final : public LineKernel {
 public:
  explicit GridSumKernel(const KernelRequest& request)
      : LineKernel(request, request.in[0].bytes()), elements_(request.in[0].elements()) {}

  void run(const StepContext&) override {
    exchange();
    sum_in_order({.terms = terms_, .run_elements = elements_, .to = out<std::byte>(0)}, device());
  }

 private:
  void on_bind() override {
    bind_messages([&](std::size_t) { return in<std::byte>(0); });
    terms_ = terms_of(elements_, in<std::byte>(0), elements_);
  }

  std::int64_t elements_;
  std::vector<SumTerm> terms_;
};

class GatherBlocksKernel final : public NcclKernel {
 public:
  explicit GatherBlocksKernel(const KernelRequest& request)
      : NcclKernel(request, Axis::tensor),
        side_(op_as<GatherBlocks>(request).grid.side),
        block_(request.in[0]),
        whole_(request.out[0]) {}

  std::size_t scratch_bytes() const override { return whole_.bytes(); }

  void run(const StepContext&) override {
    link().all_gather({in<std::byte>(0), block_.bytes()}, scratch(), stream());
    copy_runs(copies_, block_.rows, device());
  }

 private:
  void on_bind() override {
    copies_.clear();
    for (std::int64_t place = 0; place < side_ * side_; ++place)
      copies_.push_back(block_.copy(
          scratch() + place * static_cast<std::int64_t>(block_.bytes()), block_.row_bytes,
          out<std::byte>(0) + place / side_ * block_.rows * whole_.row_bytes + place % side_ * block_.row_bytes,
          whole_.row_bytes));
  }

  std::int64_t side_;
  ByteMatrix block_, whole_;
  std::vector<RunCopy> copies_;
};

class TakeBlockKernel final : public CudaKernel {
 public:
  explicit TakeBlockKernel(const KernelRequest& request)
      : CudaKernel(request), whole_(request.in[0]), block_(request.out[0]) {
    const TensorGrid& grid = op_as<TakeBlock>(request).grid;
    first_ = grid.row() * block_.rows * whole_.row_bytes + grid.column() * block_.row_bytes;
  }

  void run(const StepContext&) override {
    const RunCopy copy = block_.copy(in<std::byte>(0) + first_, whole_.row_bytes, out<std::byte>(0), block_.row_bytes);
    copy_runs(std::span(&copy, 1), block_.rows, device());
  }

 private:
  ByteMatrix whole_, block_;
  std::int64_t first_ = 0;  // byte of the block
};

const RegisterKernel register_grid_gather(cuda_backend(), "grid_gather", make_kernel<GridGatherKernel>);
const RegisterKernel register_grid_sum_scatter(cuda_backend(), "grid_sum_scatter", make_kernel<GridSumScatterKernel>);
const RegisterKernel register_grid_sum(cuda_backend(), "grid_sum", make_kernel<GridSumKernel>);
const RegisterKernel register_grid_gather_blocks(cuda_backend(), "gather_blocks", make_kernel<GatherBlocksKernel>);
const RegisterKernel register_grid_take_block(cuda_backend(), "take_block", make_kernel<TakeBlockKernel>);

}  // namespace
}  // namespace trifold::cuda
