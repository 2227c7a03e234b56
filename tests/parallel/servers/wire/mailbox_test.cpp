// Members that speak to each other over loopback, without keys; keep_out_test.cpp has those who should not.
#include "parallel/servers/wire/mailbox.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "parallel/servers/wire/wire_fixture.h"

namespace trifold {
namespace {

using namespace test;

TEST(MailboxTest, AnswersGoBackToWhoAsked) {
  Mailbox server({.listen = kAnyPort});
  Mailbox first({}), second({});
  const PeerId of_first = first.connect(server.address()), of_second = second.connect(server.address());
  ASSERT_TRUE(first.send(of_first, request(1)));
  ASSERT_TRUE(second.send(of_second, request(2)));
  for (int i = 0; i < 2; ++i) {
    const auto got = server.receive(5s);
    ASSERT_TRUE(got);
    ASSERT_TRUE(server.send(got->from, {.kind = MessageKind::push_answer, .fields = got->message.fields}));
  }
  const auto to_first = first.receive(5s), to_second = second.receive(5s);
  ASSERT_TRUE(to_first && to_second);
  EXPECT_EQ(to_first->from, of_first);
  EXPECT_EQ(to_first->message.kind, MessageKind::push_answer);
  EXPECT_EQ(to_first->message.fields["id"], 1);
  EXPECT_EQ(to_second->message.fields["id"], 2);
}

TEST(MailboxTest, PayloadsOfAnySizeComeAsTheyWere) {
  for (const bool compress : {false, true}) {
    Mailbox server({.listen = kAnyPort});
    Mailbox client({.compress = compress});
    const PeerId peer = client.connect(server.address());
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{33}, std::size_t{2049}, std::size_t{8000},
                                    std::size_t{1} << 20, std::size_t{64} << 20}) {
      const Payload sent = pattern(bytes);
      ASSERT_TRUE(client.send(peer, request(1, sent)));
      const auto got = server.receive(20s);
      ASSERT_TRUE(got);
      EXPECT_TRUE(std::ranges::equal(got->message.payload.bytes(), sent.bytes()));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(got->message.payload.bytes().data()) % 8, 0u);
    }
    EXPECT_EQ(client.counts().sent_bytes, server.counts().received_bytes);
    EXPECT_EQ(server.counts().received_bytes < (64u << 20), compress);
  }
}

// ZeroMQ reads the payload on its own thread, later: it lives until then, and not longer.
TEST(MailboxTest, APayloadIsHeldUntilItIsSentAndThenLetGo) {
  Mailbox server({.listen = kAnyPort});
  Mailbox client({});
  const PeerId peer = client.connect(server.address());
  auto values = std::make_shared<const std::vector<std::uint8_t>>(std::size_t{8} << 20, std::uint8_t{7});
  const std::weak_ptr<const void> alive = values;
  Payload payload(values, std::as_bytes(std::span(*values)));
  values.reset();
  ASSERT_TRUE(client.send(peer, request(1, std::exchange(payload, {}))));
  const auto got = server.receive(10s);
  ASSERT_TRUE(got);
  EXPECT_TRUE(std::ranges::all_of(got->message.payload.bytes(), [](std::byte byte) { return byte == std::byte{7}; }));
  EXPECT_TRUE(comes_true(client, [&] { return alive.expired(); }));
}

