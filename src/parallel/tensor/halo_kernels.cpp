// Rows of images that tensor ranks exchange, for the backends whose memory is the host's. An image is planes of rows in
// every layout: a block of channels makes a row longer, no more. What goes to one rank is packed into one message.
#include <algorithm>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/parallel.h"
#include "kernels/backend.h"
#include "kernels/ops/halo.h"
#include "parallel/rank_groups.h"

namespace trifold {
namespace {

// A tensor as [planes][rows][row_bytes], of which `run` says which rows of the image they are.
struct RowPlanes {
  std::int64_t planes = 0;
  std::size_t row_bytes = 0;

  explicit RowPlanes(const TensorDesc& image) {
    const std::int64_t block = image.layout.plain() ? 1 : image.layout.block;
    TRIFOLD_CHECK(image.shape.rank() == 4 && (image.layout.plain() || image.layout.order == Order::channel_block),
                  "rows of {}", to_string(image));
    planes = image.shape[0] * (image.shape[1] / block);
    row_bytes = static_cast<std::size_t>(image.shape[3] * block) * size_of(image.dtype);
  }

  std::size_t bytes(const RowRun& rows) const { return static_cast<std::size_t>(planes * rows.count()) * row_bytes; }
  std::size_t offset(std::int64_t plane, const RowRun& held, std::int64_t row) const {
    return static_cast<std::size_t>(plane * held.count() + row - held.begin) * row_bytes;
  }

  // visit(to, from, bytes) for each plane's rows that both hold.
  template <class To, class From, class Visit>
  void for_each_plane(const RowRun& rows, To* to, const RowRun& to_run, From* from, const RowRun& from_run,
                      Visit visit) const {
    if (rows.count() == 0) return;
    const std::size_t run_bytes = static_cast<std::size_t>(rows.count()) * row_bytes;
    parallel_for(planes, [&](Range range) {
      for (std::int64_t plane = range.begin; plane < range.end; ++plane)
        visit(to + offset(plane, to_run, rows.begin), from + offset(plane, from_run, rows.begin), run_bytes);
    });
  }
  void copy(const RowRun& rows, std::byte* to, const RowRun& to_run, const std::byte* from,
            const RowRun& from_run) const {
    for_each_plane(rows, to, to_run, from, from_run,
                   [](std::byte* t, const std::byte* f, std::size_t count) { std::memcpy(t, f, count); });
  }
  void add(const RowRun& rows, std::byte* to, const RowRun& to_run, const std::byte* from,
           const RowRun& from_run) const {
    for_each_plane(rows, to, to_run, from, from_run, [](std::byte* t, const std::byte* f, std::size_t count) {
      auto* sum = reinterpret_cast<float*>(t);
      const auto* term = reinterpret_cast<const float*>(f);
      for (std::size_t i = 0; i < count / sizeof(float); ++i) sum[i] += term[i];
    });
  }
};

// The rows of `run` outside of an image of `height` rows.
class EdgeRows {
 public:
  EdgeRows(const RowPlanes& planes, DType dtype, RowEdge edge, std::int64_t height, const RowRun& run)
      : planes_(planes), dtype_(dtype), edge_(edge), run_(run) {
    above_ = RowRun{run.begin, 0}.overlap(run);
    below_ = RowRun{height, run.end}.overlap(run);
  }

  void fill(std::byte* image) const {
    for (const RowRun& rows : {above_, below_})
      planes_.for_each_plane(rows, image, run_, image, run_,
                             [&](std::byte* to, const std::byte*, std::size_t count) { put(to, count); });
  }

 private:
  void put(std::byte* to, std::size_t count) const {
    if (edge_ == RowEdge::zero) {
      std::memset(to, 0, count);
    } else if (dtype_ == DType::f32) {
      std::fill_n(reinterpret_cast<float*>(to), count / sizeof(float), -std::numeric_limits<float>::infinity());
    } else {
      const std::uint16_t lowest = dtype_ == DType::f16 ? 0xfc00 : 0xff80;  // minus infinity
      std::fill_n(reinterpret_cast<std::uint16_t*>(to), count / sizeof(std::uint16_t), lowest);
    }
  }

