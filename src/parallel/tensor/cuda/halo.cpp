// Rows of images that tensor ranks exchange. What goes to one rank is packed into one message, and all messages are one
// piece of NCCL's work between two launches: one that packs, and moves what stays here, and one that takes what came.
#include "kernels/ops/halo.h"

#include "kernels/cuda/run_copy.h"
#include "parallel/communicator/nccl/nccl_kernel.h"
#include "parallel/communicator/nccl/ordered_sum.h"

namespace trifold::cuda {
namespace {

// A tensor as [planes][rows][row_bytes]: channels-last a plane is a sample.
struct RowPlanes {
  std::int64_t planes = 0;
  std::int64_t row_bytes = 0;

  explicit RowPlanes(const TensorDesc& image) {
    TRIFOLD_CHECK(image.shape.rank() == 4, "rows of {}", to_string(image));
    const ImageView view = image_view(image);
    planes = view.samples * (view.channels / view.block);
    row_bytes = image.shape[3] * view.block * static_cast<std::int64_t>(size_of(image.dtype));
  }

  std::size_t bytes(const RowRun& rows) const { return static_cast<std::size_t>(planes * rows.count() * row_bytes); }
  // Where row `row` of the first plane is, in a tensor that holds the rows of `held`.
  std::int64_t offset(const RowRun& held, std::int64_t row) const { return (row - held.begin) * row_bytes; }

  RunCopy copy(const RowRun& rows, const std::byte* from, const RowRun& from_held, std::byte* to,
               const RowRun& to_held) const {
    return {.from = from + offset(from_held, rows.begin),
            .to = to + offset(to_held, rows.begin),
            .from_run = from_held.count() * row_bytes,
            .to_run = to_held.count() * row_bytes,
            .bytes = rows.count() * row_bytes};
  }
};

// The rows of the edge that `wanted` has of an image of `height` rows, as fills.
void add_edge(std::vector<RunCopy>& copies, const RowPlanes& planes, std::uint32_t fill, std::int64_t height,
              std::byte* to, const RowRun& wanted) {
  for (const RowRun& rows : {RowRun{wanted.begin, 0}.overlap(wanted), RowRun{height, wanted.end}.overlap(wanted)})
    if (rows.count() > 0)
      copies.push_back({.to = to + planes.offset(wanted, rows.begin),
                        .to_run = wanted.count() * planes.row_bytes,
                        .bytes = rows.count() * planes.row_bytes,
                        .fill = fill});
}

std::uint32_t bits_of_edge(RowEdge edge, DType dtype) {
  if (edge == RowEdge::zero) return 0;
  return dtype == DType::f32 ? 0xff800000u : dtype == DType::f16 ? 0xfc00fc00u : 0xff80ff80u;  // minus infinity
}

// Packed rows on their way between this rank and each other, in the kernel's scratch.
class RowMessages {
 public:
  explicit RowMessages(int ranks)
      : sends_(static_cast<std::size_t>(ranks)), receives_(static_cast<std::size_t>(ranks)) {}

  struct Packed {
    RowRun rows;
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };
  void plan_send(int peer, const RowRun& rows, std::size_t bytes) { place(sends_[index(peer)], rows, bytes); }
  void plan_receive(int peer, const RowRun& rows, std::size_t bytes) { place(receives_[index(peer)], rows, bytes); }
  std::size_t scratch_bytes() const { return scratch_bytes_; }
  const Packed& sent(int peer) const { return sends_[index(peer)]; }
  const Packed& received(int peer) const { return receives_[index(peer)]; }

  void bind(std::byte* scratch) {
    outgoing_.clear();
    incoming_.clear();
    for (std::size_t peer = 0; peer < sends_.size(); ++peer) {
      const Packed& sent = sends_[peer];
      const Packed& received = receives_[peer];
      if (sent.bytes > 0) outgoing_.push_back({static_cast<int>(peer), {scratch + sent.offset, sent.bytes}});
      if (received.bytes > 0)
        incoming_.push_back({static_cast<int>(peer), {scratch + received.offset, received.bytes}});
    }
  }
  void exchange(NcclLink& link, cudaStream_t stream) const { link.exchange(outgoing_, incoming_, stream); }
  bool empty() const { return outgoing_.empty() && incoming_.empty(); }

