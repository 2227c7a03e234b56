// Who takes part, as the tutorials of parameter servers write it down: {"ps": ["host:2222"], "worker": ["host:2223",
// "host:2224"]}, from a file, or with this process's own role and number from the environment variable TF_CONFIG:
// {"cluster": {...}, "task": {"type": "worker", "index": 0}}. The chief (or master) is who coordinates: here the
// manager.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trifold {

struct ClusterSpec {
  std::vector<std::string> servers = {};  // "ps": addresses, "tcp://host:2222"
  std::vector<std::string> workers = {};  // "worker"
  std::string manager = {};               // "chief" or "master"; empty: none is named

  bool operator==(const ClusterSpec&) const = default;
};

// "server", "worker" and "manager" as MemberInfo has them.
struct ClusterTask {
  std::string role;
  int index = 0;

  bool operator==(const ClusterTask&) const = default;
};

struct ClusterPlace {
  ClusterSpec cluster;
  ClusterTask task;

  // Where this process is to listen.
  const std::string& address() const;
};

// `origin` is what errors call the text. Errors name the entry that is wrong.
ClusterSpec parse_cluster_spec(std::string_view text, const std::string& origin);
// `text`: the value of TF_CONFIG; null or empty: none.
std::optional<ClusterPlace> parse_tf_config(const char* text);

}  // namespace trifold
