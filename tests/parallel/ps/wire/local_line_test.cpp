// Unix sockets beside ports: who may call there, and that nobody is worse off where there is none.
#include "parallel/ps/wire/local_line.h"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include <sys/un.h>
#include <sys/wait.h>
#include <zmq.hpp>

#include "parallel/ps/wire/wire_fixture.h"

namespace trifold {
namespace {

using namespace test;

::sockaddr_un abstract_name(const std::string& name) {
  ::sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  return address;
}

::socklen_t length_of(const ::sockaddr_un& address) {
  return static_cast<::socklen_t>(offsetof(::sockaddr_un, sun_path) + 1 + std::strlen(address.sun_path + 1));
}

// How the other end was reached, as the one that was called sees it.
std::string way_of(MailboxOptions caller, MailboxOptions called = {.listen = kAnyPort}) {
  Mailbox server(std::move(called));
  Mailbox client(std::move(caller));
  const TcpAddress where = tcp_address_from(server.address());
  client.send(client.connect(server.address()), request(1));
  EXPECT_TRUE(server.receive(5s));
  // Unix sockets of that name that are connected, besides the one that listens.
  std::FILE* table = std::fopen("/proc/net/unix", "r");
  int sockets = 0;
  for (char line[512]; std::fgets(line, sizeof line, table) != nullptr;)
    sockets += std::strstr(line, ("@trifold/" + where.host + ":" + where.port + "\n").c_str()) != nullptr ? 1 : 0;
  std::fclose(table);
  return sockets == 0 ? "tcp, nobody listens locally" : sockets == 1 ? "tcp" : "local";
}

TEST(LocalLine, IsTakenByWhoeverHasNoKeys) {
  EXPECT_EQ(way_of({}), "local");
  EXPECT_EQ(way_of({.local = false}), "tcp");
  EXPECT_EQ(way_of({}, {.listen = kAnyPort, .local = false}), "tcp, nobody listens locally");
}

// Looking whether somebody listens is no attempt at anything.
TEST(LocalLine, ALookIsNotCountedAsRefused) {
  Mailbox server({.listen = kAnyPort});
  for (int i = 0; i < 3; ++i) {
    Mailbox client({});
    client.send(client.connect(server.address()), request(i));
    EXPECT_TRUE(server.receive(5s));
  }
  server.receive(100ms);
  EXPECT_EQ(server.counts().refused, 0u);
}

// Somebody has the name already: members still find each other.
TEST(LocalLine, ATakenNameIsNoHindrance) {
  std::string address;
  { address = Mailbox({.listen = kAnyPort}).address(); }
  const ::sockaddr_un taken = abstract_name("trifold/" + address.substr(std::strlen("tcp://")));
  const int squatter = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // And does not listen.
  ASSERT_EQ(::bind(squatter, reinterpret_cast<const ::sockaddr*>(&taken), length_of(taken)), 0);
  Mailbox server({.listen = address});
  Mailbox client({});
  client.send(client.connect(address), request(7));
  const auto got = server.receive(5s);
  ::close(squatter);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->message.fields["id"], 7);
}

// Another user's process is not called there, and may not call.
TEST(LocalLine, IsOfOneUserOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  Mailbox server({.listen = kAnyPort});
  const TcpAddress where = tcp_address_from(server.address());
  const ::pid_t child = ::fork();
  if (child == 0) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    zmq::context_t context;
    zmq::socket_t socket(context, zmq::socket_type::dealer);
    if (connect_locally(socket, where)) ::_exit(3);
    // By itself it gets no word of greeting.
    const ::sockaddr_un name = abstract_name("trifold/" + where.host + ":" + where.port);
    const int caller = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const ::timeval patience = {.tv_sec = 5, .tv_usec = 0};
    ::setsockopt(caller, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (::connect(caller, reinterpret_cast<const ::sockaddr*>(&name), length_of(name)) != 0) ::_exit(4);
    char greeting = 0;
    ::_exit(::read(caller, &greeting, 1) == 0 || errno == ECONNRESET ? 0 : 5);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace trifold
