#include "parallel/communicator/mpi/hierarchical_group.h"

#include <algorithm>
#include <climits>

#include "core/error.h"

namespace trifold {
HierarchicalGroup::HierarchicalGroup(std::shared_ptr<MpiEngine> engine, MPI_Comm processes, Mpi::GroupArgs args)
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

// --- calls

Ticket HierarchicalGroup::announce(int member, const MpiCall& call, HierarchicalMember memory) {
  engine_->board.stop_if_ended();
  const std::lock_guard lock(engine_->mutex);
  const auto here = static_cast<std::size_t>(member - first_here());
  const std::int64_t number = called_[here]++;
  auto found =
      std::ranges::find_if(operations_, [&](const HierarchicalOperation& each) { return each.number == number; });
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
  for (HierarchicalOperation& operation : operations_) {
    if (operation.stage == Stage::announced) return;  // nor have all ranks announced those after it
    advance(operation, may_exchange);
    may_exchange = may_exchange && operation.stage >= Stage::exchange;
  }
}

void HierarchicalGroup::advance(HierarchicalOperation& operation, bool may_exchange) {
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
  for (HierarchicalOperation& operation : operations_) {
    std::optional<MpiTask> task;
    if (operation.stage == Stage::pack) task = operation.packing.claim_task();
    if (operation.stage == Stage::unpack) task = operation.unpacking.claim_task();
    if (operation.stage == Stage::exchange && operation.chain) task = operation.chain->claim_task();
    if (task) return task;
  }
  return std::nullopt;
}

void HierarchicalGroup::begin_check(HierarchicalOperation& operation) {
  operation.stage = Stage::check;
  operation.calls.resize(counts_.size());
  TRIFOLD_MPI_CALL(MPI_Iallgather, &operation.call, sizeof(MpiCall), MPI_BYTE, operation.calls.data(), sizeof(MpiCall),
                   MPI_BYTE, checks_, &operation.request);
}

void HierarchicalGroup::finish_check(const HierarchicalOperation& operation) const {
  for (std::size_t process = 1; process < counts_.size(); ++process)
    if (operation.calls[process] != operation.calls[0])
      throw Error(Fault::rank_lost,
                  fmt::format("rank {} calls {} where rank {} calls {}", name(firsts_[process]),
                              to_string(operation.calls[process]), name(0), to_string(operation.calls[0])));
}

// The memory of a rank here that is exchanged for all of them: the first one's, but what is broadcast lies with its
// root.
std::byte* HierarchicalGroup::shared_memory(const HierarchicalOperation& operation) const {
  const int root =
      operation.call.kind == MpiKind::broadcast && is_here(operation.call.root) ? operation.call.root : first_here();
  return operation.members[static_cast<std::size_t>(root - first_here())].out;
}

void HierarchicalGroup::begin_packing(HierarchicalOperation& operation) const {
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
      for (const HierarchicalMember& member : operation.members) {
        operation.packing.add(to, member.in + static_cast<std::size_t>(firsts_[process]) * bytes, count * bytes);
        to += count * bytes;
      }
    }
  }
}

void HierarchicalGroup::begin_exchange(HierarchicalOperation& operation) {
  MPI_Request* request = &operation.request;
  const std::size_t bytes = operation.bytes();
  if (bytes == 0) {
    TRIFOLD_MPI_CALL(MPI_Ibarrier, exchanges_, request);
    return;
  }
  if (is_chain(operation.call)) return begin_chain(operation);
  operation.part = std::make_unique<PartType>(bytes);
  const MPI_Datatype part = operation.part->get();
  switch (operation.call.kind) {
    case MpiKind::all_gather:
      TRIFOLD_MPI_CALL(MPI_Iallgatherv, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, shared_memory(operation), counts_.data(),
                       firsts_.data(), part, exchanges_, request);
      return;
    case MpiKind::all_reduce:
      TRIFOLD_MPI_CALL(MPI_Iallgatherv, operation.sent.data(), members_here(), part, operation.received.data(),
                       counts_.data(), firsts_.data(), part, exchanges_, request);
      return;
    case MpiKind::broadcast:
      TRIFOLD_MPI_CALL(MPI_Ibcast, shared_memory(operation), 1, part,
                       process_of_[static_cast<std::size_t>(operation.call.root)], exchanges_, request);
      return;
    default:
      TRIFOLD_MPI_CALL(MPI_Ialltoallv, operation.sent.data(), pair_counts_.data(), pair_offsets_.data(), part,
                       operation.received.data(), pair_counts_.data(), pair_offsets_.data(), part, exchanges_, request);
  }
}

void HierarchicalGroup::begin_chain(HierarchicalOperation& operation) {
  constexpr std::size_t kPiece = CopyList::kPieceBytes / sizeof(float);
  constexpr std::int64_t kTags = 1 << 15;  // every MPI has as many, and no group so many sums under way
  const std::size_t count = operation.bytes() / sizeof(float);
  SumChain::Args args{.processes = chains_, .tag = static_cast<int>(operation.number % kTags)};
  for (const HierarchicalMember& member : operation.members)
    args.terms.push_back(reinterpret_cast<const float*>(member.in));
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

void HierarchicalGroup::begin_unpacking(HierarchicalOperation& operation) const {
  const std::size_t bytes = operation.bytes();
  if (bytes == 0) return;
  if (operation.call.kind == MpiKind::all_to_all) {
    const std::byte* from = operation.received.data();
    for (std::size_t other = 0; other < args_.ranks.size(); ++other)
      for (const HierarchicalMember& member : operation.members) {
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
  for (const HierarchicalMember& member : operation.members)
    operation.unpacking.add(member.out, shared, all_parts ? bytes * args_.ranks.size() : bytes);
}

}  // namespace trifold
