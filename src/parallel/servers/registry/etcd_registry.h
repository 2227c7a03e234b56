// The registry in etcd, for clusters of many machines: what is agreed there survives the loss of any minority of
// etcd's members, and of all of ours. Names of a job lie below "/trifold/<job>/".
//
// Reads, keep_alive, grant and revoke are repeated at other members of etcd until one answers. put, put_if and remove
// are repeated only where they certainly did not happen (no connection, or no leader); else Unreachable is thrown, as
// the contract says.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/servers/registry/etcd_gateway.h"
#include "parallel/servers/registry/registry.h"

namespace trifold {

struct EtcdRegistryOptions {
  EtcdEndpoints endpoints = {};
  std::string job = {};  // letters, digits, '-', '_', '.'
};

class EtcdRegistry final : public Registry {
 public:
  explicit EtcdRegistry(const EtcdRegistryOptions& options);
  ~EtcdRegistry() override;

  // etcd counts in seconds: it may live up to a second longer, and at least about two.
  LeaseId grant(std::chrono::milliseconds lives) override;
  bool keep_alive(LeaseId lease) override;
  void revoke(LeaseId lease) override;
  std::optional<RegistryEntry> get(const std::string& name) override;
  std::vector<RegistryEntry> list(const std::string& prefix) override;
  std::optional<std::int64_t> put_if(const std::string& name, std::int64_t seen, const std::string& text,
                                     LeaseId lease) override;
  void put(const std::string& name, const std::string& text, LeaseId lease) override;
  void remove(const std::string& name) override;
  // The watch stays open between calls that go on where the last one ended.
  std::vector<RegistryChange> changes(const std::string& prefix, std::int64_t& revision,
                                      std::chrono::milliseconds timeout) override;

 private:
  struct Watch;

  nlohmann::json range_of(const std::string& prefix) const;
  std::vector<RegistryEntry> entries_in(const nlohmann::json& answer) const;
  std::string name_in(const nlohmann::json& kv) const;
  std::vector<RegistryChange> present(const std::string& prefix, std::int64_t& revision);
  void open_watch(const std::string& prefix, std::int64_t revision);
  // False: the history does not go back so far.
  bool read_watch(const std::string& line, std::vector<RegistryChange>& changes);

  std::string root_;
  EtcdGateway gateway_;
  std::unique_ptr<Watch> watch_;
};

}  // namespace trifold