TEST(MailboxTest, AReceivedPayloadOutlivesItsMailbox) {
  std::optional<Received> got;
  {
    Mailbox server({.listen = kAnyPort});
    Mailbox client({});
    ASSERT_TRUE(client.send(client.connect(server.address()), request(1, pattern(100'000))));
    got = server.receive(10s);
  }
  ASSERT_TRUE(got);
  EXPECT_TRUE(std::ranges::equal(got->message.payload.bytes(), pattern(100'000).bytes()));
}

TEST(MailboxTest, WhatWasSentBeforeTheEndStillGoes) {
  Mailbox server({.listen = kAnyPort});
  const Payload payload = pattern(std::size_t{1} << 20);
  {
    Mailbox client({});
    const PeerId peer = client.connect(server.address());
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(client.send(peer, request(i, payload)));
  }
  for (int i = 0; i < 5; ++i) {
    const auto got = server.receive(5s);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->message.fields["id"], i);
  }
}

TEST(MailboxTest, ManyMessagesKeepTheirOrder) {
  Mailbox server({.listen = kAnyPort});
  const std::jthread sender([address = server.address()](const std::stop_token& stop) {
    Mailbox client({});
    const PeerId peer = client.connect(address);
    for (int i = 0; i < 20'000; ++i)
      while (!client.send(peer, request(i, pattern(static_cast<std::size_t>(i % 50)))) && !stop.stop_requested())
        client.receive(1ms);
  });
  for (int i = 0; i < 20'000; ++i) {
    const auto got = server.receive(10s);
    ASSERT_TRUE(got);
    ASSERT_EQ(got->message.fields["id"], i);
    ASSERT_EQ(got->message.payload.size(), static_cast<std::size_t>(i % 50));
  }
}

TEST(MailboxTest, NobodyIsStarvedByWhoSpeaksAllTheTime) {
  Mailbox hub({.listen = kAnyPort}), quiet({.listen = kAnyPort}), loud({.listen = kAnyPort});
  const PeerId to_loud = hub.connect(loud.address()), to_quiet = hub.connect(quiet.address());
  hub.send(to_quiet, request(0));
  hub.send(to_loud, request(0));
  const auto quiet_knows = quiet.receive(5s), loud_knows = loud.receive(5s);
  ASSERT_TRUE(quiet_knows && loud_knows);
  for (int i = 0; i < 15; ++i) ASSERT_TRUE(loud.send(loud_knows->from, request(i)));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(quiet.send(quiet_knows->from, request(i)));
  std::this_thread::sleep_for(200ms);  // all are there
  int before_last_of_quiet = 0;
  for (int from_quiet = 0; from_quiet < 3;) {
    const auto got = hub.receive(5s);
    ASSERT_TRUE(got);
    if (got->from == to_quiet)
      ++from_quiet;
    else
      ++before_last_of_quiet;
  }
  EXPECT_LE(before_last_of_quiet, 4);
}

TEST(MailboxTest, WakeEndsAReceiveNowOrNextTime) {
  Mailbox mailbox({.listen = kAnyPort});
  mailbox.wake();
  mailbox.wake();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(mailbox.receive(10s));
  std::jthread waker([&] {
    std::this_thread::sleep_for(50ms);
    mailbox.wake();
  });
  EXPECT_FALSE(mailbox.receive(10s));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  waker.join();
  const auto next = std::chrono::steady_clock::now();
  EXPECT_FALSE(mailbox.receive(50ms));  // waits: every wake() was used up
  EXPECT_GE(std::chrono::steady_clock::now() - next, 50ms);
}

TEST(MailboxTest, AConnectionComesBackWhenTheOtherDoes) {
  auto server = std::make_unique<Mailbox>(MailboxOptions{.listen = kAnyPort});
  const std::string address = server->address();
  Mailbox client({});
  const PeerId peer = client.connect(address);
  ASSERT_TRUE(client.send(peer, request(1)));
  const auto before = server->receive(5s);
  ASSERT_TRUE(before);
  server.reset();
  server = std::make_unique<Mailbox>(MailboxOptions{.listen = address});
  // What was under way when the other died may be lost: whoever wants an answer asks again.
  std::optional<Received> after;
  for (int id = 2; id < 100 && !after; ++id) {
    client.send(peer, request(id));
    after = server->receive(100ms);
  }
  ASSERT_TRUE(after);
  ASSERT_TRUE(server->send(after->from, request(1000)));
  const auto answer = client.receive(5s);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->from, peer);
}

TEST(MailboxTest, WhoIsNotThereYetGetsItsMessagesLater) {
  std::string address;
  { address = Mailbox({.listen = kAnyPort}).address(); }
  Mailbox client({});
  ASSERT_TRUE(client.send(client.connect(address), request(5)));
  std::this_thread::sleep_for(50ms);
  Mailbox server({.listen = address});
  const auto got = server.receive(10s);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->message.fields["id"], 5);
}

TEST(MailboxTest, SendingToWhoIsGoneOrTakesNothingFails) {
  Mailbox server({.listen = kAnyPort});
  PeerId gone = 0;
  {
    Mailbox client({});
    client.send(client.connect(server.address()), request(1));
    const auto got = server.receive(5s);
    ASSERT_TRUE(got);
    gone = got->from;
  }
  EXPECT_TRUE(comes_true(server, [&] { return !server.send(gone, request(2)); }));
  EXPECT_FALSE(server.send(12345, request(2)));

  Mailbox client({.queued_messages = 5});
  const PeerId nobody = client.connect("tcp://127.0.0.1:1");
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(client.send(nobody, request(i)));
  EXPECT_FALSE(client.send(nobody, request(5)));
  client.disconnect(nobody);
  EXPECT_FALSE(client.send(nobody, request(6)));
}

// What waits on the receiving side is bounded: the rest stays with who sent it.
TEST(MailboxTest, ASlowReceiverDoesNotGatherWhatItDoesNotRead) {
  Mailbox server({.listen = kAnyPort});
  Mailbox client({.queued_messages = 10});
  const PeerId peer = client.connect(server.address());
  const Payload payload = pattern(std::size_t{1} << 20);
  int taken = 0;
  for (int quiet = 0; quiet < 20;) {
    if (client.send(peer, request(taken, payload)))
      ++taken, quiet = 0;
    else
      ++quiet, std::this_thread::sleep_for(10ms);
    ASSERT_LT(taken, 100);
  }
  for (int i = 0; i < taken; ++i) {
    const auto got = server.receive(5s);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->message.fields["id"], i);
  }
}

// ZeroMQ (4.3.4) would abort if it pinged a peer that is gone while it does not read from it, since enough waits.
TEST(MailboxTest, WhoEndsWhileNobodyReadsDoesNoHarm) {
  Mailbox server({.listen = kAnyPort});
  const Payload payload = pattern(std::size_t{64} << 10);
  {
    Mailbox client({});
    const PeerId peer = client.connect(server.address());
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(client.send(peer, request(i, payload)));
  }
  std::this_thread::sleep_for(6s);
  for (int i = 0; i < 16; ++i) {
    const auto got = server.receive(5s);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->message.fields["id"], i);
  }
}

TEST(MailboxTest, TooLargeAMessageIsNotSent) {
  Mailbox client({.largest_message = 1000});
  const PeerId peer = client.connect("tcp://127.0.0.1:1");
  EXPECT_TRUE(client.send(peer, request(1, pattern(1000))));
  EXPECT_THROW(client.send(peer, request(1, pattern(1001))), Error);
}

TEST(MailboxTest, WithoutKeysOnlyThisMachineIsSpokenTo) {
  for (const char* address : {"tcp://*:*", "tcp://0.0.0.0:*", "tcp://10.0.0.1:5555"}) {
    EXPECT_THROW(Mailbox({.listen = address}), Error) << address;
    Mailbox client({});
    EXPECT_THROW(client.connect(address), Error) << address;
  }
  Mailbox client({});
  try {
    client.connect("tcp://10.0.0.1:5555");
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    EXPECT_NE(std::string(error.what()).find("trifold keys"), std::string::npos) << error.what();
  }
}

TEST(MailboxTest, AnAddressInUseIsAnError) {
  const Mailbox first({.listen = kAnyPort});
  EXPECT_THROW(Mailbox({.listen = first.address()}), Error);
}

}  // namespace
}  // namespace trifold
