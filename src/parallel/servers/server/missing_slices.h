// The slices that a server owns but does not have yet. It asks the members that have them, and asks again until they
// come.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "parallel/servers/server/state_message.h"
#include "parallel/servers/wire/mailbox.h"

namespace trifold {

class MissingSlices {
 public:
  struct Args {
    Mailbox* mailbox = nullptr;
    const ServedLayout* layout = nullptr;
    std::function<PeerId(const std::string& member)> peer_of = {};
  };
  explicit MissingSlices(Args args) : args_(std::move(args)) {}

  void expect(int slice, const std::string& member) { member_of_.emplace(slice, member); }
  // False: it was not missing.
  bool came(int slice) { return member_of_.erase(slice) > 0; }
  void clear() { member_of_.clear(); }

  void ask(std::int64_t epoch);
  // Asks if the last time is long ago.
  void ask_again(std::int64_t epoch);

  bool contains(int slice) const { return member_of_.contains(slice); }
  bool empty() const { return member_of_.empty(); }
  std::size_t size() const { return member_of_.size(); }

 private:
  using Clock = std::chrono::steady_clock;

  Args args_;
  std::map<int, std::string> member_of_;
  Clock::time_point asked_ = {};
};

}  // namespace trifold
