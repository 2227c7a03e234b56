#include "parallel/communicator/local_communicator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>
#include <tuple>

#include "core/error.h"
#include "parallel/processes/wait_board.h"

namespace trifold {
namespace {

enum class Kind { all_reduce, reduce_scatter, all_gather, broadcast, all_to_all, barrier, message };

constexpr std::array<const char*, 7> kKindNames = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                                   "all_to_all", "barrier",        "message"};

constexpr std::size_t kChunkBytes = std::size_t{64} << 10;  // a chunk of two ranks stays in the second-level cache

// What a rank calls: all ranks must call the same.
struct Call {
  Kind kind = Kind::barrier;
  std::size_t part_bytes = 0;  // of all_reduce and broadcast: all of it
  int root = -1;
  bool operator==(const Call&) const = default;
};

std::string to_string(const Call& call) {
  std::string text = kKindNames[static_cast<std::size_t>(call.kind)];
  if (call.part_bytes > 0) text += fmt::format(" of {} bytes", call.part_bytes);
  if (call.root >= 0) text += fmt::format(" from rank {}", call.root);
  return text;
}

struct Member {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  bool arrived = false;
};

struct Operation {
  Operation(const Call& called, std::size_t members) : call(called), ranks(members) {}

  Call call;
  std::vector<Member> ranks;
  int first_rank = -1;  // that arrived
  std::size_t arrived = 0;
  std::size_t left = 0;  // ranks that need it no more
  std::atomic<std::size_t> next_chunk = 0;
  std::atomic<std::size_t> done_chunks = 0;

  std::size_t parts() const {
    switch (call.kind) {
      case Kind::reduce_scatter:
      case Kind::all_gather:
        return ranks.size();
      case Kind::all_to_all:
        return ranks.size() * ranks.size();
      default:
        return 1;
    }
  }
  std::size_t chunks_of_part() const { return (call.part_bytes + kChunkBytes - 1) / kChunkBytes; }
  std::size_t chunks() const { return parts() * chunks_of_part(); }
};

// The sum of what lies at `offset` of every rank, in the order of ranks, piece by piece: use(begin, sum). A piece of
// the sum stays in the first-level cache until it is used.
template <class Use>
void sum_chunk(const std::vector<Member>& ranks, std::size_t offset, std::size_t bytes, Use use) {
  std::array<float, 1024> sum;
  for (std::size_t begin = 0; begin < bytes; begin += sizeof sum) {
    const std::size_t count = std::min(sizeof sum, bytes - begin) / sizeof(float);
    std::memcpy(sum.data(), ranks[0].in + offset + begin, count * sizeof(float));
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
      const auto* term = reinterpret_cast<const float*>(ranks[rank].in + offset + begin);
      for (std::size_t i = 0; i < count; ++i) sum[i] += term[i];
    }
    use(begin, std::as_bytes(std::span(sum.data(), count)));
  }
}

void run_chunk(Operation& operation, std::size_t chunk) {
  const std::size_t part_bytes = operation.call.part_bytes;
  const std::size_t part = chunk / operation.chunks_of_part();
  const std::size_t begin = chunk % operation.chunks_of_part() * kChunkBytes;
  const std::size_t bytes = std::min(kChunkBytes, part_bytes - begin);
  const std::vector<Member>& ranks = operation.ranks;
  const auto copy = [bytes](std::byte* to, const std::byte* from) {
    if (to != from) std::memcpy(to, from, bytes);
  };
  switch (operation.call.kind) {
    case Kind::all_reduce:
      sum_chunk(ranks, begin, bytes, [&](std::size_t at, std::span<const std::byte> sum) {
        for (const Member& rank : ranks) std::ranges::copy(sum, rank.out + begin + at);
      });
      break;
    case Kind::reduce_scatter:
      sum_chunk(ranks, part * part_bytes + begin, bytes, [&](std::size_t at, std::span<const std::byte> sum) {
        std::ranges::copy(sum, ranks[part].out + begin + at);
      });
      break;
    case Kind::all_gather:
      for (const Member& rank : ranks) copy(rank.out + part * part_bytes + begin, ranks[part].in + begin);
      break;
    case Kind::broadcast:
      for (const Member& rank : ranks)
        copy(rank.out + begin, ranks[static_cast<std::size_t>(operation.call.root)].in + begin);
      break;
    case Kind::all_to_all: {
      const std::size_t from = part / ranks.size();
      const std::size_t to = part % ranks.size();
      copy(ranks[to].out + from * part_bytes + begin, ranks[from].in + to * part_bytes + begin);
      break;
    }
    case Kind::message:
      copy(ranks[1].out + begin, ranks[0].in + begin);
      break;
    case Kind::barrier:
      break;
  }
}

