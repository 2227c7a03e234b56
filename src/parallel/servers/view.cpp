#include "parallel/servers/view.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "parallel/servers/json_fields.h"

namespace trifold {
namespace {

using Json = nlohmann::json;

Json to_json(const MemberInfo& member) {
  return {{"id", member.id},     {"role", member.role},  {"address", member.address}, {"public_key", member.public_key},
          {"host", member.host}, {"holds", member.holds}};
}

MemberInfo member_from_json(const Json& json) {
  MemberInfo member{.id = text_field(json, "id"),
                    .role = text_field(json, "role"),
                    .address = text_field(json, "address"),
                    .public_key = text_field(json, "public_key"),
                    .host = text_field(json, "host"),
                    .holds = text_field(json, "holds")};
  if (member.id.empty()) fail_runtime("'id' is empty");
  if (member.role != "server" && member.role != "worker" && member.role != "manager")
    fail_runtime("'role' is \"{}\", and not server, worker or manager", member.role);
  return member;
}

// What is not UTF-8 cannot be said in JSON; names are ours and are, so nothing is replaced but in a broken one.
std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string to_text(const MemberInfo& member) {
  return dumped(to_json(member));
}

MemberInfo member_from_text(const std::string& text) {
  try {
    return member_from_json(parse_object(text, "it"));
  } catch (const Error& error) {
    fail_runtime("the text of a member is damaged: {}", error.what());
  }
}

std::vector<std::string> View::server_ids() const {
  std::vector<std::string> ids;
  ids.reserve(servers.size());
  for (const MemberInfo& server : servers) ids.push_back(server.id);
  return ids;
}

bool View::has(const MemberInfo& member) const {
  return std::ranges::find(servers, member.id, &MemberInfo::id) != servers.end() ||
         std::ranges::find(workers, member.id) != workers.end();
}

const MemberInfo* View::head_of(const std::string& worker) const {
  for (const HeadOfHost& head : heads)
    if (std::ranges::count(head.workers, worker) > 0) return &head.member;
  return nullptr;
}

std::vector<int> View::shards_through(const std::string& head_id) const {
  std::vector<int> shards;
  for (std::size_t shard = 0; shard < shard_owners.size(); ++shard) {
    const MemberInfo* head = head_of(shard_owners[shard]);
    if (head != nullptr && head->id == head_id) shards.push_back(static_cast<int>(shard));
  }
  return shards;
}

std::string to_text(const View& view) {
  Json servers = Json::array();
  for (const MemberInfo& server : view.servers) servers.push_back(to_json(server));
  Json json = {{"version", view.version},           {"epoch", view.epoch},           {"settled", view.settled},
               {"servers", std::move(servers)},     {"sources", view.sources},       {"workers", view.workers},
               {"shard_owners", view.shard_owners}, {"stopped_by", view.stopped_by}, {"begun_by", view.begun_by}};
  for (const HeadOfHost& head : view.heads)
    json["heads"].push_back({{"member", to_json(head.member)}, {"workers", head.workers}});
  json["served"] = {{"epoch", view.served.epoch}, {"first", view.served.first}, {"servers", view.served.servers}};
  if (!view.leader.id.empty()) json["leader"] = to_json(view.leader);
  if (view.stop_clock) json["stop_clock"] = *view.stop_clock;
  if (view.safe) json["safe"] = true;
  if (view.over) json["over"] = true;
  return dumped(json);
}

View view_from_text(const std::string& text) {
  try {
    const Json json = parse_object(text, "it");
    View view{.version = integer_field(json, "version"),
              .epoch = integer_field(json, "epoch"),
              .settled = flag_field(json, "settled"),
              .begun_by = text_field(json, "begun_by"),
              .sources = texts_field(json, "sources"),
              .workers = texts_field(json, "workers"),
              .shard_owners = texts_field(json, "shard_owners"),
              .stopped_by = text_field(json, "stopped_by")};
    const Json& served = object_field(json, "served");
    view.served = {.epoch = integer_field(served, "epoch"),
                   .first = flag_field(served, "first"),
                   .servers = texts_field(served, "servers")};
    for (const Json& server : array_field(json, "servers")) view.servers.push_back(member_from_json(server));
    if (json.contains("heads"))
      for (const Json& head : array_field(json, "heads"))
        view.heads.push_back(
            {.member = member_from_json(object_field(head, "member")), .workers = texts_field(head, "workers")});
    if (json.contains("leader")) view.leader = member_from_json(json["leader"]);
    if (json.contains("safe")) view.safe = flag_field(json, "safe");
    if (json.contains("over")) view.over = flag_field(json, "over");
    if (json.contains("stop_clock")) view.stop_clock = integer_field(json, "stop_clock");
    return view;
  } catch (const Error& error) {
    fail_runtime("the view is damaged: {}", error.what());
  }
}

}  // namespace trifold
