// Mailboxes of one machine, which put long payloads into each other's reach instead of sending them.
#include "parallel/servers/wire/payload_sharing.h"

#include <algorithm>

#include "parallel/servers/wire/wire_fixture.h"

namespace trifold {
namespace {

using namespace test;

class PayloadSharingTest : public SharingTest {};

constexpr std::size_t kLong = 100'000;

struct Pair {
  explicit Pair(MailboxOptions of_client = {}, MailboxOptions of_server = {})
      : server([&] {
          of_server.listen = kAnyPort;
          return of_server;
        }()),
        client(std::move(of_client)),
        peer(client.connect(server.address())) {}

  // A payload goes, an answer comes, which is where the client hears that the server reads its memory. What came.
  std::optional<Received> exchange(std::size_t bytes = kLong) {
    EXPECT_TRUE(client.send(peer, request(1, pattern(bytes))));
    std::optional<Received> got = server.receive(10s);
    if (!got) return got;
    EXPECT_TRUE(std::ranges::equal(got->message.payload.bytes(), pattern(bytes).bytes()));
    EXPECT_TRUE(server.send(got->from, {.kind = MessageKind::push_answer}));
    EXPECT_TRUE(client.receive(10s));
    return got;
  }

  Mailbox server;
  Mailbox client;
  PeerId peer;
};

TEST_F(PayloadSharingTest, LongPayloadsAreReadInTheSendersMemory) {
  Pair pair;
  pair.exchange();
  EXPECT_EQ(pair.client.counts().shared_bytes, 0u);  // it asks first
  for (int i = 1; i <= 300; ++i) {
    pair.exchange();
    EXPECT_EQ(pair.client.counts().shared_bytes, i * kLong);  // and uses each block many times
  }
  pair.exchange(1000);
  pair.exchange(kSharedBlockBytes + 1);
  EXPECT_EQ(pair.client.counts().shared_bytes, 300 * kLong);
  EXPECT_EQ(pair.client.counts().sent_bytes, pair.server.counts().received_bytes);
  EXPECT_EQ(pair.server.counts().refused + pair.client.counts().refused, 0u);
}

TEST_F(PayloadSharingTest, AnswersAreSharedToo) {
  Pair pair;
  const std::optional<Received> asked = pair.exchange();
  ASSERT_TRUE(asked);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(pair.server.send(asked->from, request(2, pattern(kLong))));
    const auto got = pair.client.receive(10s);
    ASSERT_TRUE(got);
    EXPECT_TRUE(std::ranges::equal(got->message.payload.bytes(), pattern(kLong).bytes()));
    pair.exchange();
  }
  EXPECT_EQ(pair.server.counts().shared_bytes, 9 * kLong);
}

// TCP would throw away what is unread of somebody who has ended and is spoken to.
TEST_F(PayloadSharingTest, WhoOnlySendsHearsNothingOfItsOffer) {
  Pair pair;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(pair.client.send(pair.peer, request(i, pattern(kLong))));
  std::optional<Received> got;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(got = pair.server.receive(10s));
  EXPECT_FALSE(pair.client.receive(50ms));
  EXPECT_TRUE(pair.client.send(pair.peer, request(20, pattern(kLong))));
  EXPECT_EQ(pair.client.counts().shared_bytes, 0u);
  EXPECT_TRUE(pair.server.send(got->from, request(1)));
  EXPECT_TRUE(pair.client.receive(10s));
  EXPECT_TRUE(pair.client.send(pair.peer, request(21, pattern(kLong))));
  EXPECT_EQ(pair.client.counts().shared_bytes, kLong);
}

TEST_F(PayloadSharingTest, WhereOneSideDoesNotWantItAllIsSent) {
  for (const auto& [of_client, of_server] : std::vector<std::pair<MailboxOptions, MailboxOptions>>{
           {{.shared_blocks = 0}, {}}, {{}, {.shared_blocks = 0}}, {{.compress = true}, {}}}) {
    Pair pair(of_client, of_server);
    for (int i = 0; i < 3; ++i) pair.exchange();
    EXPECT_EQ(pair.client.counts().shared_bytes, 0u);
    EXPECT_EQ(pair.server.counts().refused, 0u);
  }
}

// What the sender takes up is bounded by its blocks, and what the receiver does not read waits with the sender.
TEST_F(PayloadSharingTest, WhenAllBlocksAreReadTheRestIsSent) {
  Pair pair({.shared_blocks = 2});
  pair.exchange();
  std::vector<std::optional<Received>> held;
  for (int i = 0; i < 5; ++i) held.push_back(pair.exchange());
  EXPECT_EQ(pair.client.counts().shared_bytes, 2 * kLong);
  for (const auto& got : held) EXPECT_TRUE(std::ranges::equal(got->message.payload.bytes(), pattern(kLong).bytes()));
  held.clear();
  pair.exchange();
  EXPECT_EQ(pair.client.counts().shared_bytes, 3 * kLong);
}

TEST_F(PayloadSharingTest, WhoDoesNotReadIsNotSentWithoutEnd) {
  Pair pair({.queued_messages = 10, .shared_blocks = 4});
  for (int i = 0; i < 2; ++i) pair.exchange();
  int taken = 0;
  for (int quiet = 0; quiet < 20;) {
    if (pair.client.send(pair.peer, request(taken, pattern(std::size_t{1} << 20))))
      ++taken, quiet = 0;
    else
      ++quiet, std::this_thread::sleep_for(10ms);
    ASSERT_LT(taken, 100);
  }
  EXPECT_EQ(pair.client.counts().shared_bytes, kLong + (std::size_t{4} << 20));
  for (int i = 0; i < taken; ++i) {
    const auto got = pair.server.receive(5s);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->message.fields["id"], i);
    EXPECT_TRUE(std::ranges::equal(got->message.payload.bytes(), pattern(std::size_t{1} << 20).bytes()));
  }
}

