// What the members of a cluster agree on: small texts under names, as etcd has them. Who is alive is a name that lives
// as long as its lease; who leads is who made a name first; what all follow is a text that changes only from the
// revision its writer saw. Two implementations: etcd_registry.h, and manager_registry.h for one machine. Calls block
// for a few seconds at most; Unreachable is thrown when no answer came, and then whether a change was made is not
// known. What cannot be done (a lease that has run out, a text that is too long) is an Error. Names and texts are
// UTF-8. One thread uses an object.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"

namespace trifold {

using LeaseId = std::int64_t;  // 0: none, the name stays

struct RegistryEntry {
  std::string name;
  std::string text;
  std::int64_t revision = 0;  // of its last change; revisions of a registry only grow
};

struct RegistryChange {
  RegistryEntry entry;
  bool removed = false;  // or its lease has run out
};

class Unreachable : public Error {
 public:
  explicit Unreachable(const std::string& message) : Error(Fault::runtime, message) {}
};

class Registry {
 public:
  virtual ~Registry() = default;

  virtual LeaseId grant(std::chrono::milliseconds lives) = 0;
  // False: it has run out; its names are gone.
  virtual bool keep_alive(LeaseId lease) = 0;
  virtual void revoke(LeaseId lease) = 0;

  virtual std::optional<RegistryEntry> get(const std::string& name) = 0;
  virtual std::vector<RegistryEntry> list(const std::string& prefix) = 0;  // by name

  // The change happens only if the name's revision is `seen` (0: there is none). The new revision, or null.
  virtual std::optional<std::int64_t> put_if(const std::string& name, std::int64_t seen, const std::string& text,
                                             LeaseId lease = 0) = 0;
  // With a lease that has run out: an Error, in both.
  virtual void put(const std::string& name, const std::string& text, LeaseId lease = 0) = 0;
  virtual void remove(const std::string& name) = 0;

  // Changes after `revision` of names with the prefix, oldest first; waits for one at most so long. `revision` moves on
  // to the last one looked at. From 0, or from a revision before which nothing is remembered, the entries that there
  // are now come first; names that have gone meanwhile are not told then, list() shows who is there.
  virtual std::vector<RegistryChange> changes(const std::string& prefix, std::int64_t& revision,
                                              std::chrono::milliseconds timeout) = 0;
};

}  // namespace trifold