  RowPlanes planes_;
  DType dtype_;
  RowEdge edge_;
  RowRun run_, above_, below_;
};

// Packed rows on their way between this rank and each other.
class RowMessages {
 public:
  RowMessages(const KernelRequest& request, int ranks)
      : ranks_(request.ranks), sends_(peers(ranks)), receives_(peers(ranks)) {}

  struct Packed {
    RowRun rows;
    std::size_t offset = 0;  // into scratch
    std::size_t bytes = 0;
    Ticket ticket = {};
  };
  void plan_send(int peer, const RowRun& rows, std::size_t bytes) { place(sends_[index(peer)], rows, bytes); }
  void plan_receive(int peer, const RowRun& rows, std::size_t bytes) { place(receives_[index(peer)], rows, bytes); }
  std::size_t scratch_bytes() const { return scratch_bytes_; }

  // pack(rows, memory) for each message, before it leaves.
  template <class Pack>
  void start(std::byte* scratch, Pack pack) {
    for (std::size_t peer = 0; peer < receives_.size(); ++peer)
      if (Packed& message = receives_[peer]; message.bytes > 0)
        message.ticket = group().receive({scratch + message.offset, message.bytes}, static_cast<int>(peer));
    for (std::size_t peer = 0; peer < sends_.size(); ++peer)
      if (Packed& message = sends_[peer]; message.bytes > 0) {
        pack(message.rows, scratch + message.offset);
        message.ticket = group().send({scratch + message.offset, message.bytes}, static_cast<int>(peer));
      }
  }
  void finish() {
    for (const std::vector<Packed>* messages : {&receives_, &sends_})
      for (const Packed& message : *messages)
        if (message.bytes > 0) group().wait(message.ticket);
  }
  const Packed& received(int peer) const { return receives_[index(peer)]; }

 private:
  static std::size_t peers(int ranks) { return static_cast<std::size_t>(ranks); }
  static std::size_t index(int peer) { return static_cast<std::size_t>(peer); }
  void place(Packed& message, const RowRun& rows, std::size_t bytes) {
    message = {.rows = rows, .offset = scratch_bytes_, .bytes = bytes};
    scratch_bytes_ += (bytes + 63) / 64 * 64;
  }
  Communicator& group() const {
    TRIFOLD_CHECK(ranks_ != nullptr, "the program was compiled without its ranks");
    return ranks_->along(Axis::tensor);
  }

  const RankGroups* ranks_;
  std::vector<Packed> sends_, receives_;  // by rank
  std::size_t scratch_bytes_ = 0;
};

class RowExchangeKernel final : public Kernel {
 public:
  explicit RowExchangeKernel(const KernelRequest& request)
      : moves_(op_as<RowExchange>(request).moves),
        planes_(request.in[0]),
        edge_(planes_, request.in[0].dtype, op_as<RowExchange>(request).edge, moves_.has.back().end, moves_.wanted()),
        messages_(request, moves_.ranks()) {
    for (int peer = 0; peer < moves_.ranks(); ++peer) {
      if (peer == moves_.rank) continue;
      const RowRun to_peer = moves_.moved(moves_.rank, peer);
      const RowRun from_peer = moves_.moved(peer, moves_.rank);
      messages_.plan_send(peer, to_peer, planes_.bytes(to_peer));
      messages_.plan_receive(peer, from_peer, planes_.bytes(from_peer));
    }
  }

  std::size_t scratch_bytes() const override { return messages_.scratch_bytes(); }
  std::string implementation() const override { return name_of(Axis::tensor); }

  void run(const StepContext&) override {
    const RowRun& held = moves_.mine();
    const RowRun& wanted = moves_.wanted();
    messages_.start(scratch(),
                    [&](const RowRun& rows, std::byte* to) { planes_.copy(rows, to, rows, in<std::byte>(0), held); });
    planes_.copy(held.overlap(wanted), out<std::byte>(0), wanted, in<std::byte>(0), held);
    edge_.fill(out<std::byte>(0));
    messages_.finish();
    for (int peer = 0; peer < moves_.ranks(); ++peer) {
      if (peer == moves_.rank) continue;
      const RowMessages::Packed& message = messages_.received(peer);
      planes_.copy(message.rows, out<std::byte>(0), wanted, scratch() + message.offset, message.rows);
    }
  }

