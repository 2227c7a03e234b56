#include "parallel/hierarchical_communicator.h"

#include <algorithm>
#include <climits>
#include <cstring>
#include <list>

#include "parallel/local_communicator.h"
#include "parallel/sum_chain.h"
#include "runtime/core/error.h"

namespace trifold {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} << 10;  // that one rank works on at a time

// Where a rank's part of a collective lies.
struct Member {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
};

struct Copy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
};

// Copies that the ranks which wait share among themselves.
class CopyList {
 public:
  void add(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (to == from) return;
    for (std::size_t begin = 0; begin < bytes; begin += kPieceBytes)
      copies_.push_back({to + begin, from + begin, std::min(kPieceBytes, bytes - begin)});
  }
  std::optional<MpiTask> claim_task() {
    if (claimed_ == copies_.size()) return std::nullopt;
    const Copy copy = copies_[claimed_++];
    return MpiTask{.run = [copy] { std::memcpy(copy.to, copy.from, copy.bytes); }, .done = [this] { ++done_; }};
  }
  bool done() const { return done_ == copies_.size(); }

 private:
  std::vector<Copy> copies_;
  std::size_t claimed_ = 0;
  std::size_t done_ = 0;
};

// A run of equal parts as one element of MPI's, whose counts are int.
class PartType {
 public:
  explicit PartType(std::size_t bytes) {
    TRIFOLD_MPI_CALL(MPI_Type_contiguous, mpi_count(bytes), MPI_BYTE, &type_);
    TRIFOLD_MPI_CALL(MPI_Type_commit, &type_);
  }
  ~PartType() { MPI_Type_free(&type_); }  // MPI keeps it for exchanges under way
  PartType(const PartType&) = delete;
  PartType& operator=(const PartType&) = delete;
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// A collective on its way through its stages. It begins when all ranks of this process have announced it.
struct Operation {
  enum class Stage { announced, check, checked, pack, packed, exchange, unpack, done };

  std::int64_t number = 0;
  MpiCall call = {};
  int first_member = -1;  // that announced it
  std::vector<Member> members = {};
  std::size_t arrived = 0;
  std::size_t left = 0;  // ranks that need it no more
  Stage stage = Stage::announced;
  MPI_Request request = MPI_REQUEST_NULL;
  std::vector<MpiCall> calls = {};       // of all processes
  std::vector<std::byte> sent = {};      // what this process gives the others, where it lies nowhere in one piece
  std::vector<std::byte> received = {};  // what came from them, likewise
  CopyList packing = {};
  CopyList unpacking = {};
  std::unique_ptr<SumChain> chain = {};

  std::size_t bytes() const { return static_cast<std::size_t>(call.bytes); }
};

class HierarchicalGroup final : public MpiWork {
 public:
  using Stage = Operation::Stage;