 private:
  static std::size_t index(int peer) { return static_cast<std::size_t>(peer); }
  void place(Packed& message, const RowRun& rows, std::size_t bytes) {
    message = {.rows = rows, .offset = scratch_bytes_, .bytes = bytes};
    scratch_bytes_ += (bytes + 63) / 64 * 64;
  }

  std::vector<Packed> sends_, receives_;  // by rank
  std::size_t scratch_bytes_ = 0;
  std::vector<NcclLink::Outgoing> outgoing_;
  std::vector<NcclLink::Incoming> incoming_;
};

class RowExchangeKernel final : public NcclKernel {
 public:
  explicit RowExchangeKernel(const KernelRequest& request)
      : NcclKernel(request, Axis::tensor),
        moves_(op_as<RowExchange>(request).moves),
        planes_(request.in[0]),
        edge_(bits_of_edge(op_as<RowExchange>(request).edge, request.in[0].dtype)),
        messages_(moves_.ranks()) {
    for (int peer = 0; peer < moves_.ranks(); ++peer) {
      if (peer == moves_.rank) continue;
      const RowRun to_peer = moves_.moved(moves_.rank, peer);
      const RowRun from_peer = moves_.moved(peer, moves_.rank);
      messages_.plan_send(peer, to_peer, planes_.bytes(to_peer));
      messages_.plan_receive(peer, from_peer, planes_.bytes(from_peer));
    }
  }

  std::size_t scratch_bytes() const override { return messages_.scratch_bytes(); }

  void run(const StepContext&) override {
    copy_runs(before_, planes_.planes, device());
    if (!messages_.empty()) messages_.exchange(link(), stream());
    copy_runs(after_, planes_.planes, device());
  }

 private:
  void on_bind() override {
    const RowRun& held = moves_.mine();
    const RowRun& wanted = moves_.wanted();
    messages_.bind(scratch());
    before_.clear();
    after_.clear();
    for (int peer = 0; peer < moves_.ranks(); ++peer) {
      const RowMessages::Packed& sent = messages_.sent(peer);
      const RowMessages::Packed& received = messages_.received(peer);
      if (sent.bytes > 0)
        before_.push_back(planes_.copy(sent.rows, in<std::byte>(0), held, scratch() + sent.offset, sent.rows));
      if (received.bytes > 0)
        after_.push_back(
            planes_.copy(received.rows, scratch() + received.offset, received.rows, out<std::byte>(0), wanted));
    }
    if (const RowRun stays = held.overlap(wanted); stays.count() > 0)
      before_.push_back(planes_.copy(stays, in<std::byte>(0), held, out<std::byte>(0), wanted));
    add_edge(before_, planes_, edge_, moves_.has.back().end, out<std::byte>(0), wanted);
  }

  RowMoves moves_;
  RowPlanes planes_;
  std::uint32_t edge_;
  RowMessages messages_;
  std::vector<RunCopy> before_, after_;  // the messages
};

class HaloAddKernel final : public NcclKernel {
 public:
  explicit HaloAddKernel(const KernelRequest& request)
      : NcclKernel(request, Axis::tensor),
        moves_(op_as<HaloAdd>(request).moves),
        dtype_(request.in[0].dtype),
        planes_(request.in[0]),
        messages_(moves_.ranks()) {
    for (int peer = 0; peer < moves_.ranks(); ++peer) {
      if (peer == moves_.rank) continue;
      const RowRun to_peer = moves_.moved(peer, moves_.rank);
      const RowRun from_peer = moves_.moved(moves_.rank, peer);
      messages_.plan_send(peer, to_peer, planes_.bytes(to_peer));
      messages_.plan_receive(peer, from_peer, planes_.bytes(from_peer));
    }
  }