TEST_F(PayloadSharingTest, APayloadOutlivesBothMailboxes) {
  std::optional<Received> got;
  {
    Pair pair;
    pair.exchange();
    got = pair.exchange();
    EXPECT_EQ(pair.client.counts().shared_bytes, kLong);
  }
  ASSERT_TRUE(got);
  EXPECT_TRUE(std::ranges::equal(got->message.payload.bytes(), pattern(kLong).bytes()));
}

// A server that is started again knows nothing of the memory: it says so, and is offered it.
TEST_F(PayloadSharingTest, WhoBeginsAnewBehindTheSameAddressIsOfferedItAgain) {
  std::optional<Mailbox> server(std::in_place, MailboxOptions{.listen = kAnyPort});
  const std::string address = server->address();
  Mailbox client({});
  const PeerId peer = client.connect(address);
  const auto goes = [&] {
    EXPECT_TRUE(client.send(peer, request(1, pattern(kLong))));
    const auto got = server->receive(300ms);
    if (got) server->send(got->from, {.kind = MessageKind::push_answer});
    client.receive(300ms);
    return got && std::ranges::equal(got->message.payload.bytes(), pattern(kLong).bytes());
  };
  EXPECT_TRUE(goes());
  EXPECT_TRUE(goes());
  const std::uint64_t before = client.counts().shared_bytes;
  EXPECT_EQ(before, kLong);
  server.reset();
  server.emplace(MailboxOptions{.listen = address});
  const auto until = std::chrono::steady_clock::now() + 10s;
  while (!goes()) ASSERT_LT(std::chrono::steady_clock::now(), until);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(goes());
  EXPECT_GT(client.counts().shared_bytes, before + kLong);  // one was lost, at least
  EXPECT_EQ(server->counts().refused, 0u);
}

// Who ends with blocks in hand takes none of them from the others.
TEST_F(PayloadSharingTest, BlocksOfWhoIsGoneAreReplaced) {
  Mailbox server({.listen = kAnyPort, .shared_blocks = 2});
  Mailbox stays({});
  const PeerId of_stays = stays.connect(server.address());
  const auto caller = [&](Mailbox& client, PeerId peer) {
    EXPECT_TRUE(client.send(peer, request(1)));
    const auto got = server.receive(10s);
    return got ? got->from : 0;
  };
  const PeerId staying = caller(stays, of_stays);
  const auto goes = [&](Mailbox& client, PeerId to) {
    EXPECT_TRUE(server.send(to, request(2, pattern(kLong))));
    auto got = client.receive(10s);
    EXPECT_TRUE(got && client.send(got->from, request(3)));
    EXPECT_TRUE(server.receive(10s));
    return got;
  };
  std::vector<std::optional<Received>> kept;  // to the end, as by one that was killed
  for (int i = 0; i < 5; ++i) {
    std::optional<Mailbox> leaves(std::in_place, MailboxOptions());
    const PeerId leaving = caller(*leaves, leaves->connect(server.address()));
    for (int k = 0; k < 4; ++k) kept.push_back(goes(*leaves, leaving));
    leaves.reset();
    EXPECT_TRUE(comes_true(server, [&] { return !server.send(leaving, request(4)); }));
  }
  goes(stays, staying);
  const std::uint64_t before = server.counts().shared_bytes;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(goes(stays, staying));
  EXPECT_EQ(server.counts().shared_bytes, before + 10 * kLong);
}

TEST_F(PayloadSharingTest, OffersThatMakeNoSenseAreRefused) {
  Pair pair;
  for (const nlohmann::json& fields :
       {nlohmann::json::object(), nlohmann::json{{"memory", "x"}, {"process", 1}, {"descriptor", 3}},
        nlohmann::json{{"memory", 1}, {"process", nullptr}, {"descriptor", 3}}})
    for (const MessageKind kind : {MessageKind::share, MessageKind::share_answer})
      ASSERT_TRUE(pair.client.send(pair.peer, {.kind = kind, .fields = fields}));
  // Not to be had, but well said: declined, and nothing else.
  ASSERT_TRUE(pair.client.send(
      pair.peer, {.kind = MessageKind::share, .fields = {{"memory", 1}, {"process", 1}, {"descriptor", 0}}}));
  pair.exchange();
  EXPECT_EQ(pair.server.counts().refused, 3u);
}

}  // namespace
}  // namespace trifold
