#include "parallel/servers/aggregator/host_aggregator.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <spdlog/spdlog.h>

#include "core/error.h"
#include "parallel/servers/aggregator/pull_share.h"
#include "parallel/servers/aggregator/push_gather.h"
#include "parallel/servers/client/server_exchange.h"
#include "parallel/servers/wire/payload_parts.h"

namespace trifold {
namespace {

// Of requests of workers that know a newer view than this head; they ask again anyway.
constexpr std::size_t kMostEarly = 4096;

std::vector<int> slices_of(const Request& request) {
  std::vector<int> slices;
  for (const SliceWork& item : request.work) slices.push_back(item.slice);
  return slices;
}

}  // namespace

struct HostAggregator::Impl final : RequestRelay {
  explicit Impl(HostAggregatorOptions given)
      : options(std::move(given)),
        slices(cut_into_slices(options.tensors, options.slice_elements)),
        mailbox(options.mailbox),
        exchange({.slices = slices, .pulls_overtake = true, .patience = options.patience}, mailbox, board),
        gather({.tensors = options.tensors,
                .slices = slices,
                .participation = options.participation,
                .rule = make_aggregation(options.rule),
                .half = options.half}),
        share(slices.size()) {
    thread = std::thread([this] { run(); });
  }

  // --- the thread

