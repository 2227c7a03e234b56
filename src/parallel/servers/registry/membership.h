// What every member of a cluster runs beside its work: it shows in the registry that the member lives, follows the view
// and the job there, and knows whether the others may take the member for dead. Two threads of its own, each with its
// own connection to the registry; all calls here are safe from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "parallel/servers/registry/registry.h"
#include "parallel/servers/view.h"

namespace trifold {

using RegistryFactory = std::function<std::unique_ptr<Registry>()>;  // called from several threads

struct MembershipOptions {
  MemberInfo self = {};
  std::chrono::milliseconds lease = std::chrono::seconds(3);  // renewed at a third
  // For the registry that the manager keeps: when that does not answer at all nobody can be put in this member's place
  // either, so it stays valid. Calls of that registry must end within half a lease, so that this is known in time.
  bool valid_while_unreachable = false;
  // From the threads here, when something below may have changed.
  std::function<void()> wake = {};
};

class Membership {
 public:
  Membership(MembershipOptions options, RegistryFactory factory);
  ~Membership();  // tells nobody: without leave() the member is there until its lease runs out
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  // Registers the member, with a new lease. Nothing here does that by itself: one whose lease ran out has first to
  // forget what it owned. Throws what the registry throws.
  void join();
  // False: the registry cannot be reached now, or the lease ran out before the member was registered, because its
  // process stood still. To be tried again in a moment.
  bool try_join();
  // The member is gone at once; where the registry cannot be reached, when its lease has run out.
  void leave();

  // By this machine's clock, from the moment the last renewal that succeeded was sent: never longer than the registry
  // thinks. False before join().
  bool lease_valid() const;
  // Since the last renewal that was answered; 0 while they are, and before join().
  std::chrono::seconds unreachable_for() const;
  LeaseId lease() const;  // 0: none, or it has run out

  std::shared_ptr<const View> view() const;        // null: there was none yet
  std::shared_ptr<const std::string> job() const;  // null: there was none yet
  // Grows with every change of anything in the registry, members among it.
  std::uint64_t news() const;

 private:
  using Time = std::chrono::steady_clock::time_point;

  void renew_until_stopped();
  void watch_until_stopped();
  void renew(Registry& registry, LeaseId lease);
  void take(const RegistryChange& change);
  bool wait_or_stop(std::chrono::milliseconds time);  // true: stopped
  void woken() const;

  const MembershipOptions options_;
  const RegistryFactory factory_;

  mutable std::mutex mutex_;  // of all below, but the threads
  std::condition_variable stirred_;
  bool stopped_ = false;
  LeaseId lease_ = 0;
  Time renewed_ = {};         // sent
  bool unreachable_ = false;  // the last renewal was not answered
  std::shared_ptr<const View> view_;
  std::shared_ptr<const std::string> job_;
  std::uint64_t news_ = 0;

  std::thread renewer_;
  std::thread watcher_;
};

}  // namespace trifold