 private:
  RowMoves moves_;
  RowPlanes planes_;
  EdgeRows edge_;
  RowMessages messages_;
};

class HaloAddKernel final : public Kernel {
 public:
  explicit HaloAddKernel(const KernelRequest& request)
      : moves_(op_as<HaloAdd>(request).moves), planes_(request.in[0]), messages_(request, moves_.ranks()) {
    TRIFOLD_CHECK(request.in[0].dtype == DType::f32, "halo_add of {}", name_of(request.in[0].dtype));
    for (int peer = 0; peer < moves_.ranks(); ++peer) {
      if (peer == moves_.rank) continue;
      const RowRun to_peer = moves_.moved(peer, moves_.rank);
      const RowRun from_peer = moves_.moved(moves_.rank, peer);
      messages_.plan_send(peer, to_peer, planes_.bytes(to_peer));
      messages_.plan_receive(peer, from_peer, planes_.bytes(from_peer));
    }
  }

  std::size_t scratch_bytes() const override { return messages_.scratch_bytes(); }
  std::string implementation() const override { return name_of(Axis::tensor); }

  void run(const StepContext&) override {
    const RowRun& held = moves_.mine();
    const RowRun& wanted = moves_.wanted();
    messages_.start(scratch(),
                    [&](const RowRun& rows, std::byte* to) { planes_.copy(rows, to, rows, in<std::byte>(0), wanted); });
    std::memset(out<std::byte>(0), 0, planes_.bytes(held));  // rows that nobody wanted have no gradient
    messages_.finish();
    for (int rank = 0; rank < moves_.ranks(); ++rank) {
      if (rank == moves_.rank) {
        planes_.add(held.overlap(wanted), out<std::byte>(0), held, in<std::byte>(0), wanted);
      } else {
        const RowMessages::Packed& message = messages_.received(rank);
        planes_.add(message.rows, out<std::byte>(0), held, scratch() + message.offset, message.rows);
      }
    }
  }

 private:
  RowMoves moves_;
  RowPlanes planes_;
  RowMessages messages_;
};

class TakeRowsKernel final : public Kernel {
 public:
  explicit TakeRowsKernel(const KernelRequest& request)
      : whole_{0, request.in[0].shape[2]},
        wanted_{op_as<TakeRows>(request).first_row, op_as<TakeRows>(request).first_row + request.out[0].shape[2]},
        planes_(request.in[0]),
        edge_(planes_, request.in[0].dtype, op_as<TakeRows>(request).edge, whole_.end, wanted_) {}

  void run(const StepContext&) override {
    planes_.copy(whole_.overlap(wanted_), out<std::byte>(0), wanted_, in<std::byte>(0), whole_);
    edge_.fill(out<std::byte>(0));
  }

 private:
  RowRun whole_, wanted_;
  RowPlanes planes_;
  EdgeRows edge_;
};

const RegisterKernel register_halo_kernels_cpu_halo_exchange(cpu_backend(), "halo_exchange",
                                                             make_kernel<RowExchangeKernel>);
const RegisterKernel register_halo_kernels_cpu_gather_rows(cpu_backend(), "gather_rows",
                                                           make_kernel<RowExchangeKernel>);
const RegisterKernel register_halo_kernels_cpu_halo_add(cpu_backend(), "halo_add", make_kernel<HaloAddKernel>);
const RegisterKernel register_halo_kernels_cpu_take_rows(cpu_backend(), "take_rows", make_kernel<TakeRowsKernel>);
const RegisterKernel reference_halo_exchange(reference_backend(), "halo_exchange", make_kernel<RowExchangeKernel>);
const RegisterKernel reference_gather_rows(reference_backend(), "gather_rows", make_kernel<RowExchangeKernel>);
const RegisterKernel reference_halo_add(reference_backend(), "halo_add", make_kernel<HaloAddKernel>);
const RegisterKernel reference_take_rows(reference_backend(), "take_rows", make_kernel<TakeRowsKernel>);

}  // namespace
}  // namespace trifold