  void run() {
    try {
      while (serve()) {
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  }

  bool serve() {
    std::shared_ptr<const SlicePlacement> placement;
    {
      const std::lock_guard lock(mutex);
      if (stopping) return false;
      placement = std::exchange(newest, nullptr);
    }
    if (placement) follow(std::move(placement));
    send_on();
    const std::uint64_t sent_before = mailbox.counts().sent_bytes;
    exchange.send_due();
    sent += mailbox.counts().sent_bytes - sent_before;

    const std::uint64_t before = mailbox.counts().received_bytes;
    const std::optional<Received> message = mailbox.receive(exchange.pause());
    if (message && take(*message)) received += mailbox.counts().received_bytes - before;
    return true;
  }

  void follow(std::shared_ptr<const SlicePlacement> placement) {
    version = placement->view.version;
    gather.expect(placement->view.shards_through(options.worker));
    tell_of(placement->view);
    exchange.follow(std::move(placement));
    for (const Received& request : std::exchange(early, {})) take(request);
  }

  void tell_of(const View& view) {
    const auto own =
        std::ranges::find(view.heads, options.worker, [](const HeadOfHost& head) { return head.member.id; });
    const std::size_t now = own == view.heads.end() ? 0 : own->workers.size();
    if (now == 0) share.forget();
    if (now == std::exchange(workers, now)) return;
    if (now == 0)
      spdlog::info("{} no longer speaks to servers for its host", options.worker);
    else
      spdlog::info("{} speaks to servers for {} worker{} of its host", options.worker, now, now == 1 ? "" : "s");
  }

  // What has come together goes on, and who is owed an answer gets it. Where it does not reach a worker, that asks
  // again.
  void send_on() {
    for (GatheredPush& push : gather.take_ready()) {
      Request request{.kind = MessageKind::push,
                      .shard = push.shards.front(),
                      .clock = push.clock,
                      .weight = push.weight,
                      .rate = push.rate,
                      .relay = this};
      if (push.shards.size() > 1) request.shards = std::move(push.shards);
      for (std::size_t i = 0; i < push.slices.size(); ++i)
        request.work.push_back({.slice = push.slices[i], .encoded = std::move(push.encodings[i])});
      exchange.add(std::move(request));
    }
    for (const PushAnswer& answer : gather.take_answers()) {
      const std::vector<std::uint64_t> ids = {answer.to.id};
      mailbox.send(answer.to.from,
                   {.kind = MessageKind::push_answer,
                    .fields = {{"ids", ids}, {"late", answer.late ? ids : std::vector<std::uint64_t>{}}}});
    }
    for (const PullShare::Answer& answer : share.take_answers()) mailbox.send(answer.to, answer.message);
  }

  // --- messages

  // True: of a server.
  bool take(const Received& message) {
    switch (message.message.kind) {
      case MessageKind::push:
      case MessageKind::pull:
        take_request(message);
        return false;
      case MessageKind::push_answer:
      case MessageKind::pull_answer:
      case MessageKind::refusal:
        exchange.take(message);
        return true;
      default:
        refuse({.from = message.from, .id = 0}, "bad", "heads of hosts do not take such messages");
        return false;
    }
  }

  void take_request(const Received& request) {
    Asker asker{.from = request.from};
    try {
      const nlohmann::json& fields = request.message.fields;
      asker.id = fields.at("id").get<std::uint64_t>();
      if (fields.at("view").get<std::int64_t>() > version) {
        if (early.size() < kMostEarly) early.push_back(request);
      } else if (request.message.kind == MessageKind::push) {
        take_push(asker, request.message);
      } else {
        take_pull(asker, request.message);
      }
    } catch (const std::exception& error) {
      refuse(asker, "bad", error.what());
    }
  }

  std::vector<int> named_slices(const Message& message) const {
    auto named = message.fields.at("slices").get<std::vector<int>>();
    for (const int slice : named)
      if (slice < 0 || slice >= static_cast<int>(slices.size()))
        fail_runtime("there is no slice {}: the model has {}", slice, slices.size());
    return named;
  }

  void take_push(const Asker& asker, const Message& message) {
    WorkerPush push{.from = asker,
                    .shard = message.fields.at("shard"),
                    .clock = message.fields.at("clock"),
                    .weight = message.fields.at("weight"),
                    .rate = message.fields.at("rate"),
                    .again = message.fields.value("again", false),
                    .slices = named_slices(message)};
    if (push.shard < 0 || push.shard >= options.participation.shards || push.clock < 0 || !(push.weight > 0))
      fail_runtime("a push of no such shard, clock or weight");
    push.encodings = payload_parts(message, push.slices.size());
    gather.add(push);
  }

  void take_pull(const Asker& asker, const Message& message) {
    const std::int64_t clock = message.fields.at("clock");
    Request request{.kind = MessageKind::pull, .shard = message.fields.at("shard"), .clock = clock, .relay = this};
    for (const int slice : share.ask(asker, clock, named_slices(message))) request.work.push_back({.slice = slice});
    if (!request.work.empty()) exchange.add(std::move(request));
  }

  void refuse(const Asker& asker, const std::string& code, const std::string& why) {
    mailbox.send(asker.from,
                 {.kind = MessageKind::refusal, .fields = {{"id", asker.id}, {"code", code}, {"why", why}}});
  }

  // --- what servers say

  void pushed(const Request& request, bool late) override {
    for (const SliceWork& item : request.work) gather.acknowledged(request.clock, item.slice, late);
  }

  void pulled(const Request& request, int slice, Payload values, std::int64_t oldest) override {
    share.answered(request.clock, slice, std::move(values), oldest);
  }

  void refused(const Request& request, const Refused& why) override {
    const std::vector<int> refused_slices = slices_of(request);
    if (request.kind == MessageKind::pull) {
      for (const Asker& asker : share.refused(request.clock, refused_slices)) refuse(asker, why.code(), why.what());
      return;
    }
    if (why.code() == "apart") return gather.overlapped(request.clock, request.shards, refused_slices);
    const std::vector<int> shards = request.shards.empty() ? std::vector{request.shard} : request.shards;
    for (const Asker& asker : gather.refused(request.clock, shards, refused_slices))
      refuse(asker, why.code(), why.what());
  }

  const HostAggregatorOptions options;
  const std::vector<Slice> slices;
  TicketBoard board{1, 1};  // of no tickets: all requests are relayed
  Mailbox mailbox;
  ServerExchange exchange;
  PushGather gather;
  PullShare share;
  std::int64_t version = -1;  // of the view
  std::size_t workers = 0;    // that speak to servers through this
  std::vector<Received> early;
  std::atomic<std::uint64_t> sent = 0;
  std::atomic<std::uint64_t> received = 0;

  std::mutex mutex;  // of what follows
  std::shared_ptr<const SlicePlacement> newest;
  std::int64_t newest_version = -1;
  bool stopping = false;
  std::exception_ptr failure;

  std::mutex stop_mutex;  // of the thread's end
  std::thread thread;
};

HostAggregator::HostAggregator(HostAggregatorOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

HostAggregator::~HostAggregator() {
  stop();
}

const std::string& HostAggregator::address() const {
  return impl_->mailbox.address();
}

// Where the job stops is the workers' business: what they still ask for waits at the servers.
void HostAggregator::set_view(const View& view) {
  View without_end = view;
  without_end.stop_clock.reset();
  auto placement =
      std::make_shared<const SlicePlacement>(placement_of(without_end, impl_->options.tensors, impl_->slices));
  {
    const std::lock_guard lock(impl_->mutex);
    if (view.version <= impl_->newest_version) return;
    impl_->newest_version = view.version;
    impl_->newest = std::move(placement);
  }
  impl_->mailbox.wake();
}

HostAggregator::Traffic HostAggregator::traffic() const {
  return {.sent = impl_->sent, .received = impl_->received};
}

bool HostAggregator::failed() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->failure != nullptr;
}

void HostAggregator::check() const {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->failure) std::rethrow_exception(impl_->failure);
}

void HostAggregator::stop() {
  const std::lock_guard once(impl_->stop_mutex);
  if (!impl_->thread.joinable()) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->mailbox.wake();
  impl_->thread.join();
}

}  // namespace trifold
