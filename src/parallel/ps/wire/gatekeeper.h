// Watches who calls a listening socket, on a thread of its own, so that a busy member still lets others in: answers
// ZeroMQ's question whether a key is trusted (ZAP), and notes every handshake that came to nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "parallel/ps/wire/refusals.h"

namespace zmq {
class context_t;
class socket_t;
}  // namespace zmq

namespace trifold {

class Gatekeeper {
 public:
  // The socket is not bound yet, and outlives this. `trusted`: public keys; null: connections are plain, and nobody is
  // asked for one.
  Gatekeeper(zmq::context_t& context, zmq::socket_t& socket, const std::optional<std::vector<std::string>>& trusted,
             Refusals& refusals);
  ~Gatekeeper();
  Gatekeeper(const Gatekeeper&) = delete;
  Gatekeeper& operator=(const Gatekeeper&) = delete;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace trifold
