// A quicker way than TCP between processes of one user on one machine: beside its port a member without keys listens on
// a Unix socket whose name says the port. The name is an abstract one (unix(7)), which goes with the process and, like
// the port, belongs to a network namespace. Nobody has to be told: where there is none, or somebody else's, TCP does
// it.
#pragma once

#include <string>
#include <string_view>

#include "parallel/ps/wire/tcp_address.h"

namespace zmq {
class socket_t;
}

namespace trifold {

bool is_local_endpoint(std::string_view endpoint);  // as ZeroMQ names it

// Lets processes of this user, and no others, call by that name too. `where` has its port, which is bound already: what
// is set on the socket here is for the new way only.
void listen_locally(zmq::socket_t& socket, const TcpAddress& where);

// False: no process of this user listens so now, and nothing was done.
bool connect_locally(zmq::socket_t& socket, const TcpAddress& where);

}  // namespace trifold
