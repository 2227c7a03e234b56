#include "parallel/communicator/mpi/mpi_communicator.h"

#include <algorithm>
#include <list>

#include "core/error.h"
#include "core/parallel.h"

namespace trifold {
namespace {

// A collective on its way. Sums of many numbers go in two exchanges: every rank gets all terms of its part, adds them
// up, and gives its part to all.
struct MpiOperation {
  enum class Stage { check, checked, exchange, exchanged, spread, done };

  std::int64_t number = 0;
  MpiCall call = {};
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  Stage stage = Stage::checked;
  MPI_Request request = MPI_REQUEST_NULL;
  std::vector<MpiCall> calls = {};  // of all ranks
  std::vector<float> terms = {};    // of this rank's part, by rank
  std::vector<int> counts = {};     // of every rank's part
  std::vector<int> offsets = {};
  std::vector<int> term_counts = {};
  std::vector<int> term_offsets = {};

  bool in_two_exchanges() const { return call.kind == MpiKind::all_reduce && !counts.empty(); }
  bool arrived() { return has_arrived(request); }
};

constexpr std::int64_t kPartGrain = 16;  // floats: parts begin at a cache line

class MpiCommunicator final : public Communicator, public MpiWork {
 public:
  MpiCommunicator(std::shared_ptr<MpiEngine> engine, MPI_Comm communicator, Mpi::GroupArgs args)
      : engine_(std::move(engine)),
        args_(std::move(args)),
        exchanges_(communicator),
        spreads_(duplicate(communicator)) {
    if (args_.check_calls) checks_ = duplicate(communicator);
    MPI_Comm_set_errhandler(exchanges_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(communicator, &rank_);
    engine_->add(this);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;
  // MPI's communicators stay until MPI ends: to free one is a collective, which a failing rank would wait in.
  ~MpiCommunicator() override { engine_->remove(this); }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(args_.ranks.size()); }

  Ticket all_reduce(std::span<float> data) override {
    const std::span<std::byte> bytes = std::as_writable_bytes(data);
    return announce(MpiKind::all_reduce, bytes.size(), bytes.data(), bytes.data());
  }
  Ticket reduce_scatter(std::span<const float> all, std::span<float> part) override {
    check_parts(all.size_bytes(), part.size_bytes());
    return announce(MpiKind::reduce_scatter, part.size_bytes(), std::as_bytes(all).data(),
                    std::as_writable_bytes(part).data());
  }
  Ticket all_gather(std::span<const std::byte> part, std::span<std::byte> all) override {
    check_parts(all.size(), part.size());
    return announce(MpiKind::all_gather, part.size(), part.data(), all.data());
  }
  Ticket broadcast(std::span<std::byte> data, int root) override {
    check_rank(root);
    return announce(MpiKind::broadcast, data.size(), data.data(), data.data(), root);
  }
  Ticket all_to_all(std::span<const std::byte> from, std::span<std::byte> to) override {
    check_parts(from.size(), from.size() / static_cast<std::size_t>(size()));
    TRIFOLD_CHECK(from.size() == to.size(), "{} bytes cannot become {}", from.size(), to.size());
    return announce(MpiKind::all_to_all, from.size() / static_cast<std::size_t>(size()), from.data(), to.data());
  }

  Ticket send(std::span<const std::byte> data, int to, int tag) override {
    return begin_message({MpiKind::send, to, std::ssize(data)}, tag, [&](MPI_Request* request) {
      TRIFOLD_MPI_CALL(MPI_Isend, data.data(), mpi_count(data.size()), MPI_BYTE, to, tag, exchanges_, request);
    });
  }
  Ticket receive(std::span<std::byte> data, int from, int tag) override {
    return begin_message({MpiKind::receive, from, std::ssize(data)}, tag, [&](MPI_Request* request) {
      TRIFOLD_MPI_CALL(MPI_Irecv, data.data(), mpi_count(data.size()), MPI_BYTE, from, tag, exchanges_, request);
    });
  }

  void wait(const Ticket& ticket) override;
  void barrier() override { wait(announce(MpiKind::barrier, 0, nullptr, nullptr)); }
  void abort(const std::string& reason) override { engine_->board.fail(reason); }

  void advance() override;
  void add_calls(std::map<int, RankStatus>& by_rank) const override { by_rank[name()].calls[args_.name] = called_; }

 private:
  using Stage = MpiOperation::Stage;
  std::size_t ranks() const { return args_.ranks.size(); }
  int name() const { return args_.ranks[static_cast<std::size_t>(rank_)]; }

  Ticket announce(MpiKind kind, std::size_t bytes, const std::byte* in, std::byte* out, int root = -1);
  template <class Begin>
  Ticket begin_message(const MpiCall& call, int tag, const Begin& begin);
  bool finish(const Ticket& ticket);
  RankStatus::Waiting describe(const Ticket& ticket) const;

  void begin_check(MpiOperation& operation);
  void finish_check(const MpiOperation& operation) const;
  void begin_exchange(MpiOperation& operation);
  void begin_sum(MpiOperation& operation);
  void finish_exchange(MpiOperation& operation);
  void begin_spread(MpiOperation& operation);

  void check_parts(std::size_t all, std::size_t part) const {
    TRIFOLD_CHECK(all == part * ranks(), "{} bytes are not {} parts of {}", all, size(), part);
  }
  void check_rank(int rank) const {
    TRIFOLD_CHECK(rank >= 0 && rank < size(), "there is no rank {} of {}", rank, size());
  }

  std::shared_ptr<MpiEngine> engine_;
  Mpi::GroupArgs args_;
  int rank_ = 0;
  // MPI matches collectives of one communicator by their order. What begins when something else has ended begins at
  // another moment on every rank, so it has its own.
  MPI_Comm exchanges_, spreads_;
  MPI_Comm checks_ = MPI_COMM_NULL;
  std::int64_t called_ = 0;  // collectives
  std::int64_t messages_begun_ = 0;
  std::list<MpiOperation> operations_;  // as announced
  std::list<MpiMessage> messages_;
  std::vector<std::vector<float>> spare_terms_;
};

// --- calls

Ticket MpiCommunicator::announce(MpiKind kind, std::size_t bytes, const std::byte* in, std::byte* out, int root) {
  engine_->board.stop_if_ended();
  const std::lock_guard lock(engine_->mutex);
  MpiOperation& operation = operations_.emplace_back();
  operation.number = called_++;
  operation.call = {kind, root, static_cast<std::int64_t>(bytes)};
  operation.in = in;
  operation.out = out;
  if (args_.check_calls) begin_check(operation);
  advance();
  return {.number = operation.number};
}

template <class Begin>
Ticket MpiCommunicator::begin_message(const MpiCall& call, int tag, const Begin& begin) {
  check_rank(call.root);
  engine_->board.stop_if_ended();
  const std::lock_guard lock(engine_->mutex);
  MpiMessage& message = messages_.emplace_back();
  message.number = messages_begun_++;
  message.call = call;
  begin(&message.request);
  return {.number = message.number, .peer = call.root, .tag = tag, .sends = call.kind == MpiKind::send};
}

void MpiCommunicator::wait(const Ticket& ticket) {
  engine_->wait(
      {.rank = name(), .finished = [&] { return finish(ticket); }, .describe = [&] { return describe(ticket); }});
}

bool MpiCommunicator::finish(const Ticket& ticket) {
  const auto numbered = [&](const auto& each) { return each.number == ticket.number; };
  if (ticket.peer >= 0) {
    const auto message = std::ranges::find_if(messages_, numbered);
    const bool done = has_arrived(message->request);
    if (done) messages_.erase(message);
    return done;
  }
  const auto operation = std::ranges::find_if(operations_, numbered);
  if (operation->stage != Stage::done) return false;
  if (!operation->terms.empty()) spare_terms_.push_back(std::move(operation->terms));
  operations_.erase(operation);
  return true;
}

RankStatus::Waiting MpiCommunicator::describe(const Ticket& ticket) const {
  const auto numbered = [&](const auto& each) { return each.number == ticket.number; };
  if (ticket.peer >= 0) {
    MpiCall call = std::ranges::find_if(messages_, numbered)->call;
    call.root = args_.ranks[static_cast<std::size_t>(call.root)];
    return {.what = to_string(call), .group = "", .call = 0, .ranks = {call.root}};
  }
  const auto operation = std::ranges::find_if(operations_, numbered);
  return {.what = fmt::format("{} ({} axis)", to_string(operation->call), args_.name.substr(0, args_.name.find(' '))),
          .group = args_.name,
          .call = operation->number + 1,
          .ranks = args_.ranks};
}

// --- stages

// Every stage begins in the order in which operations were announced, as MPI demands.
void MpiCommunicator::advance() {
  bool may_exchange = true;
  bool may_spread = true;
  for (MpiOperation& operation : operations_) {
    if (operation.stage == Stage::check && operation.arrived()) {
      finish_check(operation);
      operation.stage = Stage::checked;
    }
    if (operation.stage == Stage::checked && may_exchange) {
      begin_exchange(operation);
      operation.stage = Stage::exchange;
    }
    may_exchange = may_exchange && operation.stage >= Stage::exchange;
    if (operation.stage == Stage::exchange && operation.arrived()) {
      finish_exchange(operation);
      operation.stage = operation.in_two_exchanges() ? Stage::exchanged : Stage::done;
    }
    if (operation.stage == Stage::exchanged && may_spread) {
      begin_spread(operation);
      operation.stage = Stage::spread;
    }
    const bool will_spread = operation.stage < Stage::exchange || operation.in_two_exchanges();
    may_spread = may_spread && (!will_spread || operation.stage >= Stage::spread);
    if (operation.stage == Stage::spread && operation.arrived()) operation.stage = Stage::done;
  }
}

void MpiCommunicator::begin_check(MpiOperation& operation) {
  operation.stage = Stage::check;
  operation.calls.resize(ranks());
  TRIFOLD_MPI_CALL(MPI_Iallgather, &operation.call, sizeof(MpiCall), MPI_BYTE, operation.calls.data(), sizeof(MpiCall),
                   MPI_BYTE, checks_, &operation.request);
}

void MpiCommunicator::finish_check(const MpiOperation& operation) const {
  for (std::size_t rank = 1; rank < ranks(); ++rank)
    if (operation.calls[rank] != operation.calls[0])
      throw Error(Fault::rank_lost,
                  fmt::format("rank {} calls {} where rank {} calls {}", args_.ranks[rank],
                              to_string(operation.calls[rank]), args_.ranks[0], to_string(operation.calls[0])));
}

void MpiCommunicator::begin_exchange(MpiOperation& operation) {
  MPI_Request* request = &operation.request;
  const auto bytes = static_cast<std::size_t>(operation.call.bytes);
  switch (operation.call.kind) {
    case MpiKind::all_reduce:
    case MpiKind::reduce_scatter:
      return begin_sum(operation);
    case MpiKind::all_gather: {
      const std::byte* place = operation.out + static_cast<std::size_t>(rank_) * bytes;
      const void* in = operation.in == place ? MPI_IN_PLACE : operation.in;
      TRIFOLD_MPI_CALL(MPI_Iallgather, in, mpi_count(bytes), MPI_BYTE, operation.out, mpi_count(bytes), MPI_BYTE,
                       exchanges_, request);
      return;
    }
    case MpiKind::broadcast:
      TRIFOLD_MPI_CALL(MPI_Ibcast, operation.out, mpi_count(bytes), MPI_BYTE, operation.call.root, exchanges_, request);
      return;
    case MpiKind::all_to_all:
      TRIFOLD_MPI_CALL(MPI_Ialltoall, operation.in, mpi_count(bytes), MPI_BYTE, operation.out, mpi_count(bytes),
                       MPI_BYTE, exchanges_, request);
      return;
    default:
      TRIFOLD_MPI_CALL(MPI_Ibarrier, exchanges_, request);
  }
}

void MpiCommunicator::begin_sum(MpiOperation& operation) {
  const std::size_t count = static_cast<std::size_t>(operation.call.bytes) / sizeof(float);
  if (!spare_terms_.empty()) {
    operation.terms = std::move(spare_terms_.back());
    spare_terms_.pop_back();
  }
  if (operation.call.kind == MpiKind::reduce_scatter || operation.call.bytes <= std::int64_t{kSmallSum}) {
    const auto exchange = operation.call.kind == MpiKind::reduce_scatter ? MPI_Ialltoall : MPI_Iallgather;
    operation.terms.resize(count * ranks());
    check_mpi(exchange(operation.in, mpi_count(count), MPI_FLOAT, operation.terms.data(), mpi_count(count), MPI_FLOAT,
                       exchanges_, &operation.request),
              "exchange of terms");
    return;
  }
  for (int part = 0; part < size(); ++part) {
    const Range range = share(static_cast<std::int64_t>(count), part, size(), kPartGrain);
    operation.counts.push_back(mpi_count(static_cast<std::size_t>(range.size())));
    operation.offsets.push_back(mpi_count(static_cast<std::size_t>(range.begin)));
  }
  const int mine = operation.counts[static_cast<std::size_t>(rank_)];
  for (int part = 0; part < size(); ++part) {
    operation.term_counts.push_back(mine);
    operation.term_offsets.push_back(part * mine);
  }
  operation.terms.resize(static_cast<std::size_t>(mine) * ranks());
  TRIFOLD_MPI_CALL(MPI_Ialltoallv, operation.in, operation.counts.data(), operation.offsets.data(), MPI_FLOAT,
                   operation.terms.data(), operation.term_counts.data(), operation.term_offsets.data(), MPI_FLOAT,
                   exchanges_, &operation.request);
}

void MpiCommunicator::finish_exchange(MpiOperation& operation) {
  if (operation.call.kind != MpiKind::all_reduce && operation.call.kind != MpiKind::reduce_scatter) return;
  auto* sum = reinterpret_cast<float*>(operation.out);
  if (operation.in_two_exchanges()) sum += operation.offsets[static_cast<std::size_t>(rank_)];
  add_up(operation.terms.data(), ranks(), operation.terms.size() / ranks(), sum);
}

void MpiCommunicator::begin_spread(MpiOperation& operation) {
  TRIFOLD_MPI_CALL(MPI_Iallgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, operation.out, operation.counts.data(),
                   operation.offsets.data(), MPI_FLOAT, spreads_, &operation.request);
}

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(std::shared_ptr<MpiEngine> engine, MPI_Comm communicator,
                                                    Mpi::GroupArgs args) {
  return std::make_unique<MpiCommunicator>(std::move(engine), communicator, std::move(args));
}

}  // namespace trifold