  std::size_t scratch_bytes() const override { return messages_.scratch_bytes(); }

  void run(const StepContext&) override {
    copy_runs(packing_, planes_.planes, device());
    if (!messages_.empty()) messages_.exchange(link(), stream());
    sum_in_order({.dtype = dtype_,
                  .terms = terms_,
                  .runs = planes_.planes,
                  .run_elements = in_elements(moves_.mine().count() * planes_.row_bytes),
                  .to = out<std::byte>(0)},
                 device());
  }

 private:
  std::int64_t in_elements(std::int64_t bytes) const { return bytes / static_cast<std::int64_t>(size_of(dtype_)); }

  // Rows that nobody wanted have no terms, and so no gradient.
  void on_bind() override {
    const RowRun& held = moves_.mine();
    const RowRun& wanted = moves_.wanted();
    messages_.bind(scratch());
    packing_.clear();
    terms_.clear();
    for (int rank = 0; rank < moves_.ranks(); ++rank) {
      const RowMessages::Packed& sent = messages_.sent(rank);
      if (sent.bytes > 0)
        packing_.push_back(planes_.copy(sent.rows, in<std::byte>(0), wanted, scratch() + sent.offset, sent.rows));
      if (rank == moves_.rank)
        add_term(held.overlap(wanted), in<std::byte>(0), wanted);
      else
        add_term(messages_.received(rank).rows, scratch() + messages_.received(rank).offset,
                 messages_.received(rank).rows);
    }
  }
  void add_term(const RowRun& rows, const std::byte* from, const RowRun& from_held) {
    if (rows.count() == 0) return;
    const RowRun& held = moves_.mine();
    terms_.push_back({.from = from + planes_.offset(from_held, rows.begin),
                      .from_run = in_elements(from_held.count() * planes_.row_bytes),
                      .begin = in_elements(planes_.offset(held, rows.begin)),
                      .end = in_elements(planes_.offset(held, rows.end))});
  }

  RowMoves moves_;
  DType dtype_;
  RowPlanes planes_;
  RowMessages messages_;
  std::vector<RunCopy> packing_;
  std::vector<SumTerm> terms_;  // in the order of ranks
};

class TakeRowsKernel final : public CudaKernel {
 public:
  explicit TakeRowsKernel(const KernelRequest& request)
      : CudaKernel(request),
        whole_{0, request.in[0].shape[2]},
        wanted_{op_as<TakeRows>(request).first_row, op_as<TakeRows>(request).first_row + request.out[0].shape[2]},
        planes_(request.in[0]),
        edge_(bits_of_edge(op_as<TakeRows>(request).edge, request.in[0].dtype)) {}

  void run(const StepContext&) override { copy_runs(copies_, planes_.planes, device()); }

 private:
  void on_bind() override {
    copies_.clear();
    if (const RowRun rows = whole_.overlap(wanted_); rows.count() > 0)
      copies_.push_back(planes_.copy(rows, in<std::byte>(0), whole_, out<std::byte>(0), wanted_));
    add_edge(copies_, planes_, edge_, whole_.end, out<std::byte>(0), wanted_);
  }

  RowRun whole_, wanted_;
  RowPlanes planes_;
  std::uint32_t edge_;
  std::vector<RunCopy> copies_;
};

const RegisterKernel register_halo_exchange(cuda_backend(), "halo_exchange", make_kernel<RowExchangeKernel>);
const RegisterKernel register_halo_gather_rows(cuda_backend(), "gather_rows", make_kernel<RowExchangeKernel>);
const RegisterKernel register_halo_add(cuda_backend(), "halo_add", make_kernel<HaloAddKernel>);
const RegisterKernel register_halo_take_rows(cuda_backend(), "take_rows", make_kernel<TakeRowsKernel>);

}  // namespace
}  // namespace trifold::cuda
