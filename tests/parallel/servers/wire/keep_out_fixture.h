// A mailbox that others call, one member with a key, and a stranger: what tests of who is kept out share.
#pragma once

#include <fstream>

#include "parallel/servers/wire/frame.h"
#include "parallel/servers/wire/keys.h"
#include "parallel/servers/wire/wire_fixture.h"

namespace trifold::test {

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A frame as ZeroMQ sends it.
inline std::string on_the_wire(const Frame& frame) {
  return TcpPeer::part(text_of(frame.head), true) + TcpPeer::part(text_of(frame.payload.bytes()), false);
}

inline std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

class KeepOutTest : public ::testing::Test {
 protected:
  Credentials credentials(const KeyPair& own) const {
    return {.own = own, .trusted = {server_.public_key, member_.public_key}};
  }
  Mailbox listening(std::chrono::milliseconds handshake = 5s) const {
    return Mailbox({.listen = kAnyPort, .credentials = credentials(server_), .handshake = handshake});
  }
  // A member in good standing is heard and answered.
  void expect_service(Mailbox& server) const {
    Mailbox client({.credentials = credentials(member_)});
    expect_service(server, client, client.connect(server.address(), server_.public_key));
  }
  static void expect_service(Mailbox& server, Mailbox& client, PeerId peer) {
    ASSERT_TRUE(client.send(peer, request(77, pattern(10'000))));
    const auto got = server.receive(10s);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->message.fields["id"], 77);
    ASSERT_TRUE(server.send(got->from, request(78)));
    const auto answer = client.receive(10s);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->message.fields["id"], 78);
  }
  // Nothing of it is received.
  static void expect_refusals(Mailbox& server, std::uint64_t count) {
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (server.counts().refused < count && std::chrono::steady_clock::now() < until)
      ASSERT_FALSE(server.receive(10ms));
    EXPECT_GE(server.counts().refused, count);
    EXPECT_EQ(server.counts().received_bytes, 0u);
  }

  KeyPair server_ = make_key_pair(), member_ = make_key_pair(), stranger_ = make_key_pair();
};

}  // namespace trifold::test
