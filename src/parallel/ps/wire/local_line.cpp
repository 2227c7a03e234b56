#include "parallel/ps/wire/local_line.h"

#include <algorithm>
#include <cstddef>

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.hpp>

namespace trifold {
namespace {

constexpr std::string_view kLocalScheme = "ipc://@";  // @: an abstract name

// Messages that wait where they are received, without a bound: when the other end of a Unix socket is closed while
// ZeroMQ (4.3.4) does not read from it, since enough wait, it forgets what it has not read. So nothing here keeps a
// process of this user from sending more than is read; members do not, as far as they wait for answers, but what waits
// is memory besides the copy that its sender keeps.
constexpr int kAnyNumber = 0;

std::string local_name(const TcpAddress& where) {
  return "trifold/" + where.host + ":" + where.port;
}

std::string local_endpoint(const TcpAddress& where) {
  return std::string(kLocalScheme) + local_name(where);
}

// Anybody could have taken the name: the kernel knows who answers.
bool same_user_listens(const TcpAddress& where) {
  const std::string name = local_name(where);
  ::sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  if (name.size() + 1 > sizeof address.sun_path) return false;
  std::ranges::copy(name, address.sun_path + 1);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket < 0) return false;
  const auto length = static_cast<::socklen_t>(offsetof(::sockaddr_un, sun_path) + 1 + name.size());
  ::ucred peer = {};
  ::socklen_t size = sizeof peer;
  const bool listens = ::connect(socket, reinterpret_cast<const ::sockaddr*>(&address), length) == 0 &&
                       ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
  ::close(socket);
  return listens;
}

}  // namespace

bool is_local_endpoint(std::string_view endpoint) {
  return endpoint.starts_with(kLocalScheme);
}

void listen_locally(zmq::socket_t& socket, const TcpAddress& where) {
  const ::uid_t self = ::geteuid();
  if (zmq_setsockopt(socket.handle(), ZMQ_IPC_FILTER_UID, &self, sizeof self) != 0) return;
  socket.set(zmq::sockopt::rcvhwm, kAnyNumber);
  try {
    socket.bind(local_endpoint(where));
  } catch (const zmq::error_t& error) {
    spdlog::debug("cannot listen on '{}': {}", local_endpoint(where), error.what());
  }
}

bool connect_locally(zmq::socket_t& socket, const TcpAddress& where) {
  if (!same_user_listens(where)) return false;
  socket.set(zmq::sockopt::rcvhwm, kAnyNumber);
  socket.connect(local_endpoint(where));
  return true;
}

}  // namespace trifold
