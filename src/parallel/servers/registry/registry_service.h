// What the manager does for those that reach its registry by messages (manager_registry.h is their side). It knows
// nothing of sockets: a request comes in, answers go out, and nothing here waits. A request for changes that there are
// not yet is kept until there are some or its time is over.
//
// Fields of a request: "id", "op", and of the op; of the answer: "id", and
//   grant {lives_ms} -> {lease}                       keep_alive {lease} -> {alive}       revoke {lease}
//   get {name} -> {entry: {name, text, revision} | null}                                  list {prefix} -> {entries}
//   put_if {name, seen, text, lease} -> {revision | null}      put {name, text, lease}    remove {name}
//   changes {prefix, revision, timeout_ms} -> {changes: [{name, text, revision, removed}], revision}
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "parallel/servers/registry/local_registry.h"
#include "parallel/servers/wire/mailbox.h"

namespace trifold {

struct RegistryAnswer {
  PeerId to = 0;
  Message message = {};
};

class RegistryService {
 public:
  using Time = RegistryStore::Time;

  explicit RegistryService(std::shared_ptr<SharedRegistryStore> shared) : shared_(std::move(shared)) {}

  // Of MessageKind::registry. The answers that it makes due: its own, and others' that waited for such a change.
  std::vector<RegistryAnswer> handle(PeerId from, const Message& request, Time now);

  // Leases run out here; so it is to be called every 100 ms or so, and after SharedRegistryStore::wake.
  std::vector<RegistryAnswer> tick(Time now);

  std::size_t waiting() const { return watches_.size(); }

 private:
  struct Watch {
    PeerId peer = 0;
    nlohmann::json id = {};
    std::string prefix = {};
    std::int64_t revision = 0;
    Time deadline = {};
  };

  nlohmann::json answer(PeerId from, const Message& request, Time now, bool& waits);
  void start_watch(PeerId from, const nlohmann::json& fields, Time now);
  void answer_watches(Time now, std::vector<RegistryAnswer>& answers);

  std::shared_ptr<SharedRegistryStore> shared_;
  std::vector<Watch> watches_;  // one a peer at most: it has one question at a time
};

}  // namespace trifold
