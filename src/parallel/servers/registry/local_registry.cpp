#include "parallel/servers/registry/local_registry.h"

#include <utility>

namespace trifold {

SharedRegistryStore::SharedRegistryStore(std::filesystem::path file, std::function<void()> wake_service)
    : wake(std::move(wake_service)), store(std::move(file), std::chrono::steady_clock::now()) {}

// Tells those that wait when the call changed something.
template <class Call>
auto LocalRegistry::with_store(const Call& call) {
  bool changed = false;
  auto result = [&] {
    const std::lock_guard lock(shared_->mutex);
    const std::int64_t before = shared_->store.revision();
    auto answer = call(shared_->store);
    changed = shared_->store.revision() != before;
    return answer;
  }();
  if (changed) {
    shared_->changed.notify_all();
    if (shared_->wake) shared_->wake();
  }
  return result;
}

LeaseId LocalRegistry::grant(std::chrono::milliseconds lives) {
  return with_store([&](RegistryStore& store) { return store.grant(lives, std::chrono::steady_clock::now()); });
}

bool LocalRegistry::keep_alive(LeaseId lease) {
  return with_store([&](RegistryStore& store) { return store.keep_alive(lease, std::chrono::steady_clock::now()); });
}

void LocalRegistry::revoke(LeaseId lease) {
  with_store([&](RegistryStore& store) {
    store.revoke(lease);
    return 0;
  });
}

std::optional<RegistryEntry> LocalRegistry::get(const std::string& name) {
  return with_store([&](RegistryStore& store) { return store.get(name); });
}

std::vector<RegistryEntry> LocalRegistry::list(const std::string& prefix) {
  return with_store([&](RegistryStore& store) { return store.list(prefix); });
}

std::optional<std::int64_t> LocalRegistry::put_if(const std::string& name, std::int64_t seen, const std::string& text,
                                                  LeaseId lease) {
  return with_store([&](RegistryStore& store) { return store.put_if(name, seen, text, lease); });
}

void LocalRegistry::put(const std::string& name, const std::string& text, LeaseId lease) {
  with_store([&](RegistryStore& store) {
    store.put(name, text, lease);
    return 0;
  });
}

void LocalRegistry::remove(const std::string& name) {
  with_store([&](RegistryStore& store) {
    store.remove(name);
    return 0;
  });
}

std::vector<RegistryChange> LocalRegistry::changes(const std::string& prefix, std::int64_t& revision,
                                                   std::chrono::milliseconds timeout) {
  std::unique_lock lock(shared_->mutex);
  std::vector<RegistryChange> found;
  shared_->changed.wait_for(lock, timeout, [&] {
    found = shared_->store.changes(prefix, revision);
    return !found.empty();
  });
  return found;
}

}  // namespace trifold
