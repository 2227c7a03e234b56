#include "parallel/servers/client/server_client.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "parallel/servers/client/push_groups.h"
#include "parallel/servers/client/server_exchange.h"

namespace trifold {
namespace {

constexpr std::int64_t kPullElements = 256 * 1024;    // asked for in one message, and so answered in one
constexpr std::int64_t kFetchElements = 1024 * 1024;  // likewise; with states it is several times as much
constexpr std::size_t kPushMessages = 32;             // about so many to each server bring a model, within these bounds
constexpr std::size_t kLeastGroup = std::size_t{64} << 10;
constexpr std::size_t kMostGroup = std::size_t{256} << 10;
constexpr int kTakenAtOnce = 256;                   // messages, before the compute threads' calls are looked at
constexpr std::chrono::milliseconds kAskAgain{20};  // for the status, while slices are on their way to their servers

}  // namespace

struct ServerClient::Impl {
  explicit Impl(ServerClientOptions given)
      : options(std::move(given)),
        slices(cut_into_slices(options.tensors, options.slice_elements)),
        board(options.shards, options.unanswered_clocks),
        mailbox(options.mailbox),
        exchange({.slices = slices,
                  .worker = options.worker,
                  .pulls_overtake = options.pulls_overtake,
                  .patience = options.patience,
                  .audit = options.audit,
                  .on_newer_epoch = options.on_newer_epoch},
                 mailbox, board),
        left(static_cast<std::size_t>(options.shards), std::vector<std::vector<float>>(slices.size())) {
    for (const ServedTensor& tensor : options.tensors)
      model_bytes += static_cast<std::size_t>(tensor.elements) * sizeof(float);
    first_slice.assign(options.tensors.size() + 1, slices.size());
    for (std::size_t i = slices.size(); i-- > 0;) first_slice[static_cast<std::size_t>(slices[i].tensor)] = i;
    for (std::size_t i = options.tensors.size(); i-- > 0;)
      if (first_slice[i] == slices.size()) first_slice[i] = first_slice[i + 1];  // it has no elements
    thread = std::thread([this] { run(); });
  }

  // --- the thread

  struct PendingCalls {
    std::vector<std::shared_ptr<const SlicePlacement>> views;
    std::vector<Request> requests;
    std::vector<MemberInfo> managers;
    std::vector<nlohmann::json> reports;
    bool stop = false;

    bool any() const { return stop || !views.empty() || !requests.empty() || !managers.empty() || !reports.empty(); }
  };

  void run() {
    try {
      while (serve()) {
      }
    } catch (const std::exception& error) {
      board.fail_all(Refused("bad", error.what()));
    }
  }

  bool serve() {
    PendingCalls wanted;
    {
      const std::lock_guard lock(mutex);
      wanted = std::exchange(pending, {});
    }
    if (wanted.stop) return false;
    for (auto& view : wanted.views) exchange.follow(std::move(view));
    for (Request& request : wanted.requests) exchange.add(std::move(request));
    for (const MemberInfo& manager : wanted.managers) exchange.report_to(manager);
    for (nlohmann::json& fields : wanted.reports) exchange.report(std::move(fields));
    exchange.send_due();
    std::optional<Received> received = mailbox.receive(exchange.pause());
    for (int i = 0; received && i < kTakenAtOnce; ++i) {
      exchange.take(*received);
      received = mailbox.receive(std::chrono::milliseconds(0));
    }
    if (received) exchange.take(*received);
    const MailboxCounts& traffic = mailbox.counts();
    const auto& beside = exchange.head_traffic();
    board.count_traffic(traffic.sent_bytes - beside.sent, traffic.received_bytes - beside.received,
                        exchange.sent_again());
    return true;
  }

  template <class Add>
  void enqueue(Add&& add) {
    bool first = false;
    {
      const std::lock_guard lock(mutex);
      const bool known = pending.any();  // the thread was told of those, and takes all
      add(pending);
      first = !known && pending.any();
    }
    if (first) mailbox.wake();
  }

