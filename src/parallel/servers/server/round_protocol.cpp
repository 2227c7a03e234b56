#include "parallel/servers/server/round_protocol.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/error.h"

namespace trifold {
namespace {

constexpr std::chrono::milliseconds kSayAgain{300};

}  // namespace

RoundProtocol::RoundProtocol(Args args) : args_(std::move(args)) {
  if (!args_.first)
    chooser_.emplace(RoundChooser::Args{.rule = args_.rule, .owners = args_.owners, .needed = args_.rules->needed()});
}

RoundReport RoundProtocol::report_of(std::span<const ServedSlice* const> slices) const {
  RoundReport report{.clock = slices.front()->state().least()};
  for (const ServedSlice* slice : slices) {
    report.clock = std::min(report.clock, slice->state().least());
    if (slice->state().choice.clock > report.last.clock) report.last = slice->state().choice;
  }
  std::optional<std::vector<int>> common;
  for (const ServedSlice* slice : slices) {
    if (slice->state().least() != report.clock) continue;
    std::vector<int> here = slice->candidates();
    if (common) {
      std::vector<int> both;
      std::ranges::set_intersection(*common, here, std::back_inserter(both));
      here = std::move(both);
    }
    if (static_cast<int>(here.size()) < args_.rules->needed()) return report;
    common = std::move(here);
  }
  report.shards = std::move(*common);
  if (report.clock == said_.clock && report.shards == said_.shards) {
    report.distances = said_.distances;
    return report;
  }
  report.distances.resize(report.shards.size() * report.shards.size());
  for (const ServedSlice* slice : slices)
    if (slice->state().least() == report.clock) slice->add_distances(report.shards, report.distances);
  return report;
}

bool RoundProtocol::due() const {
  return Clock::now() - said_at_ >= kSayAgain;
}

// What is new and can be chosen by goes at once, the rest in a while.
void RoundProtocol::look(std::span<const ServedSlice* const> slices) {
  if (slices.empty()) return;
  const bool again = due();
  moved_ = false;
  RoundReport report = report_of(slices);
  if (!again && (report.shards.empty() || report == said_)) return;
  said_ = std::move(report);
  said_at_ = Clock::now();
  if (chooser_) return take(args_.self, said_);
  Message message{.kind = MessageKind::distances,
                  .fields = {{"id", 0}, {"epoch", args_.epoch}, {"server", args_.self}}};
  put_report(message, said_);
  args_.mailbox->send(*args_.first, message);
}

void RoundProtocol::take_distances(const Received& received) {
  if (!chooser_) fail_runtime("another server chooses in this epoch");
  const auto server = received.message.fields.at("server").get<std::string>();
  RoundReport report = take_report(received.message, args_.rules->shards());
  others_.insert_or_assign(server, received.from);
  // It has not heard.
  if (report.clock <= chooser_->last().clock) tell(received.from, chooser_->last());
  take(server, std::move(report));
}

void RoundProtocol::take(const std::string& server, RoundReport report) {
  const auto choice = chooser_->take(server, std::move(report));
  if (!choice) return;
  for (const auto& [id, peer] : others_) tell(peer, *choice);
  news_ = choice;
}

void RoundProtocol::tell(PeerId server, const RoundChoice& choice) const {
  args_.mailbox->send(server, {.kind = MessageKind::choice,
                               .fields = {{"epoch", args_.epoch}, {"clock", choice.clock}, {"shard", choice.shard}}});
}

void RoundProtocol::take_choice(const Message& message) {
  const RoundChoice choice{.clock = message.fields.at("clock"), .shard = message.fields.at("shard")};
  if (choice.shard < 0 || choice.shard >= args_.rules->shards()) fail_runtime("there is no shard {}", choice.shard);
  news_ = choice;
}

std::optional<RoundChoice> RoundProtocol::news() {
  return std::exchange(news_, std::nullopt);
}

}  // namespace trifold
