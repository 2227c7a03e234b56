#include "parallel/processes/line_socket.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/error.h"

namespace trifold {
namespace {

int open_socket(int family) {
  const int descriptor = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) fail_runtime("cannot open a socket: {}", std::strerror(errno));
  return descriptor;
}

std::string error_text() {
  return std::strerror(errno);
}

// A connection to one of the host's addresses; a descriptor of -1 and why not, if there is none.
LineSocket try_to_connect(const std::string& host, int port, std::string* why_not) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0) {
    *why_not = ::gai_strerror(error);
    return LineSocket(-1);
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, ::freeaddrinfo);
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    LineSocket socket(open_socket(address->ai_family));
    if (::connect(socket.descriptor(), address->ai_addr, address->ai_addrlen) == 0) return socket;
    *why_not = error_text();
  }
  return LineSocket(-1);
}

}  // namespace

LineSocket::~LineSocket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

LineSocket::LineSocket(LineSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), begun_(std::move(other.begun_)) {}

LineSocket& LineSocket::operator=(LineSocket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(begun_, other.begun_);
  return *this;
}

bool LineSocket::send(const std::string& line) {
  const std::string bytes = line + '\n';
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = ::send(descriptor_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

bool LineSocket::receive(std::vector<std::string>& lines) {
  char bytes[4096];
  ssize_t count = -1;
  do count = ::recv(descriptor_, bytes, sizeof bytes, 0);
  while (count < 0 && errno == EINTR);
  if (count <= 0) return false;
  begun_.append(bytes, static_cast<std::size_t>(count));
  for (std::size_t end = begun_.find('\n'); end != std::string::npos; end = begun_.find('\n')) {
    lines.push_back(begun_.substr(0, end));
    begun_.erase(0, end + 1);
  }
  return true;
}

LineListener::LineListener(const Args& args) : socket_(open_socket(AF_INET)) {
  const int yes = 1;
  ::setsockopt(socket_.descriptor(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(args.port));
  address.sin_addr.s_addr = htonl(args.this_machine_only ? INADDR_LOOPBACK : INADDR_ANY);
  if (::bind(socket_.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    fail_runtime("cannot listen at port {} for the other processes: {}; choose another port", args.port, error_text());
  if (::listen(socket_.descriptor(), SOMAXCONN) != 0) fail_runtime("cannot listen: {}", error_text());
  socklen_t size = sizeof address;
  ::getsockname(socket_.descriptor(), reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
}

LineSocket LineListener::accept(std::chrono::milliseconds patience) {
  pollfd event{socket_.descriptor(), POLLIN, 0};
  int ready = -1;
  do ready = ::poll(&event, 1, static_cast<int>(patience.count()));
  while (ready < 0 && errno == EINTR);
  if (ready <= 0) fail_runtime("nobody called at port {} for {} s", port_, patience.count() / 1000);
  const int descriptor = ::accept4(socket_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
  if (descriptor < 0) fail_runtime("cannot accept a connection: {}", error_text());
  return LineSocket(descriptor);
}

LineSocket connect_to(const std::string& host, int port, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::string why_not;
  for (;;) {
    LineSocket socket = try_to_connect(host, port, &why_not);
    if (socket.descriptor() >= 0) return socket;
    if (std::chrono::steady_clock::now() >= deadline)
      fail_runtime("cannot reach process 0 at {}:{}: {}", host, port, why_not);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace trifold
