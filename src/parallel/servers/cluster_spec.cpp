#include "parallel/servers/cluster_spec.h"

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace trifold {
namespace {

using SpecJson = nlohmann::json;

SpecJson parse_spec_object(std::string_view text, const std::string& origin) {
  SpecJson json = SpecJson::parse(text, nullptr, false);
  if (json.is_discarded()) fail_input("{}: expected a JSON object such as {{\"ps\": [\"host:2222\"]}}", origin);
  if (!json.is_object()) fail_input("{}: expected a JSON object, found {}", origin, json.dump());
  return json;
}

// "host:2222" as "tcp://host:2222"; [::1]:2222 too.
std::string read_member_address(const SpecJson& json, const std::string& place) {
  const auto refuse = [&] {
    fail_input("{}: expected an address such as \"10.0.0.1:2222\", found {}", place, json.dump());
  };
  if (!json.is_string()) refuse();
  std::string address = json.get<std::string>();
  for (const char* scheme : {"tcp://", "grpc://"})
    if (address.starts_with(scheme)) address = address.substr(std::string_view(scheme).size());
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) refuse();
  const std::string host = address.substr(0, colon);
  int port = 0;
  const char* last = address.data() + address.size();
  const auto [end, error] = std::from_chars(address.data() + colon + 1, last, port);
  const bool bracketed = host.front() == '[' && host.back() == ']';
  const bool plain = std::ranges::none_of(host, [&](unsigned char letter) {
    return std::isspace(letter) != 0 || letter == '/' || (letter == ':' && !bracketed);
  });
  if (error != std::errc{} || end != last || port < 1 || port > 65535 || !plain) refuse();
  return "tcp://" + address;
}

std::vector<std::string> read_member_addresses(const SpecJson& json, const std::string& place) {
  if (!json.is_array()) fail_input("{}: expected a list of addresses, found {}", place, json.dump());
  std::vector<std::string> addresses;
  for (std::size_t i = 0; i < json.size(); ++i)
    addresses.push_back(read_member_address(json[i], place + "/" + std::to_string(i)));
  return addresses;
}

void check_no_address_twice(const ClusterSpec& spec, const std::string& origin) {
  std::vector<std::string> all = spec.servers;
  all.insert(all.end(), spec.workers.begin(), spec.workers.end());
  if (!spec.manager.empty()) all.push_back(spec.manager);
  std::ranges::sort(all);
  const auto twice = std::ranges::adjacent_find(all);
  if (twice != all.end()) fail_input("{}: {} is there twice, and one process listens at an address", origin, *twice);
}

ClusterSpec read_spec(const SpecJson& json, const std::string& origin) {
  ClusterSpec spec;
  if (!json.is_object()) fail_input("{}: expected an object of lists of addresses, found {}", origin, json.dump());
  for (const auto& [name, list] : json.items()) {
    const std::string place = fmt::format("{}: /{}", origin, name);
    if (name == "ps") {
      spec.servers = read_member_addresses(list, place);
    } else if (name == "worker") {
      spec.workers = read_member_addresses(list, place);
    } else if (name == "chief" || name == "master") {
      const std::vector<std::string> one = read_member_addresses(list, place);
      if (one.size() != 1 || !spec.manager.empty())
        fail_input("{}: a cluster has one who coordinates, found {}", place, list.dump());
      spec.manager = one.front();
    } else {
      fail_input("{}: unknown role '{}' (known: ps, worker, chief)", place, name);
    }
  }
  if (spec.servers.empty()) fail_input("{}: no \"ps\": a cluster needs at least one parameter server", origin);
  if (spec.workers.empty()) fail_input("{}: no \"worker\": a cluster needs at least one", origin);
  check_no_address_twice(spec, origin);
  return spec;
}

std::size_t members_of(const ClusterSpec& spec, const std::string& role) {
  if (role == "server") return spec.servers.size();
  return role == "worker" ? spec.workers.size() : spec.manager.empty() ? 0 : 1;
}

ClusterTask read_task(const SpecJson& json, const ClusterSpec& spec, const std::string& origin) {
  const auto type = json.find("type");
  if (!json.is_object() || type == json.end() || !type->is_string())
    fail_input("{}: expected {{\"type\": \"worker\", \"index\": 0}}, found {}", origin, json.dump());
  const std::string name = type->get<std::string>();
  ClusterTask task;
  if (name == "ps")
    task.role = "server";
  else if (name == "worker")
    task.role = name;
  else if (name == "chief" || name == "master")
    task.role = "manager";
  else
    fail_input("{}/type: unknown role '{}' (known: ps, worker, chief)", origin, name);
  const SpecJson index = json.value("index", SpecJson(0));
  const std::size_t members = members_of(spec, task.role);
  // Some launchers write numbers as texts.
  std::int64_t number = -1;
  if (index.is_number_integer()) number = index.get<std::int64_t>();
  if (index.is_string()) {
    const std::string& text = index.get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) number = -1;
  }
  if (number < 0 || number >= static_cast<std::int64_t>(members))
    fail_input("{}/index: the cluster has {} of type {}, and there is no {} (the first is 0)", origin, members, name,
               index.dump());
  task.index = static_cast<int>(number);
  return task;
}

}  // namespace

const std::string& ClusterPlace::address() const {
  if (task.role == "manager") return cluster.manager;
  const std::vector<std::string>& list = task.role == "server" ? cluster.servers : cluster.workers;
  return list.at(static_cast<std::size_t>(task.index));
}

ClusterSpec parse_cluster_spec(std::string_view text, const std::string& origin) {
  return read_spec(parse_spec_object(text, origin), origin);
}

std::optional<ClusterPlace> parse_tf_config(const char* text) {
  if (text == nullptr || *text == '\0') return std::nullopt;
  const SpecJson json = parse_spec_object(text, "TF_CONFIG");
  for (const char* part : {"cluster", "task"})
    if (!json.contains(part)) fail_input("TF_CONFIG: no \"{}\"; it has a \"cluster\" and a \"task\"", part);
  ClusterPlace place;
  place.cluster = read_spec(json["cluster"], "TF_CONFIG: /cluster");
  place.task = read_task(json["task"], place.cluster, "TF_CONFIG: /task");
  return place;
}

}  // namespace trifold
