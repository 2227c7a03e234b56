#include "parallel/servers/registry/registry_service.h"

#include <algorithm>
#include <utility>

#include "parallel/servers/json_fields.h"

namespace trifold {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::milliseconds kLongestWatch = std::chrono::seconds(30);
constexpr std::size_t kMostWatches = 10000;

Json json_of(const RegistryEntry& entry) {
  return {{"name", entry.name}, {"text", entry.text}, {"revision", entry.revision}};
}

Json json_of(const std::vector<RegistryChange>& changes) {
  Json list = Json::array();
  for (const auto& [entry, removed] : changes) {
    list.push_back(json_of(entry));
    list.back()["removed"] = removed;
  }
  return list;
}

Json id_of(const Json& fields) {
  const Json id = fields.is_object() ? fields.value("id", Json()) : Json();
  return id.is_number_integer() ? id : Json(0);
}

}  // namespace

std::vector<RegistryAnswer> RegistryService::handle(PeerId from, const Message& request, Time now) {
  // Who asks again does not wait for an earlier answer any more.
  std::erase_if(watches_, [&](const Watch& watch) { return watch.peer == from; });
  std::vector<RegistryAnswer> answers;
  const std::lock_guard lock(shared_->mutex);
  const std::int64_t before = shared_->store.revision();
  RegistryAnswer own{.to = from, .message = {.kind = MessageKind::registry_answer}};
  bool waits = false;
  try {
    own.message.fields = answer(from, request, now, waits);
  } catch (const Error& error) {
    own.message.kind = MessageKind::refusal;
    own.message.fields = {{"code", "bad"}, {"why", error.what()}};
  }
  if (!waits) {
    own.message.fields["id"] = id_of(request.fields);
    answers.push_back(std::move(own));
  }
  if (waits || shared_->store.revision() != before) answer_watches(now, answers);
  if (shared_->store.revision() != before) shared_->changed.notify_all();
  return answers;
}

std::vector<RegistryAnswer> RegistryService::tick(Time now) {
  std::vector<RegistryAnswer> answers;
  const std::lock_guard lock(shared_->mutex);
  const std::int64_t before = shared_->store.revision();
  shared_->store.pass_time(now);
  if (shared_->store.revision() != before) shared_->changed.notify_all();
  answer_watches(now, answers);
  return answers;
}

Json RegistryService::answer(PeerId from, const Message& request, Time now, bool& waits) {
  const Json& fields = request.fields;
  RegistryStore& store = shared_->store;
  const std::string op = text_field(fields, "op");
  const auto lease = [&] { return integer_field(fields, "lease"); };
  const auto name = [&] { return text_field(fields, "name"); };
  if (op == "grant") {
    const auto lives = integer_field(fields, "lives_ms", 1);
    if (lives > RegistryStore::kLongestLease.count()) fail_runtime("'lives_ms' is more than a day");
    return {{"lease", store.grant(std::chrono::milliseconds(lives), now)}};
  }
  if (op == "keep_alive") return {{"alive", store.keep_alive(lease(), now)}};
  if (op == "get") {
    const auto entry = store.get(name());
    return {{"entry", entry ? json_of(*entry) : Json()}};
  }
  if (op == "list") {
    Json entries = Json::array();
    for (const RegistryEntry& entry : store.list(text_field(fields, "prefix"))) entries.push_back(json_of(entry));
    return {{"entries", std::move(entries)}};
  }
  if (op == "put_if") {
    const auto revision = store.put_if(name(), integer_field(fields, "seen"), text_field(fields, "text"), lease());
    return {{"revision", revision ? Json(*revision) : Json()}};
  }
  if (op == "changes") {
    start_watch(from, fields, now);
    waits = true;
    return Json::object();
  }
  if (op == "put") {
    store.put(name(), text_field(fields, "text"), lease());
  } else if (op == "remove") {
    store.remove(name());
  } else if (op == "revoke") {
    store.revoke(lease());
  } else {
    fail_runtime("the registry does not know '{}'", op);
  }
  return Json::object();
}

void RegistryService::start_watch(PeerId from, const Json& fields, Time now) {
  if (watches_.size() >= kMostWatches) fail_runtime("too many wait for changes of the registry");
  const std::int64_t timeout = std::min(integer_field(fields, "timeout_ms"), std::int64_t{kLongestWatch.count()});
  watches_.push_back({.peer = from,
                      .id = id_of(fields),
                      .prefix = text_field(fields, "prefix"),
                      .revision = integer_field(fields, "revision"),
                      .deadline = now + std::chrono::milliseconds(timeout)});
}

void RegistryService::answer_watches(Time now, std::vector<RegistryAnswer>& answers) {
  std::erase_if(watches_, [&](Watch& watch) {
    const auto changes = shared_->store.changes(watch.prefix, watch.revision);
    if (changes.empty() && now < watch.deadline) return false;
    answers.push_back(
        {.to = watch.peer,
         .message = {.kind = MessageKind::registry_answer,
                     .fields = {{"id", watch.id}, {"changes", json_of(changes)}, {"revision", watch.revision}}}});
    return true;
  });
}

}  // namespace trifold