// An operation's name within its group: collectives by number, messages by sender, receiver and tag too.
using OperationKey = std::tuple<int, int, int, std::int64_t>;

class LocalGroup {
 public:
  explicit LocalGroup(const LocalGroupOptions& options)
      : options_(options), last_(static_cast<std::size_t>(options.size)) {
    if (!options_.ranks.empty()) return;
    options_.ranks.resize(last_.size());
    std::iota(options_.ranks.begin(), options_.ranks.end(), 0);
  }

  int size() const { return options_.size; }

  // `seat` is the rank in a collective; of a message, 0 sends and 1 receives.
  void arrive(const OperationKey& key, const Call& call, int rank, std::size_t seat, std::size_t seats,
              const std::byte* in, std::byte* out) {
    const std::lock_guard lock(mutex_);
    stop_if_aborted();
    auto& operation = operations_[key];
    if (!operation) {
      operation = std::make_shared<Operation>(call, seats);
      operation->first_rank = rank;
    }
    if (call != operation->call) {
      abort_locked(fmt::format("rank {} calls {} where rank {} calls {}", name(rank), to_string(call),
                               name(operation->first_rank), to_string(operation->call)));
      stop_if_aborted();
    }
    operation->ranks[seat] = {in, out, true};
    operation->arrived += 1;
    last_[static_cast<std::size_t>(rank)] = to_string(call);
    if (operation->arrived == seats) changed_.notify_all();
  }

