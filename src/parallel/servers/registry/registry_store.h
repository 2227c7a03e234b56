// The registry that a manager keeps: etcd's semantics in one process. A pure state machine: time is what it is told. A
// change is on disk before it is made, where a file is given; a store with the same file goes on from there. One thread
// at a time; local_registry.h shares one among threads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "parallel/servers/registry/registry.h"
#include "parallel/servers/registry/registry_file.h"

namespace trifold {

class RegistryStore {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::size_t kLongestName = 512;
  static constexpr std::size_t kLongestText = std::size_t{4} << 20;
  static constexpr std::chrono::milliseconds kLongestLease = std::chrono::hours(24);
  // Between two calls of pass_time().
  static constexpr std::chrono::milliseconds kLongestGap = std::chrono::seconds(1);

  // Leases that the file knows start a full new term now.
  RegistryStore(std::filesystem::path file, Time now);

  LeaseId grant(std::chrono::milliseconds lives, Time now);
  bool keep_alive(LeaseId lease, Time now);
  void revoke(LeaseId lease);

  std::optional<RegistryEntry> get(const std::string& name) const;
  std::vector<RegistryEntry> list(const std::string& prefix) const;
  std::optional<std::int64_t> put_if(const std::string& name, std::int64_t seen, const std::string& text,
                                     LeaseId lease);
  void put(const std::string& name, const std::string& text, LeaseId lease);
  void remove(const std::string& name);

  // As Registry::changes(), without waiting.
  std::vector<RegistryChange> changes(const std::string& prefix, std::int64_t& revision) const;
  std::int64_t revision() const { return state_.revision; }

  // Leases run out here only. When it was not called for longer than kLongestGap this process did not run, so nobody
  // could renew: all leases last longer by that time.
  void pass_time(Time now);

 private:
  void check_entry(const std::string& name, const std::string& text, LeaseId lease) const;
  std::int64_t write(const std::string& name, const std::string& text, LeaseId lease);
  void drop_leases(const std::vector<LeaseId>& leases);
  void commit(RegistryState next, std::vector<RegistryChange> changes);

  std::filesystem::path file_;
  RegistryState state_;
  std::map<LeaseId, Time> ends_;
  Time passed_;

  std::deque<RegistryChange> history_;
  std::size_t history_bytes_ = 0;
  std::int64_t history_begin_ = 0;  // changes after this revision are all in history_
};

}  // namespace trifold
