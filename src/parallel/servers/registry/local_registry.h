// The registry for those that are in the manager's own process: one store under a lock, which registry_service.h
// answers the others from. Time passes by the service's tick().
#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "parallel/servers/registry/registry.h"
#include "parallel/servers/registry/registry_store.h"

namespace trifold {

struct SharedRegistryStore {
  // `file`: empty for a registry that a restart need not find again. `wake_service` is called, from any thread, when
  // tick() of the service has something to tell (Mailbox::wake, say).
  explicit SharedRegistryStore(std::filesystem::path file = {}, std::function<void()> wake_service = {});

  const std::function<void()> wake;
  std::mutex mutex;  // of all below
  std::condition_variable changed;
  RegistryStore store;
};

class LocalRegistry final : public Registry {
 public:
  explicit LocalRegistry(std::shared_ptr<SharedRegistryStore> shared) : shared_(std::move(shared)) {}

  LeaseId grant(std::chrono::milliseconds lives) override;
  bool keep_alive(LeaseId lease) override;
  void revoke(LeaseId lease) override;
  std::optional<RegistryEntry> get(const std::string& name) override;
  std::vector<RegistryEntry> list(const std::string& prefix) override;
  std::optional<std::int64_t> put_if(const std::string& name, std::int64_t seen, const std::string& text,
                                     LeaseId lease) override;
  void put(const std::string& name, const std::string& text, LeaseId lease) override;
  void remove(const std::string& name) override;
  std::vector<RegistryChange> changes(const std::string& prefix, std::int64_t& revision,
                                      std::chrono::milliseconds timeout) override;

 private:
  template <class Call>
  auto with_store(const Call& call);

  std::shared_ptr<SharedRegistryStore> shared_;
};

}  // namespace trifold