  void stop(const std::string& why) {
    board.fail_all(Refused("stopped", why));
    const std::lock_guard once(stop_mutex);
    if (!thread.joinable()) return;
    enqueue([](PendingCalls& all) { all.stop = true; });
    thread.join();
  }

  // --- what becomes requests

  // Which server it is decides only what travels together: the exchange looks again.
  static int server_of(const SlicePlacement* placement, std::size_t slice) {
    return placement != nullptr && !placement->owner.empty() ? placement->owner[slice] : 0;
  }

  // Long messages cost less; the first that are whole are answered while the rest still goes.
  std::size_t group_bytes(const SlicePlacement* to) const {
    if (options.group_bytes > 0) return options.group_bytes;
    const std::size_t servers = to == nullptr ? 1 : std::max<std::size_t>(1, to->view.servers.size());
    return std::clamp(model_bytes / (kPushMessages * servers), kLeastGroup, kMostGroup);
  }

  std::shared_ptr<const SlicePlacement> current_placement() {
    const std::lock_guard lock(mutex);
    return placement;
  }

  std::pair<std::size_t, std::size_t> slices_of(int tensor) const {
    TRIFOLD_CHECK(tensor >= 0 && tensor < static_cast<int>(options.tensors.size()), "tensor {} of {}", tensor,
                  options.tensors.size());
    return {first_slice[static_cast<std::size_t>(tensor)], first_slice[static_cast<std::size_t>(tensor) + 1]};
  }

  // One request for about so many elements of one server.
  void ask(const Request& like, std::vector<SliceWork> work, std::int64_t elements) {
    enqueue([&](PendingCalls& all) {
      groups.close_all(all.requests);
      std::map<int, std::pair<Request, std::int64_t>> open;  // by server
      for (SliceWork& item : work) {
        const int server = server_of(placement.get(), static_cast<std::size_t>(item.slice));
        auto& [request, size] = open.try_emplace(server, like, 0).first->second;
        size += slices[static_cast<std::size_t>(item.slice)].elements();
        request.work.push_back(std::move(item));
        if (size < elements) continue;
        all.requests.push_back(std::move(request));
        open.erase(server);
      }
      for (auto& [server, entry] : open) all.requests.push_back(std::move(entry.first));
    });
  }

  ServerClientOptions options;
  std::vector<Slice> slices;
  std::vector<std::size_t> first_slice;  // by tensor, and one more
  std::size_t model_bytes = 0;
  TicketBoard board;
  Mailbox mailbox;
  ServerExchange exchange;  // the thread's

  // By shard and slice: what codings left unsaid. Whoever pushes the tensor has it.
  std::vector<std::vector<std::vector<float>>> left;

  const BytePool pool = BytePool();  // of pushes

  std::mutex mutex;  // of what follows
  std::shared_ptr<const SlicePlacement> placement;
  PushGroups groups;
  PendingCalls pending;

