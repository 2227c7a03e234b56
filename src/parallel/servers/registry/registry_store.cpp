#include "parallel/servers/registry/registry_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

namespace trifold {
namespace {

constexpr std::size_t kHistoryChanges = 4096;
constexpr std::size_t kHistoryBytes = std::size_t{16} << 20;

std::size_t bytes_of(const RegistryChange& change) {
  return sizeof(change) + change.entry.name.size() + change.entry.text.size();
}

// What is not could not be written as JSON.
bool is_utf8(const std::string& text) {
  try {
    nlohmann::json(text).dump();
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace

RegistryStore::RegistryStore(std::filesystem::path file, Time now) : file_(std::move(file)), passed_(now) {
  if (!file_.empty()) state_ = load_registry(file_).value_or(RegistryState{});
  for (const auto& [lease, lives] : state_.leases) ends_[lease] = now + lives;
  history_begin_ = state_.revision;
}

LeaseId RegistryStore::grant(std::chrono::milliseconds lives, Time now) {
  if (lives.count() < 1 || lives > kLongestLease)
    fail_runtime("a lease of {} ms is not between 1 ms and a day", lives.count());
  RegistryState next = state_;
  const LeaseId lease = ++next.last_lease;
  next.leases[lease] = lives;
  commit(std::move(next), {});
  ends_[lease] = now + lives;
  return lease;
}

bool RegistryStore::keep_alive(LeaseId lease, Time now) {
  const auto found = state_.leases.find(lease);
  if (found == state_.leases.end()) return false;
  ends_[lease] = std::max(ends_[lease], now + found->second);
  return true;
}

void RegistryStore::revoke(LeaseId lease) {
  if (state_.leases.contains(lease)) drop_leases({lease});
}

std::optional<RegistryEntry> RegistryStore::get(const std::string& name) const {
  const auto found = state_.entries.find(name);
  if (found == state_.entries.end()) return {};
  return RegistryEntry{.name = name, .text = found->second.text, .revision = found->second.revision};
}

std::vector<RegistryEntry> RegistryStore::list(const std::string& prefix) const {
  std::vector<RegistryEntry> found;
  for (auto entry = state_.entries.lower_bound(prefix);
       entry != state_.entries.end() && entry->first.starts_with(prefix); ++entry)
    found.push_back({.name = entry->first, .text = entry->second.text, .revision = entry->second.revision});
  return found;
}

std::optional<std::int64_t> RegistryStore::put_if(const std::string& name, std::int64_t seen, const std::string& text,
                                                  LeaseId lease) {
  const auto found = state_.entries.find(name);
  if ((found == state_.entries.end() ? 0 : found->second.revision) != seen) return {};
  check_entry(name, text, lease);
  return write(name, text, lease);
}

void RegistryStore::put(const std::string& name, const std::string& text, LeaseId lease) {
  check_entry(name, text, lease);
  write(name, text, lease);
}

void RegistryStore::remove(const std::string& name) {
  if (!state_.entries.contains(name)) return;
  RegistryState next = state_;
  next.entries.erase(name);
  ++next.revision;
  const std::int64_t revision = next.revision;
  commit(std::move(next), {{.entry = {.name = name, .text = {}, .revision = revision}, .removed = true}});
}

std::vector<RegistryChange> RegistryStore::changes(const std::string& prefix, std::int64_t& revision) const {
  const std::int64_t after = std::exchange(revision, state_.revision);
  std::vector<RegistryChange> found;
  // A revision that is yet to come is one of a registry whose state was lost.
  if (after == 0 || after < history_begin_ || after > state_.revision) {
    for (RegistryEntry& entry : list(prefix)) found.push_back({.entry = std::move(entry)});
    return found;
  }
  const auto first = std::partition_point(history_.begin(), history_.end(),
                                          [&](const RegistryChange& change) { return change.entry.revision <= after; });
  std::copy_if(first, history_.end(), std::back_inserter(found),
               [&](const RegistryChange& change) { return change.entry.name.starts_with(prefix); });
  return found;
}

void RegistryStore::pass_time(Time now) {
  if (now - passed_ > kLongestGap)
    for (auto& [lease, end] : ends_) end += now - passed_;
  passed_ = std::max(passed_, now);
  std::vector<LeaseId> ended;
  for (const auto& [lease, end] : ends_)
    if (end <= now) ended.push_back(lease);
  if (!ended.empty()) drop_leases(ended);
}

void RegistryStore::check_entry(const std::string& name, const std::string& text, LeaseId lease) const {
  if (name.empty() || name.size() > kLongestName)
    fail_runtime("a name in the registry has 1 to {} letters, not {}", kLongestName, name.size());
  if (text.size() > kLongestText)
    fail_runtime("a text in the registry has at most {} letters, not {}", kLongestText, text.size());
  if (!is_utf8(name) || !is_utf8(text)) fail_runtime("names and texts in the registry are UTF-8, and this is not");
  if (lease != 0 && !state_.leases.contains(lease)) fail_runtime("the lease {} has run out", lease);
}

std::int64_t RegistryStore::write(const std::string& name, const std::string& text, LeaseId lease) {
  RegistryState next = state_;
  const std::int64_t revision = ++next.revision;
  next.entries[name] = {.text = text, .revision = revision, .lease = lease};
  commit(std::move(next), {{.entry = {.name = name, .text = text, .revision = revision}}});
  return revision;
}

void RegistryStore::drop_leases(const std::vector<LeaseId>& leases) {
  RegistryState next = state_;
  std::vector<RegistryChange> removed;
  for (const LeaseId lease : leases) {
    next.leases.erase(lease);
    std::erase_if(next.entries, [&](const auto& named) {
      if (named.second.lease != lease) return false;
      removed.push_back({.entry = {.name = named.first, .text = {}, .revision = ++next.revision}, .removed = true});
      return true;
    });
  }
  commit(std::move(next), std::move(removed));
  for (const LeaseId lease : leases) ends_.erase(lease);
}

void RegistryStore::commit(RegistryState next, std::vector<RegistryChange> changes) {
  if (!file_.empty()) save_registry(next, file_);  // first: what fails here was not done
  state_ = std::move(next);
  for (RegistryChange& change : changes) {
    history_bytes_ += bytes_of(change);
    history_.push_back(std::move(change));
  }
  while (history_.size() > kHistoryChanges || history_bytes_ > kHistoryBytes) {
    history_begin_ = history_.front().entry.revision;
    history_bytes_ -= bytes_of(history_.front());
    history_.pop_front();
  }
}

}  // namespace trifold