  void finish(const OperationKey& key, int rank) {
    const std::shared_ptr<Operation> operation = await_all(key, rank);
    help(*operation);
    // Even of an aborted group: the others still read and write this rank's memory. They have a chunk left at most.
    const auto done = [&] { return operation->done_chunks == operation->chunks(); };
    for (int look = 0; look < kLooks && !done(); ++look) std::this_thread::yield();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, done);
    operation->left += 1;
    if (operation->left == operation->ranks.size()) operations_.erase(key);
  }

  void abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    abort_locked(reason);
  }

 private:
  std::shared_ptr<Operation> await_all(const OperationKey& key, int rank) {
    std::unique_lock lock(mutex_);
    std::shared_ptr<Operation> operation = operations_.at(key);
    const auto complete = [&] { return operation->arrived == operation->ranks.size() || !aborted_.empty(); };
    // The others are seldom far away: a short look is cheaper than to sleep.
    for (int look = 0; look < kLooks && !complete(); ++look) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
    if (options_.board != nullptr)
      await_watched(lock, complete, rank, key, *operation);
    else if (!changed_.wait_for(lock, options_.patience, complete))
      abort_locked(fmt::format("rank {} has waited {} ms in {} for {}", name(rank), options_.patience.count(),
                               to_string(operation->call), say_missing(key, *operation)));
    stop_if_aborted();
    return operation;
  }

  // The rank that is missing may itself wait for another process: only the watch can tell.
  template <class Complete>
  void await_watched(std::unique_lock<std::mutex>& lock, const Complete& complete, int rank, const OperationKey& key,
                     const Operation& operation) {
    RankWait wait(*options_.board, name(rank));
    while (!changed_.wait_for(lock, RankWait::kLong, complete)) {
      std::vector<int> ranks;
      for (const int each : missing(key, operation)) ranks.push_back(name(each));
      const std::string axis = options_.axis.empty() ? "" : fmt::format(" ({} axis)", options_.axis);
      wait.describe({.what = to_string(operation.call) + axis, .group = "", .call = 0, .ranks = std::move(ranks)});
      wait.report_if_stalled();
      try {
        options_.board->stop_if_ended();
      } catch (const Error& error) {
        abort_locked(error.what());  // whoever arrives later must not touch this rank's memory
        throw;
      }
    }
  }

  std::vector<int> missing(const OperationKey& key, const Operation& operation) const {
    std::vector<int> ranks;
    const auto [from, to, tag, number] = key;
    for (std::size_t seat = 0; seat < operation.ranks.size(); ++seat)
      if (!operation.ranks[seat].arrived)
        ranks.push_back(operation.call.kind == Kind::message ? (seat == 0 ? from : to) : static_cast<int>(seat));
    return ranks;
  }

  std::string say_missing(const OperationKey& key, const Operation& operation) const {
    std::string text;
    for (const int rank : missing(key, operation)) {
      const std::string& last = last_[static_cast<std::size_t>(rank)];
      text += fmt::format("{}rank {}, {}", text.empty() ? "" : " and ", name(rank),
                          last.empty() ? "which has called nothing yet" : "whose last call was " + last);
    }
    return text;
  }

  int name(int rank) const { return options_.ranks[static_cast<std::size_t>(rank)]; }

  void help(Operation& operation) {
    const std::size_t chunks = operation.chunks();
    for (std::size_t chunk = operation.next_chunk++; chunk < chunks; chunk = operation.next_chunk++) {
      run_chunk(operation, chunk);
      if (operation.done_chunks.fetch_add(1) + 1 == chunks) {
        const std::lock_guard lock(mutex_);
        changed_.notify_all();
      }
    }
  }

  void abort_locked(const std::string& reason) {
    if (aborted_.empty()) aborted_ = reason;
    changed_.notify_all();
  }
  void stop_if_aborted() const {
    if (!aborted_.empty()) throw Error(Fault::rank_lost, aborted_);
  }

  static constexpr int kLooks = 50;

  LocalGroupOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<OperationKey, std::shared_ptr<Operation>> operations_;
  std::vector<std::string> last_;  // call of each rank
  std::string aborted_;            // why
};

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<LocalGroup> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

  Ticket all_reduce(std::span<float> data) override {
    const std::span<std::byte> bytes = std::as_writable_bytes(data);
    return call({Kind::all_reduce, bytes.size()}, bytes, bytes);
  }
  Ticket reduce_scatter(std::span<const float> all, std::span<float> part) override {
    check_parts(all.size_bytes(), part.size_bytes());
    return call({Kind::reduce_scatter, part.size_bytes()}, std::as_bytes(all), std::as_writable_bytes(part));
  }
  Ticket all_gather(std::span<const std::byte> part, std::span<std::byte> all) override {
    check_parts(all.size(), part.size());
    return call({Kind::all_gather, part.size()}, part, all);
  }
  Ticket broadcast(std::span<std::byte> data, int root) override {
    check_rank(root);
    return call({Kind::broadcast, data.size(), root}, data, data);
  }
  Ticket all_to_all(std::span<const std::byte> from, std::span<std::byte> to) override {
    TRIFOLD_CHECK(from.size() == to.size() && from.size() % static_cast<std::size_t>(size()) == 0,
                  "{} and {} bytes are not {} equal parts", from.size(), to.size(), size());
    return call({Kind::all_to_all, from.size() / static_cast<std::size_t>(size())}, from, to);
  }

  Ticket send(std::span<const std::byte> data, int to, int tag) override {
    check_rank(to);
    const Ticket ticket{sent_[{to, tag}]++, to, tag, true};
    group_->arrive(key_of(ticket), {Kind::message, data.size()}, rank_, 0, 2, data.data(), nullptr);
    return ticket;
  }
  Ticket receive(std::span<std::byte> data, int from, int tag) override {
    check_rank(from);
    const Ticket ticket{received_[{from, tag}]++, from, tag, false};
    group_->arrive(key_of(ticket), {Kind::message, data.size()}, rank_, 1, 2, nullptr, data.data());
    return ticket;
  }

  void wait(const Ticket& ticket) override { group_->finish(key_of(ticket), rank_); }
  void barrier() override { wait(call({Kind::barrier}, {}, {})); }
  void abort(const std::string& reason) override { group_->abort(reason); }

 private:
  Ticket call(const Call& call, std::span<const std::byte> in, std::span<std::byte> out) {
    const Ticket ticket{called_++};
    const auto ranks = static_cast<std::size_t>(size());
    group_->arrive(key_of(ticket), call, rank_, static_cast<std::size_t>(rank_), ranks, in.data(), out.data());
    return ticket;
  }

  OperationKey key_of(const Ticket& ticket) const {
    if (ticket.peer < 0) return {-1, -1, 0, ticket.number};
    return ticket.sends ? OperationKey{rank_, ticket.peer, ticket.tag, ticket.number}
                        : OperationKey{ticket.peer, rank_, ticket.tag, ticket.number};
  }
  void check_parts(std::size_t all, std::size_t part) const {
    TRIFOLD_CHECK(all == part * static_cast<std::size_t>(size()), "{} bytes are not {} parts of {}", all, size(), part);
  }
  void check_rank(int rank) const {
    TRIFOLD_CHECK(rank >= 0 && rank < size(), "there is no rank {} of {}", rank, size());
  }

  std::shared_ptr<LocalGroup> group_;
  int rank_;
  std::int64_t called_ = 0;                               // collectives
  std::map<std::pair<int, int>, std::int64_t> sent_;      // messages, by receiver and tag
  std::map<std::pair<int, int>, std::int64_t> received_;  // by sender and tag
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_local_group(const LocalGroupOptions& options) {
  TRIFOLD_CHECK(options.size > 0, "a group of {} ranks", options.size);
  const auto group = std::make_shared<LocalGroup>(options);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < options.size; ++rank) ranks.push_back(std::make_unique<LocalCommunicator>(group, rank));
  return ranks;
}

}  // namespace trifold
