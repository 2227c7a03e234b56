#include "parallel/servers/registry/manager_registry.h"

#include <utility>

#include "parallel/servers/json_fields.h"

namespace trifold {
namespace {

using SteadyClock = std::chrono::steady_clock;
using AnswerJson = nlohmann::json;

RegistryEntry entry_of(const AnswerJson& json) {
  return {.name = text_field(json, "name"),
          .text = text_field(json, "text"),
          .revision = integer_field(json, "revision", 1)};
}

}  // namespace

ManagerRegistry::ManagerRegistry(ManagerRegistryOptions options)
    : options_(std::move(options)), mailbox_({.credentials = options_.credentials}) {}

LeaseId ManagerRegistry::grant(std::chrono::milliseconds lives) {
  return integer_field(ask({{"op", "grant"}, {"lives_ms", lives.count()}}, Sent::again), "lease", 1);
}

bool ManagerRegistry::keep_alive(LeaseId lease) {
  return flag_field(ask({{"op", "keep_alive"}, {"lease", lease}}, Sent::again), "alive");
}

void ManagerRegistry::revoke(LeaseId lease) {
  ask({{"op", "revoke"}, {"lease", lease}}, Sent::again);
}

std::optional<RegistryEntry> ManagerRegistry::get(const std::string& name) {
  const AnswerJson answer = ask({{"op", "get"}, {"name", name}}, Sent::again);
  if (!answer.contains("entry") || answer["entry"].is_null()) return {};
  return entry_of(answer["entry"]);
}

std::vector<RegistryEntry> ManagerRegistry::list(const std::string& prefix) {
  std::vector<RegistryEntry> entries;
  const AnswerJson answer = ask({{"op", "list"}, {"prefix", prefix}}, Sent::again);
  for (const AnswerJson& entry : array_field(answer, "entries")) entries.push_back(entry_of(entry));
  return entries;
}

std::optional<std::int64_t> ManagerRegistry::put_if(const std::string& name, std::int64_t seen, const std::string& text,
                                                    LeaseId lease) {
  const AnswerJson answer =
      ask({{"op", "put_if"}, {"name", name}, {"seen", seen}, {"text", text}, {"lease", lease}}, Sent::once);
  if (answer.contains("revision") && answer["revision"].is_null()) return {};
  return integer_field(answer, "revision", 1);
}

void ManagerRegistry::put(const std::string& name, const std::string& text, LeaseId lease) {
  ask({{"op", "put"}, {"name", name}, {"text", text}, {"lease", lease}}, Sent::once);
}

void ManagerRegistry::remove(const std::string& name) {
  ask({{"op", "remove"}, {"name", name}}, Sent::once);
}

std::vector<RegistryChange> ManagerRegistry::changes(const std::string& prefix, std::int64_t& revision,
                                                     std::chrono::milliseconds timeout) {
  const AnswerJson answer =
      ask({{"op", "changes"}, {"prefix", prefix}, {"revision", revision}, {"timeout_ms", timeout.count()}}, Sent::again,
          timeout);
  std::vector<RegistryChange> changes;
  for (const AnswerJson& change : array_field(answer, "changes"))
    changes.push_back({.entry = entry_of(change), .removed = flag_field(change, "removed")});
  revision = integer_field(answer, "revision");
  return changes;
}

AnswerJson ManagerRegistry::ask(AnswerJson fields, Sent sent, std::chrono::milliseconds longer) {
  for (int attempts = sent == Sent::again ? 2 : 1; attempts > 0; --attempts)
    if (auto answer = ask_once(fields, options_.patience + longer)) return std::move(*answer);
  throw Unreachable(fmt::format("the manager at {} does not answer", options_.address));
}

std::optional<AnswerJson> ManagerRegistry::ask_once(AnswerJson& fields, std::chrono::milliseconds patience) {
  if (manager_ == 0) manager_ = mailbox_.connect(options_.address, options_.public_key);
  fields["id"] = ++last_id_;
  const auto deadline = SteadyClock::now() + patience;
  bool waits = mailbox_.send(manager_, {.kind = MessageKind::registry, .fields = fields});
  while (waits) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now());
    if (left.count() <= 0) break;
    const auto received = mailbox_.receive(left);
    if (!received || received->from != manager_) continue;
    const Message& message = received->message;
    if (!message.fields.is_object() || message.fields.value("id", AnswerJson()) != fields["id"]) continue;
    if (message.kind == MessageKind::registry_answer) return message.fields;
    if (message.kind == MessageKind::refusal)
      fail_runtime("the manager's registry refuses: {}", text_field(message.fields, "why"));
  }
  // With the connection goes, within a second, what waits to be sent: it must not happen when nobody expects it.
  mailbox_.disconnect(manager_);
  manager_ = 0;
  return {};
}

}  // namespace trifold
