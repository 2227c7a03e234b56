// Watches who calls a listening socket, on a thread of its own, so that a busy member still lets others in: answers
// ZeroMQ's question whether a key is trusted (ZAP), notes every handshake that came to nothing, and has an eye on what
// those send who were let in (connection_watch.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/servers/wire/refusals.h"

namespace zmq {
class context_t;
class socket_t;
}  // namespace zmq

namespace trifold {

class ConnectionWatch;

class Gatekeeper {
 public:
  // The socket is not bound yet, and outlives this, as the watch does. `trusted`: public keys; null: connections are
  // plain, and nobody is asked for one.
  Gatekeeper(zmq::context_t& context, zmq::socket_t& socket, const std::optional<std::vector<std::string>>& trusted,
             ConnectionWatch& watch, Refusals& refusals);
  ~Gatekeeper();
  Gatekeeper(const Gatekeeper&) = delete;
  Gatekeeper& operator=(const Gatekeeper&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trifold
