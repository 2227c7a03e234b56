// What the commands of a cluster's members understand: where the others are, and the keys.
#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "parallel/servers/cluster_spec.h"
#include "runtime/cluster/cluster_access.h"

namespace trifold {

struct ClusterArguments {
  ClusterAccess access;
  std::string role;       // "manager", "server", "worker"
  std::string spec_file;  // {"ps": [..], "worker": [..]}
  int index = 0;          // of this member in it

  // Its key is called like its role unless it is said.
  void declare(CLI::App& command, const std::string& given_role);

  // Where this member is in a cluster whose addresses are written down: in --cluster, or in TF_CONFIG where no other
  // way to find the cluster is given.
  std::optional<ClusterPlace> place() const;
  // How it finds the others. Fails where nothing says it.
  ClusterAccess find(const std::optional<ClusterPlace>& place) const;
};

// Of a cluster that is written down: its chief's, or else its first worker's, who needs none for itself.
const std::string& manager_address(const ClusterSpec& spec);

}  // namespace trifold