  HierarchicalGroup(std::shared_ptr<MpiEngine> engine, MPI_Comm processes, Mpi::GroupArgs args)
      : engine_(std::move(engine)), args_(std::move(args)), exchanges_(processes), chains_(duplicate(processes)) {
    if (args_.check_calls) checks_ = duplicate(processes);
    MPI_Comm_set_errhandler(exchanges_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(exchanges_, &process_);
    for (std::size_t member = 0; member < args_.ranks.size(); ++member) {
      if (member == 0 || args_.processes[member] != args_.processes[member - 1]) {
        firsts_.push_back(static_cast<int>(member));
        counts_.push_back(0);
      }
      counts_.back() += 1;
      process_of_.push_back(static_cast<int>(firsts_.size()) - 1);
      most_ = std::max(most_, counts_.back());
    }
    for (std::size_t process = 0; process < counts_.size(); ++process) {
      pair_counts_.push_back(counts_[process] * members_here());
      pair_offsets_.push_back(firsts_[process] * members_here());
    }
    called_.resize(static_cast<std::size_t>(members_here()));
    engine_->add(this);
  }
  HierarchicalGroup(const HierarchicalGroup&) = delete;
  HierarchicalGroup& operator=(const HierarchicalGroup&) = delete;
  // MPI's communicators stay until MPI ends: to free one is a collective, which a failing rank would wait in.
  ~HierarchicalGroup() override { engine_->remove(this); }

  MpiEngine& engine() const { return *engine_; }
  int size() const { return static_cast<int>(args_.ranks.size()); }
  int first_here() const { return firsts_[static_cast<std::size_t>(process_)]; }
  int members_here() const { return counts_[static_cast<std::size_t>(process_)]; }
  bool is_here(int member) const { return process_of_[static_cast<std::size_t>(member)] == process_; }
  int name(int member) const { return args_.ranks[static_cast<std::size_t>(member)]; }  // as messages say

  // --- called by the ranks here; `member` is one of the group

  Ticket announce(int member, const MpiCall& call, Member memory);
  Ticket begin_message(int member, const MpiCall& call, int tag, void* memory);
  bool finish(const Ticket& ticket);  // these two with the lock
  RankStatus::Waiting describe(const Ticket& ticket) const;

  // --- called by whoever waits, with the lock

  void advance() override;
  std::optional<MpiTask> claim_task() override;
  void add_calls(std::map<int, RankStatus>& by_rank) const override {
    for (int i = 0; i < members_here(); ++i)
      by_rank[name(first_here() + i)].calls[args_.name] = called_[static_cast<std::size_t>(i)];
  }

 private:
  bool is_chain(const MpiCall& call) const {
    return call.kind == MpiKind::reduce_scatter ||
           (call.kind == MpiKind::all_reduce && call.bytes > std::int64_t{kSmallSum});
  }
  void advance(Operation& operation, bool may_exchange);
  void begin_check(Operation& operation);
  void finish_check(const Operation& operation) const;
  void begin_packing(Operation& operation) const;
  void begin_exchange(Operation& operation);
  void begin_chain(Operation& operation);
  void begin_unpacking(Operation& operation) const;
  std::byte* shared_memory(const Operation& operation) const;

  std::shared_ptr<MpiEngine> engine_;
  Mpi::GroupArgs args_;
  MPI_Comm exchanges_, chains_;
  MPI_Comm checks_ = MPI_COMM_NULL;
  int process_ = 0;                   // among those of the group
  std::vector<int> process_of_;       // of each member
  std::vector<int> counts_;           // members of each process,
  std::vector<int> firsts_;           // and their first
  std::vector<int> pair_counts_;      // pairs of a member here and one of each process,
  std::vector<int> pair_offsets_;     // and those of the processes before
  int most_ = 1;                      // members of a process
  std::vector<std::int64_t> called_;  // collectives, by member here
  std::list<Operation> operations_;   // as announced
  std::int64_t messages_begun_ = 0;
  std::list<MpiMessage> messages_;
  std::vector<std::vector<float>> spare_room_;
};

// --- calls

Ticket HierarchicalGroup::announce(int member, const MpiCall& call, Member memory) {
  engine_->board.stop_if_ended();
  const std::lock_guard lock(engine_->mutex);
  const auto here = static_cast<std::size_t>(member - first_here());
  const std::int64_t number = called_[here]++;
  auto found = std::ranges::find_if(operations_, [&](const Operation& each) { return each.number == number; });
  if (found == operations_.end()) {
    found = operations_.emplace(operations_.end());
    found->number = number;
    found->call = call;
    found->first_member = member;
    found->members.resize(static_cast<std::size_t>(members_here()));
  }
  if (call != found->call)
    throw Error(Fault::rank_lost, fmt::format("rank {} calls {} where rank {} calls {}", name(member), to_string(call),
                                              name(found->first_member), to_string(found->call)));
  found->members[here] = memory;
  found->arrived += 1;
  if (found->arrived == found->members.size()) {
    if (args_.check_calls)
      begin_check(*found);
    else
      found->stage = Stage::checked;
    advance();
  }
  return {.number = number};
}

// MPI tells processes apart, the tag the ranks in them.
Ticket HierarchicalGroup::begin_message(int member, const MpiCall& call, int tag, void* memory) {
  engine_->board.stop_if_ended();
  const std::lock_guard lock(engine_->mutex);
  MpiMessage& message = messages_.emplace_back();
  message.number = messages_begun_++;
  message.call = call;
  const bool sends = call.kind == MpiKind::send;
  const int process = process_of_[static_cast<std::size_t>(call.root)];
  const int mine = member - first_here();
  const int theirs = call.root - firsts_[static_cast<std::size_t>(process)];
  const std::int64_t full_tag = (std::int64_t{tag} * most_ + (sends ? mine : theirs)) * most_ + (sends ? theirs : mine);
  TRIFOLD_CHECK(full_tag <= INT_MAX, "a tag of {} with {} ranks in a process", tag, most_);
  const int count = mpi_count(static_cast<std::size_t>(call.bytes));
  if (sends)
    TRIFOLD_MPI_CALL(MPI_Isend, memory, count, MPI_BYTE, process, static_cast<int>(full_tag), exchanges_,
                     &message.request);
  else
    TRIFOLD_MPI_CALL(MPI_Irecv, memory, count, MPI_BYTE, process, static_cast<int>(full_tag), exchanges_,
                     &message.request);
  return {.number = message.number, .peer = call.root, .tag = tag, .sends = sends};
}

bool HierarchicalGroup::finish(const Ticket& ticket) {
  const auto numbered = [&](const auto& each) { return each.number == ticket.number; };
  if (ticket.peer >= 0) {
    const auto message = std::ranges::find_if(messages_, numbered);
    const bool done = has_arrived(message->request);
    if (done) messages_.erase(message);
    return done;
  }
  const auto operation = std::ranges::find_if(operations_, numbered);
  if (operation->stage != Stage::done) return false;
  operation->left += 1;
  if (operation->left < operation->members.size()) return true;
  if (operation->chain) spare_room_.push_back(operation->chain->take_room());
  operations_.erase(operation);
  return true;
}

RankStatus::Waiting HierarchicalGroup::describe(const Ticket& ticket) const {
  const auto numbered = [&](const auto& each) { return each.number == ticket.number; };
  if (ticket.peer >= 0) {
    MpiCall call = std::ranges::find_if(messages_, numbered)->call;
    call.root = name(call.root);
    return {.what = to_string(call), .group = "", .call = 0, .ranks = {call.root}};
  }
  const auto operation = std::ranges::find_if(operations_, numbered);
  return {.what = fmt::format("{} ({} axis)", to_string(operation->call), args_.name.substr(0, args_.name.find(' '))),
          .group = args_.name,
          .call = operation->number + 1,
          .ranks = args_.ranks};
}

// --- stages

// MPI matches collectives of one communicator by their order, so exchanges begin in the order of announcement.
void HierarchicalGroup::advance() {
  bool may_exchange = true;
  for (Operation& operation : operations_) {
    if (operation.stage == Stage::announced) return;  // nor have all ranks announced those after it
    advance(operation, may_exchange);
    may_exchange = may_exchange && operation.stage >= Stage::exchange;
  }
}

void HierarchicalGroup::advance(Operation& operation, bool may_exchange) {
  if (operation.stage == Stage::check && has_arrived(operation.request)) {
    finish_check(operation);
    operation.stage = Stage::checked;
  }
  if (operation.stage == Stage::checked) {
    begin_packing(operation);
    operation.stage = Stage::pack;
  }
  if (operation.stage == Stage::pack && operation.packing.done()) operation.stage = Stage::packed;
  if (operation.stage == Stage::packed && may_exchange) {
    begin_exchange(operation);
    operation.stage = Stage::exchange;
  }
  if (operation.chain) {
    operation.chain->advance();
    if (operation.stage == Stage::exchange && operation.chain->done()) operation.stage = Stage::done;
    return;
  }
  if (operation.stage == Stage::exchange && has_arrived(operation.request)) {
    begin_unpacking(operation);
    operation.stage = Stage::unpack;
  }
  if (operation.stage == Stage::unpack && operation.unpacking.done()) operation.stage = Stage::done;
}

std::optional<MpiTask> HierarchicalGroup::claim_task() {
  for (Operation& operation : operations_) {
    std::optional<MpiTask> task;
    if (operation.stage == Stage::pack) task = operation.packing.claim_task();
    if (operation.stage == Stage::unpack) task = operation.unpacking.claim_task();
    if (operation.stage == Stage::exchange && operation.chain) task = operation.chain->claim_task();
    if (task) return task;
  }
  return std::nullopt;
}

void HierarchicalGroup::begin_check(Operation& operation) {
  operation.stage = Stage::check;
  operation.calls.resize(counts_.size());
  TRIFOLD_MPI_CALL(MPI_Iallgather, &operation.call, sizeof(MpiCall), MPI_BYTE, operation.calls.data(), sizeof(MpiCall),
                   MPI_BYTE, checks_, &operation.request);
}

void HierarchicalGroup::finish_check(const Operation& operation) const {
  for (std::size_t process = 1; process < counts_.size(); ++process)
    if (operation.calls[process] != operation.calls[0])
      throw Error(Fault::rank_lost,
                  fmt::format("rank {} calls {} where rank {} calls {}", name(firsts_[process]),
                              to_string(operation.calls[process]), name(0), to_string(operation.calls[0])));
}

// The memory of a rank here that is exchanged for all of them: the first one's, but what is broadcast lies with its
// root.
std::byte* HierarchicalGroup::shared_memory(const Operation& operation) const {
  const int root =
      operation.call.kind == MpiKind::broadcast && is_here(operation.call.root) ? operation.call.root : first_here();
  return operation.members[static_cast<std::size_t>(root - first_here())].out;
}

void HierarchicalGroup::begin_packing(Operation& operation) const {
  const std::size_t bytes = operation.bytes();
  const auto first = static_cast<std::size_t>(first_here());
  const std::size_t here = operation.members.size();
  if (bytes == 0 || is_chain(operation.call)) return;
  if (operation.call.kind == MpiKind::all_gather) {
    for (std::size_t i = 0; i < here; ++i)
      operation.packing.add(shared_memory(operation) + (first + i) * bytes, operation.members[i].in, bytes);
  } else if (operation.call.kind == MpiKind::all_reduce) {
    operation.sent.resize(here * bytes);
    operation.received.resize(args_.ranks.size() * bytes);
    for (std::size_t i = 0; i < here; ++i)
      operation.packing.add(operation.sent.data() + i * bytes, operation.members[i].in, bytes);
  } else if (operation.call.kind == MpiKind::all_to_all) {
    operation.sent.resize(here * args_.ranks.size() * bytes);
    operation.received.resize(operation.sent.size());
    std::byte* to = operation.sent.data();
    for (std::size_t process = 0; process < counts_.size(); ++process) {
      const auto count = static_cast<std::size_t>(counts_[process]);
      for (const Member& member : operation.members) {
        operation.packing.add(to, member.in + static_cast<std::size_t>(firsts_[process]) * bytes, count * bytes);
        to += count * bytes;
      }
    }
  }
}

void HierarchicalGroup::begin_exchange(Operation& operation) {
  MPI_Request* request = &operation.request;
  const std::size_t bytes = operation.bytes();
  if (bytes == 0) {
    TRIFOLD_MPI_CALL(MPI_Ibarrier, exchanges_, request);
    return;
  }
  if (is_chain(operation.call)) return begin_chain(operation);
  const PartType part(bytes);
  switch (operation.call.kind) {
    case MpiKind::all_gather:
      TRIFOLD_MPI_CALL(MPI_Iallgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, shared_memory(operation), counts_.data(),
                       firsts_.data(), part.get(), exchanges_, request);
      return;
    case MpiKind::all_reduce:
      TRIFOLD_MPI_CALL(MPI_Iallgatherv, operation.sent.data(), members_here(), part.get(), operation.received.data(),
                       counts_.data(), firsts_.data(), part.get(), exchanges_, request);
      return;
    case MpiKind::broadcast:
      TRIFOLD_MPI_CALL(MPI_Ibcast, shared_memory(operation), 1, part.get(),
                       process_of_[static_cast<std::size_t>(operation.call.root)], exchanges_, request);
      return;
    default:
      TRIFOLD_MPI_CALL(MPI_Ialltoallv, operation.sent.data(), pair_counts_.data(), pair_offsets_.data(), part.get(),
                       operation.received.data(), pair_counts_.data(), pair_offsets_.data(), part.get(), exchanges_,
                       request);
  }
}

void HierarchicalGroup::begin_chain(Operation& operation) {
  constexpr std::size_t kPiece = kPieceBytes / sizeof(float);
  constexpr std::int64_t kTags = 1 << 15;  // every MPI has as many, and no group so many sums under way
  const std::size_t count = operation.bytes() / sizeof(float);
  SumChain::Args args{.processes = chains_, .tag = static_cast<int>(operation.number % kTags)};
  for (const Member& member : operation.members) args.terms.push_back(reinterpret_cast<const float*>(member.in));
  const bool scatters = operation.call.kind == MpiKind::reduce_scatter;
  for (int part = 0; part < (scatters ? size() : 1); ++part)
    for (std::size_t begin = 0; begin < count; begin += kPiece) {
      SumChain::Piece& piece = args.pieces.emplace_back();
      piece.begin = static_cast<std::size_t>(part) * count + begin;
      piece.count = std::min(kPiece, count - begin);
      if (scatters) piece.owner = process_of_[static_cast<std::size_t>(part)];
      for (int i = 0; i < members_here(); ++i)
        if (!scatters || first_here() + i == part)
          piece.places.push_back(reinterpret_cast<float*>(operation.members[static_cast<std::size_t>(i)].out) + begin);
    }
  if (!spare_room_.empty()) {
    args.room = std::move(spare_room_.back());
    spare_room_.pop_back();
  }
  operation.chain = std::make_unique<SumChain>(std::move(args));
}

void HierarchicalGroup::begin_unpacking(Operation& operation) const {
  const std::size_t bytes = operation.bytes();
  if (bytes == 0) return;
  if (operation.call.kind == MpiKind::all_to_all) {
    const std::byte* from = operation.received.data();
    for (std::size_t other = 0; other < args_.ranks.size(); ++other)
      for (const Member& member : operation.members) {
        operation.unpacking.add(member.out + other * bytes, from, bytes);
        from += bytes;
      }
    return;
  }
  std::byte* shared = shared_memory(operation);
  if (operation.call.kind == MpiKind::all_reduce)
    add_up(reinterpret_cast<const float*>(operation.received.data()), args_.ranks.size(), bytes / sizeof(float),
           reinterpret_cast<float*>(shared));
  const bool all_parts = operation.call.kind == MpiKind::all_gather;
  for (const Member& member : operation.members)
    operation.unpacking.add(member.out, shared, all_parts ? bytes * args_.ranks.size() : bytes);
}

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
  for (int i = 0; i < group->members_here(); ++i) names.push_back(group->name(group->first_here() + i));
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (std::unique_ptr<Communicator>& here :
       make_local_group({.size = group->members_here(), .ranks = names, .board = &engine->board}))
    ranks.push_back(std::make_unique<HierarchicalCommunicator>(group, std::move(here)));
  return ranks;
}

}  // namespace trifold
