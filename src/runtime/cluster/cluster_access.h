// How a member of a cluster finds the others: the manager's own registry, or etcd; and the keys it proves itself by.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/servers/registry/membership.h"
#include "parallel/servers/registry/registry.h"
#include "parallel/servers/wire/mailbox.h"

namespace trifold {

struct ClusterAccess {
  std::string manager = {};            // its address, "tcp://127.0.0.1:5555"; or else
  std::vector<std::string> etcd = {};  // endpoints, "http://10.0.0.1:2379", of one cluster
  std::string job = {};                // etcd: what the job's names begin with
  std::filesystem::path keys = {};     // a folder that `trifold keys` made; empty: none, and this machine only
  std::string key_name = {};           // of this member's own key in it

  std::optional<Credentials> credentials() const;
  std::string manager_key() const;  // the manager's public one; empty: no keys
  std::unique_ptr<Registry> open_registry() const;
};

// Joins as soon as the registry answers. False: it was interrupted meanwhile. An Error when there was no answer
// for ten minutes.
bool join_patiently(Membership& membership, const std::atomic<bool>* interrupt);
// Throws when the registry has been silent so long that nobody can be expected to come back.
void check_registry(const Membership& membership);

// What a registry says under a name, as soon as it does; an Error where nothing has come after so long.
std::string wait_for_text(const ClusterAccess& access, const std::string& name, std::chrono::seconds patience);

}  // namespace trifold
