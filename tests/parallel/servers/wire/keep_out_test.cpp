// Who and what should not come in: wrong keys and none, garbage, other versions, frames cut, too large or replayed, and
// callers that only hold the line. Each is counted and dropped, and members in good standing notice nothing.
#include <atomic>

#include "core/error.h"
#include "parallel/servers/wire/frame.h"
#include "parallel/servers/wire/keep_out_fixture.h"

namespace trifold {
namespace {

using namespace test;

TEST_F(KeepOutTest, MembersWithKeysAreLetIn) {
  Mailbox server = listening();
  expect_service(server);
  EXPECT_EQ(server.counts().refused, 0u);
}

TEST_F(KeepOutTest, AKeyThatIsNotTrustedIsRefused) {
  Mailbox server = listening();
  Mailbox stranger({.credentials = credentials(stranger_)});
  stranger.send(stranger.connect(server.address(), server_.public_key), request(1));
  expect_refusals(server, 1);
  expect_service(server);
}

TEST_F(KeepOutTest, NoKeyIsRefused) {
  Mailbox server = listening();
  Mailbox plain({});
  plain.send(plain.connect(server.address()), request(1));
  expect_refusals(server, 1);
  expect_service(server);
}

// Somebody else answers at a server's address.
TEST_F(KeepOutTest, AServerWithoutItsKeyIsToldNothing) {
  Credentials false_one = credentials(stranger_);
  Mailbox impostor({.listen = kAnyPort, .credentials = false_one});
  Mailbox client({.credentials = credentials(member_)});
  client.send(client.connect(impostor.address(), server_.public_key), request(1));
  expect_refusals(impostor, 1);
}

TEST_F(KeepOutTest, OnlyTrustedMembersAreCalled) {
  Mailbox client({.credentials = credentials(member_)});
  EXPECT_THROW(client.connect("tcp://127.0.0.1:5", stranger_.public_key), Error);
  EXPECT_THROW(client.connect("tcp://127.0.0.1:5"), Error);
  Mailbox plain({});
  EXPECT_THROW(plain.connect("tcp://127.0.0.1:5", server_.public_key), Error);
}

std::string noise_bytes() {
  std::string noise;
  std::uint32_t state = 5;
  for (int i = 0; i < 100'000; ++i) noise += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return noise;
}

TEST_F(KeepOutTest, GarbageOverTcpIsCutOff) {
  Mailbox server = listening(1s);
  const std::string noise = noise_bytes();
  const std::string greeting = std::string("\xFF\0\0\0\0\0\0\0\x01\x7F\x03\x00", 12) + "CURVE" + std::string(47, '\0');
  for (const std::string& bytes :
       {noise, std::string("GET / HTTP/1.1\r\n\r\n"), greeting + noise, greeting + TcpPeer::part("", false, ~0ull)}) {
    const TcpPeer peer(server.address());
    peer.send(bytes);
    EXPECT_TRUE(peer.is_cut_off(5s)) << bytes.substr(0, 20);
  }
  expect_refusals(server, 4);
  expect_service(server);
}

TEST_F(KeepOutTest, WithoutKeysGarbageIsDroppedToo) {
  Mailbox server({.listen = kAnyPort, .handshake = 1s});
  const std::string noise = noise_bytes();
  for (std::size_t i = 0; i < 50; ++i) {
    const TcpPeer peer(server.address());
    if (i % 2 == 0) peer.shake_hands();
    peer.send(noise.substr(i));
  }
  EXPECT_FALSE(server.receive(100ms));
  EXPECT_EQ(server.counts().received_bytes, 0u);
  EXPECT_GT(server.counts().refused, 0u);
  Mailbox client({});
  expect_service(server, client, client.connect(server.address()));
}

TEST_F(KeepOutTest, WhatARecordedConnectionSaidCountsForNothingOnANewOne) {
  Mailbox server = listening(1s);
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ::sockaddr_in own = {};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::socklen_t length = sizeof own;
  ASSERT_EQ(::bind(listener, reinterpret_cast<const ::sockaddr*>(&own), sizeof own), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<::sockaddr*>(&own), &length), 0);

  std::string recorded;
  std::atomic<bool> enough = false;
  std::thread between([&] {
    const TcpPeer client(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    const TcpPeer onward(server.address());
    while (!enough) {
      const std::string said = client.receive(2ms);
      recorded += said;
      onward.send(said);
      client.send(onward.receive(2ms));
    }
  });
  {
    Mailbox client({.credentials = credentials(member_)});
    expect_service(server, client,
                   client.connect("tcp://127.0.0.1:" + std::to_string(ntohs(own.sin_port)), server_.public_key));
  }
  enough = true;
  between.join();
  ::close(listener);

  ASSERT_GT(recorded.size(), 10'000u);
  const std::uint64_t refused = server.counts().refused;
  const TcpPeer replayed(server.address());
  replayed.send(recorded);
  EXPECT_TRUE(replayed.is_cut_off(5s));
  EXPECT_FALSE(server.receive(50ms));
  EXPECT_TRUE(comes_true(server, [&] { return server.counts().refused > refused; }));
  expect_service(server);
}

// On an open connection: each is dropped, and the next good message of the same peer is taken.
TEST_F(KeepOutTest, BadFramesAreDroppedAndTheNextGoodOneTaken) {
  Mailbox server({.listen = kAnyPort});
  const TcpPeer peer(server.address());
  peer.shake_hands();
  const Frame good = encode_frame(request(5, pattern(3000)));
  Frame other_version = good, damaged = good, cut_head = good, cut_payload = good;
  other_version.head[4] ^= std::byte{2};
  damaged.head[kHeaderBytes + 1] ^= std::byte{1};
  cut_head.head.resize(20);
  cut_payload.payload = good.payload.part(0, 2999);
  // A payload that is elsewhere is sent as a place, which this is not.
  const Frame nowhere = encode_frame(request(5, pattern(3000)), PayloadForm::elsewhere);
  for (const Frame& frame : {other_version, damaged, cut_head, cut_payload, nowhere})
    ASSERT_TRUE(peer.send(on_the_wire(frame)));
  ASSERT_TRUE(peer.send(TcpPeer::part("", false)));
  // The first parts alone would be a good message.
  std::string many_parts = TcpPeer::part(text_of(good.head), true) + TcpPeer::part(text_of(good.payload.bytes()), true);
  for (int i = 0; i < 100; ++i) many_parts += TcpPeer::part("x", i < 99);
  ASSERT_TRUE(peer.send(many_parts));
  expect_refusals(server, 7);
  ASSERT_TRUE(peer.send(on_the_wire(good)));
  const auto got = server.receive(5s);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->message.fields["id"], 5);
  EXPECT_EQ(server.counts().refused, 7u);
}

TEST_F(KeepOutTest, AFrameTooLargeIsCutOffBeforeItTakesMemory) {
  Mailbox server({.listen = kAnyPort, .largest_message = std::size_t{8} << 20});
  const std::size_t before = resident_bytes();
  const std::string block(std::size_t{1} << 20, 'x');
  for (const std::uint64_t said : {std::uint64_t{9} << 20, std::uint64_t{1} << 30, std::uint64_t{1} << 62}) {
    const TcpPeer peer(server.address());
    peer.shake_hands();
    peer.send(TcpPeer::part(block, false, said));
    for (int i = 0; i < 50 && peer.send(block); ++i) continue;
    EXPECT_TRUE(peer.is_cut_off(5s)) << said;
  }
  EXPECT_LT(resident_bytes(), before + (std::size_t{32} << 20));
  EXPECT_FALSE(server.receive(20ms));
  EXPECT_EQ(server.counts().received_bytes, 0u);
}

// Many callers that never finish their first word: dropped when their time is up, and in the meantime a member's
// messages go on as if they were not there.
TEST_F(KeepOutTest, CallersThatOnlyHoldTheLineAreDroppedAndDisturbNobody) {
  Mailbox server = listening(1500ms);
  Mailbox client({.credentials = credentials(member_)});
  const PeerId peer = client.connect(server.address(), server_.public_key);
  std::vector<TcpPeer> idlers;
  for (int i = 0; i < 200; ++i) idlers.emplace_back(server.address());
  const std::string greeting = std::string("\xFF\0\0\0\0\0\0\0\x01\x7F\x03\x00", 12) + "CURVE" + std::string(47, '\0');
  std::atomic<bool> done = false;
  std::thread slow([&] {
    for (std::size_t at = 0; !done && at < greeting.size(); ++at) {
      for (const TcpPeer& idler : idlers) idler.send(greeting.substr(at, 1));
      std::this_thread::sleep_for(250ms);
    }
  });
  for (int i = 0; i < 50; ++i) expect_service(server, client, peer);
  EXPECT_TRUE(comes_true(server, [&] { return server.counts().refused >= idlers.size(); }));
  expect_service(server, client, peer);
  done = true;
  slow.join();
  for (const TcpPeer& idler : idlers) EXPECT_TRUE(idler.is_cut_off(1s));
}

}  // namespace
}  // namespace trifold
