// A server's part in choosing among whole models, for one epoch: looks at the pushes of its slices, tells the first
// server of the view how far they are apart, or is that server itself, and hands on whose push counts. It says it again
// until its slices are past the clock: anything may be lost on the way.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallel/servers/server/round_choice.h"
#include "parallel/servers/server/served_slice.h"
#include "parallel/servers/wire/mailbox.h"

namespace trifold {

class RoundProtocol {
 public:
  struct Args {
    Mailbox* mailbox = nullptr;
    std::int64_t epoch = 0;
    std::string self = {};  // this server's id
    const AggregationRule* rule = nullptr;
    const ConsistencyRules* rules = nullptr;
    std::vector<std::string> owners = {};  // ids of the servers that have slices
    std::optional<PeerId> first = {};      // the first server of the view; none: this is the one
  };
  explicit RoundProtocol(Args args);

  void pushes_came() { moved_ = true; }
  // After pushes have come, and now and then.
  bool wants_to_look() const { return moved_ || due(); }
  // At all slices of this server.
  void look(std::span<const ServedSlice* const> slices);
  // Messages of this epoch. An Error says what is wrong with them.
  void take_distances(const Received& received);
  void take_choice(const Message& message);

  // What was chosen since this was asked last, if anything.
  std::optional<RoundChoice> news();

 private:
  using Clock = std::chrono::steady_clock;

  bool due() const;  // to be said again
  RoundReport report_of(std::span<const ServedSlice* const> slices) const;
  void take(const std::string& server, RoundReport report);
  void tell(PeerId server, const RoundChoice& choice) const;

  Args args_;
  std::optional<RoundChooser> chooser_;   // of the first server
  std::map<std::string, PeerId> others_;  // that told it something
  RoundReport said_;
  Clock::time_point said_at_ = {};
  bool moved_ = true;
  std::optional<RoundChoice> news_;
};

}  // namespace trifold