  std::mutex stop_mutex;  // of the thread's end
  std::thread thread;
};

ServerClient::ServerClient(ServerClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

ServerClient::~ServerClient() {
  stop();
}

const std::vector<Slice>& ServerClient::slices() const {
  return impl_->slices;
}

void ServerClient::set_view(const View& view) {
  auto placement = std::make_shared<const SlicePlacement>(placement_of(view, impl_->options.tensors, impl_->slices));
  impl_->enqueue([&](Impl::PendingCalls& all) {
    if (impl_->placement && impl_->placement->view.version >= view.version) return;
    impl_->placement = placement;
    all.views.push_back(placement);
  });
}

ServerTicket ServerClient::push(const PushArgs& args, std::span<const float> values) {
  Impl& impl = *impl_;
  const auto [first, last] = impl.slices_of(args.tensor);
  const ServedTensor& tensor = impl.options.tensors[static_cast<std::size_t>(args.tensor)];
  TRIFOLD_CHECK(static_cast<std::int64_t>(values.size()) == tensor.elements, "{} has {} elements, not {}", tensor.name,
                tensor.elements, values.size());
  TRIFOLD_CHECK(args.shard >= 0 && args.shard < impl.options.shards, "shard {}", args.shard);
  if (first == last) return {};
  if (impl.board.must_wait(args.shard, args.clock)) flush();
  const ServerTicket ticket = impl.board.open_push(args.shard, args.clock, static_cast<int>(last - first));
  // A running statistic is averaged: all of it, as it is.
  const CodecOptions codec = tensor.trained ? impl.options.codec : CodecOptions{};
  const bool exact = !codec.half && codec.keep >= 1;
  const Request like{
      .kind = MessageKind::push, .shard = args.shard, .clock = args.clock, .weight = args.weight, .rate = args.rate};
  const std::shared_ptr<const SlicePlacement> placement = impl.current_placement();
  const std::size_t enough = impl.group_bytes(placement.get());
  std::map<int, PushGroup> groups;  // by server
  for (std::size_t i = first; i < last; ++i) {
    const Slice& slice = impl.slices[i];
    const std::span<const float> of_slice =
        values.subspan(static_cast<std::size_t>(slice.begin), static_cast<std::size_t>(slice.elements()));
    std::vector<float>& left = impl.left[static_cast<std::size_t>(args.shard)][i];
    if (!exact && left.empty()) left.resize(of_slice.size());
    const int server = Impl::server_of(placement.get(), i);
    auto found = groups.find(server);
    if (found == groups.end()) {
      const std::size_t room = codec.keep < 1 ? 0 : std::min(enough, (last - i) * encoded_bytes(of_slice.size()));
      found = groups.try_emplace(server, like, impl.pool, room + encoded_bytes(of_slice.size())).first;
    }
    found->second.add({.slice = static_cast<int>(i), .ticket = ticket},
                      [&](std::vector<std::byte>& bytes) { encode(of_slice, left, codec, bytes); });
    if (found->second.size() < enough) continue;
    impl.enqueue([request = std::move(found->second).close()](Impl::PendingCalls& all) mutable {
      all.requests.push_back(std::move(request));
    });
    groups.erase(found);
  }
  impl.enqueue([&](Impl::PendingCalls& all) {
    for (auto& [server, group] : groups) impl.groups.add(server, std::move(group), enough, all.requests);
  });
  return ticket;
}

void ServerClient::flush() {
  impl_->enqueue([this](Impl::PendingCalls& all) { impl_->groups.close_all(all.requests); });
}

std::vector<ServerTicket> ServerClient::pull(int shard, std::int64_t clock, std::span<const PullInto> wanted) {
  Impl& impl = *impl_;
  impl.board.check();
  std::vector<ServerTicket> tickets;
  std::vector<SliceWork> work;
  for (const PullInto& into : wanted) {
    const auto [first, last] = impl.slices_of(into.tensor);
    const ServedTensor& tensor = impl.options.tensors[static_cast<std::size_t>(into.tensor)];
    TRIFOLD_CHECK(static_cast<std::int64_t>(into.values.size()) == tensor.elements, "{} has {} elements, not {}",
                  tensor.name, tensor.elements, into.values.size());
    tickets.push_back(first == last ? ServerTicket() : impl.board.open(static_cast<int>(last - first)));
    for (std::size_t i = first; i < last; ++i) {
      const Slice& slice = impl.slices[i];
      work.push_back({.slice = static_cast<int>(i),
                      .ticket = tickets.back(),
                      .into = into.values.subspan(static_cast<std::size_t>(slice.begin),
                                                  static_cast<std::size_t>(slice.elements())),
                      .keeps = into.keeps});
    }
  }
  impl.ask({.kind = MessageKind::pull, .shard = shard, .clock = clock}, std::move(work), kPullElements);
  return tickets;
}

void ServerClient::wait(const ServerTicket& ticket) {
  if (impl_->board.done(ticket)) return impl_->board.wait(ticket);
  flush();
  impl_->board.wait(ticket);
}

bool ServerClient::wait_for(const ServerTicket& ticket, std::chrono::milliseconds timeout) {
  if (!impl_->board.done(ticket)) flush();
  return impl_->board.wait_for(ticket, timeout);
}

bool ServerClient::wait_for_room(int shard, std::int64_t clock, std::chrono::milliseconds timeout) {
  if (impl_->board.must_wait(shard, clock)) flush();
  return impl_->board.wait_for_room(shard, clock, timeout);
}

void ServerClient::wait_for_pushes() {
  flush();
  impl_->board.wait_for_pushes();
}

bool ServerClient::done(const ServerTicket& ticket) const {
  return impl_->board.done(ticket);
}

bool ServerClient::late(const ServerTicket& ticket) const {
  return impl_->board.late(ticket);
}

std::int64_t ServerClient::staleness(const ServerTicket& ticket) const {
  return impl_->board.staleness(ticket);
}

std::vector<ServerStatus> ServerClient::status() {
  impl_->board.check();
  auto round = std::make_shared<StatusRound>(StatusRound{.ticket = impl_->board.open(1)});
  impl_->enqueue(
      [&](Impl::PendingCalls& all) { all.requests.push_back({.kind = MessageKind::status, .status = round}); });
  impl_->board.wait(round->ticket);
  return std::move(round->answers);
}

std::vector<std::int64_t> ServerClient::least_applied() {
  const auto shards = static_cast<std::size_t>(impl_->options.shards);
  while (true) {
    // A replica may be behind its owner: the most that anybody has of a slice counts.
    std::vector<std::vector<std::int64_t>> most(impl_->slices.size());
    for (const ServerStatus& server : status())
      for (const SliceStatus& slice : server.slices) {
        if (slice.slice < 0 || slice.slice >= static_cast<int>(most.size()) || slice.applied.size() != shards)
          throw Refused("bad", fmt::format("server {} serves another model: slice {} of {}, with clocks of {} shards",
                                           server.server, slice.slice, most.size(), slice.applied.size()));
        auto& known = most[static_cast<std::size_t>(slice.slice)];
        known.resize(shards);
        for (std::size_t i = 0; i < shards; ++i) known[i] = std::max(known[i], slice.applied[i]);
      }
    if (std::ranges::none_of(most, [](const auto& applied) { return applied.empty(); })) {
      std::vector<std::int64_t> least(shards, most.empty() ? 0 : std::numeric_limits<std::int64_t>::max());
      for (std::size_t slice = 0; slice < most.size(); ++slice) {
        const ServedTensor& tensor = impl_->options.tensors[static_cast<std::size_t>(impl_->slices[slice].tensor)];
        for (std::size_t i = 0; i < shards; ++i) least[i] = std::min(least[i], tensor.turns.next(most[slice][i]));
      }
      return least;
    }
    std::this_thread::sleep_for(kAskAgain);
  }
}

FetchedModel ServerClient::fetch_all(std::int64_t cut) {
  Impl& impl = *impl_;
  impl.board.check();
  auto model = std::make_shared<FetchedModel>();
  for (const ServedTensor& tensor : impl.options.tensors)
    model->tensors.push_back({.values = std::vector<float>(static_cast<std::size_t>(tensor.elements)), .states = {}});
  if (impl.slices.empty()) return std::move(*model);
  const ServerTicket ticket = impl.board.open(static_cast<int>(impl.slices.size()));
  std::vector<SliceWork> work;
  for (std::size_t i = 0; i < impl.slices.size(); ++i) work.push_back({.slice = static_cast<int>(i), .ticket = ticket});
  impl.ask({.kind = MessageKind::fetch, .cut = cut, .fetched = model}, std::move(work), kFetchElements);
  impl.board.wait(ticket);
  return std::move(*model);
}

void ServerClient::set_manager(const MemberInfo& manager) {
  impl_->enqueue([&](Impl::PendingCalls& all) { all.managers.push_back(manager); });
}

void ServerClient::report(nlohmann::json fields) {
  impl_->enqueue([&](Impl::PendingCalls& all) { all.reports.push_back(std::move(fields)); });
}

ClientCounts ServerClient::counts() const {
  return impl_->board.counts();
}

void ServerClient::stop(const std::string& why) {
  impl_->stop(why);
}

}  // namespace trifold
