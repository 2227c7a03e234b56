#include "parallel/servers/registry/membership.h"

#include <algorithm>
#include <utility>

#include <spdlog/spdlog.h>

namespace trifold {
namespace {

using namespace std::chrono_literals;

constexpr auto kWatchFor = 500ms;  // a stop is noticed so soon
constexpr auto kPause = 100ms;     // after a failure

std::chrono::steady_clock::time_point now_steady() {
  return std::chrono::steady_clock::now();
}

}  // namespace

Membership::Membership(MembershipOptions options, RegistryFactory factory)
    : options_(std::move(options)), factory_(std::move(factory)) {
  renewer_ = std::thread([this] { renew_until_stopped(); });
  watcher_ = std::thread([this] { watch_until_stopped(); });
}

Membership::~Membership() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  stirred_.notify_all();
  renewer_.join();
  watcher_.join();
}

void Membership::join() {
  const auto registry = factory_();
  const Time sent = now_steady();
  const LeaseId lease = registry->grant(options_.lease);
  registry->put(kMembersPrefix + options_.self.id, to_text(options_.self), lease);
  {
    const std::lock_guard lock(mutex_);
    lease_ = lease;
    renewed_ = sent;
    unreachable_ = false;
  }
  stirred_.notify_all();
}

bool Membership::try_join() {
  const Time begin = now_steady();
  try {
    join();
    return true;
  } catch (const Unreachable&) {
    return false;
  } catch (const Error&) {
    if (now_steady() < begin + options_.lease) throw;
    return false;
  }
}

void Membership::leave() {
  const LeaseId lease = [&] {
    const std::lock_guard lock(mutex_);
    return std::exchange(lease_, 0);
  }();
  if (lease == 0) return;
  try {
    factory_()->revoke(lease);
  } catch (const Error& error) {
    spdlog::warn("'{}' leaves, but cannot say so: {}", options_.self.id, error.what());
  }
}

bool Membership::lease_valid() const {
  const std::lock_guard lock(mutex_);
  if (lease_ == 0) return false;
  return now_steady() < renewed_ + options_.lease || (options_.valid_while_unreachable && unreachable_);
}

std::chrono::seconds Membership::unreachable_for() const {
  const std::lock_guard lock(mutex_);
  if (!unreachable_ || lease_ == 0) return {};
  return std::chrono::duration_cast<std::chrono::seconds>(now_steady() - renewed_);
}

LeaseId Membership::lease() const {
  const std::lock_guard lock(mutex_);
  return lease_;
}

std::shared_ptr<const View> Membership::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

std::shared_ptr<const std::string> Membership::job() const {
  const std::lock_guard lock(mutex_);
  return job_;
}

std::uint64_t Membership::news() const {
  const std::lock_guard lock(mutex_);
  return news_;
}

void Membership::renew_until_stopped() {
  std::unique_ptr<Registry> registry;
  bool failed = false;  // the last one
  while (true) {
    LeaseId lease = 0;
    {
      std::unique_lock lock(mutex_);
      // A renewal that was not answered is tried again soon; else a third of the lease after the last.
      const auto due = [&] { return failed ? now_steady() + kPause : renewed_ + options_.lease / 3; };
      stirred_.wait(lock, [&] { return stopped_ || lease_ != 0; });
      const LeaseId held = lease_;
      stirred_.wait_until(lock, due(), [&] { return stopped_ || lease_ != held; });
      if (stopped_) return;
      if (lease_ != held) continue;
      lease = held;
    }
    try {
      if (!registry) registry = factory_();
      renew(*registry, lease);
      failed = false;
    } catch (const Error& error) {
      if (!failed) spdlog::warn("'{}' cannot renew its lease: {}", options_.self.id, error.what());
      failed = true;
      const std::lock_guard lock(mutex_);
      unreachable_ = dynamic_cast<const Unreachable*>(&error) != nullptr;
    }
  }
}

void Membership::renew(Registry& registry, LeaseId lease) {
  const Time sent = now_steady();
  const bool alive = registry.keep_alive(lease);
  {
    const std::lock_guard lock(mutex_);
    if (lease_ != lease) return;  // left, or joined anew, meanwhile
    unreachable_ = false;
    if (alive) {
      renewed_ = sent;
      return;
    }
    lease_ = 0;
  }
  spdlog::warn("the lease of '{}' has run out", options_.self.id);
  woken();
}

void Membership::watch_until_stopped() {
  std::unique_ptr<Registry> registry;
  std::int64_t revision = 0;
  bool warned = false;
  auto pause = 0ms;
  while (!wait_or_stop(pause)) {
    try {
      if (!registry) registry = factory_();
      const auto changes = registry->changes("", revision, kWatchFor);
      for (const RegistryChange& change : changes) take(change);
      if (!changes.empty()) {
        {
          const std::lock_guard lock(mutex_);
          ++news_;
        }
        woken();
      }
      pause = 0ms;
      warned = false;
    } catch (const Error& error) {
      if (!warned) spdlog::warn("'{}' cannot follow the registry: {}", options_.self.id, error.what());
      warned = true;
      pause = kPause;
    }
  }
}

void Membership::take(const RegistryChange& change) {
  if (change.removed) return;  // what was said last goes on
  if (change.entry.name == kJobName) {
    const std::lock_guard lock(mutex_);
    job_ = std::make_shared<const std::string>(change.entry.text);
  } else if (change.entry.name == kViewName) {
    try {
      auto view = std::make_shared<const View>(view_from_text(change.entry.text));
      const std::lock_guard lock(mutex_);
      view_ = std::move(view);
    } catch (const Error& error) {
      spdlog::error("a view is passed over: {}", error.what());
    }
  }
}

bool Membership::wait_or_stop(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return stirred_.wait_for(lock, time, [&] { return stopped_; });
}

void Membership::woken() const {
  if (options_.wake) options_.wake();
}

}  // namespace trifold
