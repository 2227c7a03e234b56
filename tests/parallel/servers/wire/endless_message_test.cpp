// Messages of endlessly many parts, which ZeroMQ would keep all of: whoever sends one is cut off, and members in good
// standing, whose messages are large, slow or wait, notice nothing.
#include <algorithm>
#include <atomic>

#include <zmq.hpp>

#include "parallel/servers/wire/keep_out_fixture.h"

namespace trifold {
namespace {

using namespace test;

using EndlessMessageTest = KeepOutTest;

struct Siege {
  bool sent_all = false;
  std::size_t most_memory = 0;  // bytes beyond those before
};

constexpr std::size_t kMiB = std::size_t{1} << 20;
// Sanitizers keep notes on all memory.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kWithNotes = 6;
#else
constexpr std::size_t kWithNotes = 1;
#endif

// The peer sends the block so many times, or until it is cut off.
template <class Meanwhile>
Siege besiege(const TcpPeer& peer, const std::string& block, int times, Meanwhile meanwhile) {
  Siege siege;
  const std::size_t before = resident_bytes();
  std::atomic<bool> done = false;
  std::thread sender([&] {
    siege.sent_all = true;
    for (int i = 0; siege.sent_all && i < times; ++i) siege.sent_all = peer.send(block);
    done = true;
  });
  while (!done) {
    meanwhile();
    siege.most_memory = std::max(siege.most_memory, std::max(resident_bytes(), before) - before);
  }
  sender.join();
  return siege;
}

std::string repeated(const std::string& part, std::size_t bytes) {
  std::string block;
  while (block.size() < bytes) block += part;
  return block;
}

// With 1 MiB for a payload, 6 MiB may come before a message ends: a head, a payload, and 1 MiB of slack. Parts take
// up at most 32 times what they are on the wire: those that are empty.
TEST_F(EndlessMessageTest, IsCutOffBeforeItTakesMemory) {
  struct Case {
    const char* what;
    std::string block;
    int times;
    std::size_t most_memory;
  };
  const std::string large = TcpPeer::part(std::string(kMiB, 'x'), true);
  for (const Case& endless :
       {Case{"large parts", large, 400, 48 * kMiB},
        Case{"empty parts", repeated(std::string("\x01\0", 2), kMiB), 32, 320 * kMiB},
        Case{"parts of 40 bytes", repeated("\x01\x28" + std::string(40, 'x'), kMiB), 64, 64 * kMiB}}) {
    SCOPED_TRACE(endless.what);
    Mailbox server({.listen = kAnyPort, .largest_message = kMiB});
    Mailbox client({});
    const PeerId member = client.connect(server.address());
    expect_service(server, client, member);
    const TcpPeer peer(server.address());
    peer.shake_hands();
    const Siege siege = besiege(peer, endless.block, endless.times, [&] { expect_service(server, client, member); });
    EXPECT_FALSE(siege.sent_all);
    EXPECT_TRUE(peer.is_cut_off(5s));
    EXPECT_LT(siege.most_memory, endless.most_memory * kWithNotes);
    EXPECT_EQ(server.counts().refused, 1u);
    expect_service(server, client, member);
  }
}

// Nobody knows then whether messages wait that are complete: the most that could wait may come.
TEST_F(EndlessMessageTest, IsCutOffWhileNobodyReceives) {
  Mailbox server({.listen = kAnyPort, .largest_message = kMiB});
  const TcpPeer peer(server.address());
  peer.shake_hands();
  const Siege siege =
      besiege(peer, TcpPeer::part(std::string(kMiB, 'x'), true), 400, [&] { std::this_thread::sleep_for(1ms); });
  EXPECT_FALSE(siege.sent_all);
  EXPECT_TRUE(peer.is_cut_off(5s));
  EXPECT_LT(siege.most_memory, 160 * kMiB * kWithNotes);
  EXPECT_EQ(server.counts().refused, 1u);
}

// Of parts that come one by one each would hold on to all that could have been read with it.
TEST_F(EndlessMessageTest, PartsThatComeSinglyTakeUpLittleMoreThanTheyAre) {
  Mailbox server({.listen = kAnyPort});
  const TcpPeer peer(server.address());
  peer.shake_hands();
  const std::size_t before = resident_bytes();
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(peer.send("\x01\x28" + std::string(40, 'x')));
    std::this_thread::sleep_for(20us);
  }
  EXPECT_LT(resident_bytes(), before + 16 * kMiB * kWithNotes);
}

TEST_F(EndlessMessageTest, IsCutOffThoughAMemberSendsIt) {
  Mailbox server({.listen = kAnyPort, .credentials = credentials(server_), .largest_message = kMiB});
  zmq::context_t context;
  zmq::socket_t member(context, zmq::socket_type::dealer);
  member.set(zmq::sockopt::linger, 0);
  member.set(zmq::sockopt::curve_serverkey, server_.public_key);
  member.set(zmq::sockopt::curve_publickey, member_.public_key);
  member.set(zmq::sockopt::curve_secretkey, member_.secret_key);
  member.connect(server.address());
  const std::size_t before = resident_bytes();
  std::string bytes(10'000, 'x');
  // ZeroMQ itself sends only messages that have an end: 1 GB, which is not copied.
  for (int i = 100'000; i > 0; --i)
    member.send(zmq::message_t(bytes.data(), bytes.size(), nullptr),
                i > 1 ? zmq::send_flags::sndmore : zmq::send_flags::none);
  expect_refusals(server, 1);
  EXPECT_LT(resident_bytes(), before + 48 * kMiB * kWithNotes);
  expect_service(server);
}

// Members in good standing: a message as large as it may be that comes slowly, and many that wait for their receiver
// together with half of the next.
TEST_F(EndlessMessageTest, LargeMessagesThatComeSlowlyOrWaitAreTaken) {
  Mailbox server({.listen = kAnyPort, .largest_message = 2 * kMiB});
  const TcpPeer peer(server.address());
  peer.shake_hands();
  Message largest = request(5, pattern(2 * kMiB));
  largest.fields["more"] = std::string(kLargestFields - 100, 'x');
  const std::string slow = on_the_wire(encode_frame(largest));
  std::thread sender([&] {
    for (std::size_t at = 0; at < slow.size(); at += slow.size() / 100) {
      peer.send(std::string_view(slow).substr(at, slow.size() / 100));
      std::this_thread::sleep_for(5ms);
    }
  });
  const auto got = server.receive(10s);
  sender.join();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->message.payload.size(), 2 * kMiB);

  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(peer.send(on_the_wire(encode_frame(request(i, pattern(2 * kMiB))))));
    ASSERT_TRUE(peer.send(std::string_view(slow).substr(0, slow.size() / 2)));
    std::this_thread::sleep_for(100ms);
    for (int i = 0; i < 10; ++i) {
      const auto waited = server.receive(10s);
      ASSERT_TRUE(waited);
      EXPECT_EQ(waited->message.fields["id"], i);
    }
    EXPECT_FALSE(server.receive(50ms));
    ASSERT_TRUE(peer.send(std::string_view(slow).substr(slow.size() / 2)));
    EXPECT_TRUE(server.receive(10s));
  }
  EXPECT_EQ(server.counts().refused, 0u);
}

}  // namespace
}  // namespace trifold
