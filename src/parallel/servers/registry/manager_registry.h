// The registry that the manager keeps, from elsewhere: every call is a message to registry_service.h and its answer.
//
// When no answer came, what is only asked for (get, list, changes, keep_alive) and what may happen twice (grant: an
// unused lease runs out; revoke) is asked once more over a new connection. put, put_if and remove are sent once: they
// may have happened although no answer came, and then doing them again would undo what somebody else did meanwhile.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/servers/registry/registry.h"
#include "parallel/servers/wire/mailbox.h"

namespace trifold {

struct ManagerRegistryOptions {
  std::string address = {};     // where the manager listens
  std::string public_key = {};  // its, with credentials
  std::optional<Credentials> credentials = {};
  std::chrono::milliseconds patience = std::chrono::milliseconds(1500);  // for one answer
};

class ManagerRegistry final : public Registry {
 public:
  explicit ManagerRegistry(ManagerRegistryOptions options);

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
  enum class Sent { once, again };

  nlohmann::json ask(nlohmann::json fields, Sent sent, std::chrono::milliseconds longer = {});
  std::optional<nlohmann::json> ask_once(nlohmann::json& fields, std::chrono::milliseconds patience);

  ManagerRegistryOptions options_;
  Mailbox mailbox_;
  PeerId manager_ = 0;  // 0: not connected
  std::int64_t last_id_ = 0;
};

}  // namespace trifold
