#include "parallel/communicator/mpi/hierarchical_communicator.h"

#include "core/error.h"
#include "parallel/communicator/local_communicator.h"
#include "parallel/communicator/mpi/hierarchical_group.h"

namespace trifold {
namespace {

// One rank's view of the group. Messages to ranks of the same process go through `here`.
class HierarchicalCommunicator final : public Communicator {
 public:
  HierarchicalCommunicator(std::shared_ptr<HierarchicalGroup> group, std::unique_ptr<Communicator> here)
      : group_(std::move(group)), here_(std::move(here)), rank_(group_->first_here() + here_->rank()) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

  Ticket all_reduce(std::span<float> data) override {
    const std::span<std::byte> bytes = std::as_writable_bytes(data);
    return announce(MpiKind::all_reduce, bytes.size(), bytes, bytes);
  }
  Ticket reduce_scatter(std::span<const float> all, std::span<float> part) override {
    check_parts(all.size_bytes(), part.size_bytes());
    return announce(MpiKind::reduce_scatter, part.size_bytes(), std::as_bytes(all), std::as_writable_bytes(part));
  }
  Ticket all_gather(std::span<const std::byte> part, std::span<std::byte> all) override {
    check_parts(all.size(), part.size());
    return announce(MpiKind::all_gather, part.size(), part, all);
  }
  Ticket broadcast(std::span<std::byte> data, int root) override {
    check_rank(root);
    return announce(MpiKind::broadcast, data.size(), data, data, root);
  }
  Ticket all_to_all(std::span<const std::byte> from, std::span<std::byte> to) override {
    const std::size_t part = from.size() / static_cast<std::size_t>(size());
    check_parts(from.size(), part);
    check_parts(to.size(), part);
    return announce(MpiKind::all_to_all, part, from, to);
  }

  Ticket send(std::span<const std::byte> data, int to, int tag) override {
    check_rank(to);
    if (group_->is_here(to)) return outside(here_->send(data, to - group_->first_here(), tag));
    return group_->begin_message(rank_, {MpiKind::send, to, std::ssize(data)}, tag,
                                 const_cast<std::byte*>(data.data()));
  }
  Ticket receive(std::span<std::byte> data, int from, int tag) override {
    check_rank(from);
    if (group_->is_here(from)) return outside(here_->receive(data, from - group_->first_here(), tag));
    return group_->begin_message(rank_, {MpiKind::receive, from, std::ssize(data)}, tag, data.data());
  }

  void wait(const Ticket& ticket) override {
    if (ticket.peer >= 0 && group_->is_here(ticket.peer)) {
      Ticket inside = ticket;
      inside.peer -= group_->first_here();
      return here_->wait(inside);
    }
    group_->engine().wait({.rank = group_->name(rank_),
                           .finished = [&] { return group_->finish(ticket); },
                           .describe = [&] { return group_->describe(ticket); }});
  }
  void barrier() override { wait(announce(MpiKind::barrier, 0, {}, {})); }
  void abort(const std::string& reason) override {
    here_->abort(reason);
    group_->engine().board.fail(reason);
  }

 private:
  Ticket announce(MpiKind kind, std::size_t bytes, std::span<const std::byte> in, std::span<std::byte> out,
                  int root = -1) {
    return group_->announce(rank_, {kind, root, static_cast<std::int64_t>(bytes)}, {in.data(), out.data()});
  }
  Ticket outside(Ticket inside) const {
    inside.peer += group_->first_here();
    return inside;
  }
  void check_parts(std::size_t all, std::size_t part) const {
    TRIFOLD_CHECK(all == part * static_cast<std::size_t>(size()), "{} bytes are not {} parts of {}", all, size(), part);
  }
  void check_rank(int rank) const {
    TRIFOLD_CHECK(rank >= 0 && rank < size(), "there is no rank {} of {}", rank, size());
  }

  std::shared_ptr<HierarchicalGroup> group_;
  std::unique_ptr<Communicator> here_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_hierarchical_group(const std::shared_ptr<MpiEngine>& engine,
                                                                   MPI_Comm processes, const Mpi::GroupArgs& args) {
  const auto group = std::make_shared<HierarchicalGroup>(engine, processes, args);
  std::vector<int> names;
  names.reserve(static_cast<std::size_t>(group->members_here()));
  for (int i = 0; i < group->members_here(); ++i) names.push_back(group->name(group->first_here() + i));
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (std::unique_ptr<Communicator>& here :
       make_local_group({.size = group->members_here(), .ranks = names, .board = &engine->board}))
    ranks.push_back(std::make_unique<HierarchicalCommunicator>(group, std::move(here)));
  return ranks;
}

}  // namespace trifold
