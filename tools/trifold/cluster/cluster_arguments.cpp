#include "cluster/cluster_arguments.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "core/error.h"

namespace trifold {

void ClusterArguments::declare(CLI::App& command, const std::string& given_role) {
  role = given_role;
  access.key_name = role;
  // A manager says where it is by --listen.
  if (role != "manager") command.add_option("--manager", access.manager, "where the manager listens: tcp://host:port");
  auto* etcd =
      command.add_option("--etcd", access.etcd, "endpoints of an etcd cluster that keeps the registry instead")
          ->delimiter(',');
  command.add_option("--job", access.job, "the job's name in etcd");
  auto* spec = command
                   .add_option("--cluster", spec_file,
                               "a file with all addresses, {\"ps\": [\"host:2222\"], \"worker\": [..]} (default: what "
                               "TF_CONFIG says, if it is set)")
                   ->excludes(etcd);
  if (role != "manager") {
    spec->excludes(command.get_option("--manager"));
    etcd->excludes(command.get_option("--manager"));
    command.add_option("--index", index, "this member's place in that file's list, from 0")->needs(spec);
  }
  command.add_option("--keys", access.keys, "a folder that 'trifold keys' made (default: no keys, this machine only)");
  command.add_option("--as", access.key_name, "this member's key in it")->capture_default_str();
}

std::optional<ClusterPlace> ClusterArguments::place() const {
  if (!access.manager.empty() || !access.etcd.empty()) return std::nullopt;
  if (!spec_file.empty()) {
    std::ifstream in(spec_file, std::ios::binary);
    if (!in) fail_input("cannot read the cluster file {}", spec_file);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    ClusterPlace place{parse_cluster_spec(text, spec_file), {role, index}};
    const std::size_t members = role == "server" ? place.cluster.servers.size() : place.cluster.workers.size();
    if (role != "manager" && (index < 0 || index >= static_cast<int>(members)))
      fail_input("{} has {} addresses of {}s: there is no --index {}", spec_file, members, role, index);
    return place;
  }
  std::optional<ClusterPlace> place = parse_tf_config(std::getenv("TF_CONFIG"));
  if (!place) return place;
  // Without a chief the first worker's machine has the manager, too.
  const bool leads = place->cluster.manager.empty() && place->task == ClusterTask{"worker", 0};
  if (place->task.role != role && !(role == "manager" && leads))
    fail_input("TF_CONFIG makes this process {} {}: start 'trifold {}' with it", place->task.role, place->task.index,
               place->task.role);
  return place;
}

ClusterAccess ClusterArguments::find(const std::optional<ClusterPlace>& place) const {
  ClusterAccess found = access;
  if (place) found.manager = manager_address(place->cluster);
  if (found.manager.empty() && found.etcd.empty())
    fail_input(
        "say where the cluster is: --manager tcp://host:port, --cluster file, TF_CONFIG, or --etcd http://host:2379 "
        "--job name");
  if (!found.etcd.empty() && found.job.empty()) fail_input("--etcd needs --job, the job's name");
  return found;
}

const std::string& manager_address(const ClusterSpec& spec) {
  return spec.manager.empty() ? spec.workers.front() : spec.manager;
}

}  // namespace trifold
