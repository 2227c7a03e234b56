#include "runtime/cluster/cluster_access.h"

#include <chrono>
#include <thread>

#include "core/error.h"
#include "parallel/servers/registry/etcd_registry.h"
#include "parallel/servers/registry/manager_registry.h"
#include "parallel/servers/wire/keys.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;

// Two of them are less than half a lease, as Membership asks.
constexpr auto kPatienceForAnswer = 700ms;
constexpr auto kPause = 200ms;
constexpr std::chrono::seconds kLongestWithoutRegistry = 600s;

}  // namespace

std::optional<Credentials> ClusterAccess::credentials() const {
  if (keys.empty()) return std::nullopt;
  return load_credentials(keys, key_name);
}

std::string ClusterAccess::manager_key() const {
  return keys.empty() ? "" : load_public_key(keys, "manager");
}

std::unique_ptr<Registry> ClusterAccess::open_registry() const {
  if (!etcd.empty()) return std::make_unique<EtcdRegistry>(EtcdRegistryOptions{.endpoints = etcd, .job = job});
  return std::make_unique<ManagerRegistry>(ManagerRegistryOptions{
      .address = manager, .public_key = manager_key(), .credentials = credentials(), .patience = kPatienceForAnswer});
}

bool join_patiently(Membership& membership, const std::atomic<bool>* interrupt) {
  const auto deadline = std::chrono::steady_clock::now() + kLongestWithoutRegistry;
  while (interrupt == nullptr || !interrupt->load()) {
    if (membership.try_join()) return true;
    if (std::chrono::steady_clock::now() > deadline)
      fail_runtime("cannot join: the job's registry has not answered for {} s", kLongestWithoutRegistry.count());
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

void check_registry(const Membership& membership) {
  if (membership.unreachable_for() > kLongestWithoutRegistry)
    fail_runtime("nobody knows of the job any more: its registry has not answered for {} s",
                 kLongestWithoutRegistry.count());
}

std::string wait_for_text(const ClusterAccess& access, const std::string& name, std::chrono::seconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const std::unique_ptr<Registry> registry = access.open_registry();
  while (true) {
    std::string why = "it does not know the job";
    try {
      if (const auto entry = registry->get(name)) return entry->text;
    } catch (const Unreachable& error) {
      why = error.what();
    }
    if (std::chrono::steady_clock::now() > deadline)
      fail_runtime("no manager of a job was found at {} within {} s: {}",
                   access.etcd.empty() ? access.manager : access.etcd.front(), patience.count(), why);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace trifold
