// Memory that processes of one user share: who may read it, and when a block is written again.
#include "parallel/servers/wire/shared_memory.h"

#include <algorithm>
#include <csignal>
#include <cstdio>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "parallel/servers/wire/wire_fixture.h"

namespace trifold {
namespace {

using namespace test;

class SharedMemoryTest : public SharingTest {};

constexpr std::size_t kMost = 64;  // blocks

bool same(const std::optional<Payload>& found, const Payload& sent) {
  return found && std::ranges::equal(found->bytes(), sent.bytes());
}

TEST_F(SharedMemoryTest, WhatIsLentIsReadWhereItIs) {
  const auto blocks = SharedBlocks::make(3);
  ASSERT_TRUE(blocks);
  const auto view = SharedView::open(blocks->offer(), kMost);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->id(), blocks->offer().id);
  EXPECT_FALSE(view->abandoned());
  const Payload short_one = pattern(100), long_one = pattern(kSharedBlockBytes);
  const auto first = blocks->lend(short_one), second = blocks->lend(long_one);
  ASSERT_TRUE(first && second);
  EXPECT_TRUE(same(view->payload(*first, 100), short_one));
  EXPECT_TRUE(same(view->payload(*second, kSharedBlockBytes), long_one));
  EXPECT_FALSE(blocks->lend(pattern(kSharedBlockBytes + 1)));
  EXPECT_FALSE(view->payload(3, 100));
  EXPECT_FALSE(view->payload(0, kSharedBlockBytes + 1));
}

TEST_F(SharedMemoryTest, ABlockIsWrittenAgainWhenNobodyReadsIt) {
  const auto blocks = SharedBlocks::make(2);
  const auto view = SharedView::open(blocks->offer(), kMost);
  const Payload one = pattern(1000), two = pattern(2000), three = pattern(3000);
  const auto first = blocks->lend(one), second = blocks->lend(two);
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, *second);
  std::optional<Payload> read = view->payload(*first, 1000);
  EXPECT_FALSE(blocks->lend(three));
  EXPECT_TRUE(same(read, one));
  read.reset();
  EXPECT_EQ(blocks->lend(three), first);
  EXPECT_TRUE(same(view->payload(*first, 3000), three));
  EXPECT_TRUE(same(view->payload(*second, 2000), two));
}

TEST_F(SharedMemoryTest, OnePayloadForSeveralIsOneBlockUntilTheLastLetsGo) {
  const auto blocks = SharedBlocks::make(1);
  const auto view = SharedView::open(blocks->offer(), kMost);
  std::optional<Payload> payload = pattern(1000);
  const auto block = blocks->lend(*payload);
  ASSERT_TRUE(block);
  EXPECT_EQ(blocks->lend(*payload), block);
  EXPECT_EQ(blocks->lend(*payload), block);
  blocks->take_back(*block);
  EXPECT_FALSE(blocks->lend(payload->part(0, 500)));  // that would be another
  payload.reset();
  std::optional<Payload> first = view->payload(*block, 1000), second = view->payload(*block, 1000);
  first.reset();
  EXPECT_FALSE(blocks->lend(pattern(10)));
  second.reset();
  EXPECT_TRUE(blocks->lend(pattern(10)));
}

// The memory of another payload that lies where one lay before is not taken for it.
TEST_F(SharedMemoryTest, WhatLiesInTheSamePlaceIsNotTheSame) {
  const auto blocks = SharedBlocks::make(2);
  const auto view = SharedView::open(blocks->offer(), kMost);
  std::vector<std::byte> bytes(100, std::byte{1});
  const auto payload_of_now = [&] { return Payload(std::make_shared<int>(0), bytes); };
  const auto first = blocks->lend(payload_of_now());
  bytes.assign(100, std::byte{2});
  const auto second = blocks->lend(payload_of_now());
  ASSERT_TRUE(first && second);
  EXPECT_EQ(view->payload(*first, 100)->bytes()[0], std::byte{1});
  EXPECT_EQ(view->payload(*second, 100)->bytes()[0], std::byte{2});
}

TEST_F(SharedMemoryTest, OnlySuchMemoryIsMapped) {
  const auto blocks = SharedBlocks::make(2);
  const SharedMemoryOffer good = blocks->offer();
  const auto opens = [&](auto change, std::size_t most = kMost) {
    SharedMemoryOffer offer = good;
    change(offer);
    return SharedView::open(offer, most) != nullptr;
  };
  const auto no_change = [](SharedMemoryOffer&) {};
  EXPECT_TRUE(opens(no_change));
  EXPECT_FALSE(opens(no_change, 1));
  EXPECT_FALSE(opens([](SharedMemoryOffer& offer) { offer.id += 1; }));
  EXPECT_FALSE(opens([](SharedMemoryOffer& offer) { offer.descriptor = -1; }));
  EXPECT_FALSE(opens([](SharedMemoryOffer& offer) { offer.descriptor = 1 << 20; }));
  EXPECT_FALSE(opens([](SharedMemoryOffer& offer) { offer.process = -1; }));
  EXPECT_FALSE(opens([](SharedMemoryOffer& offer) { offer.process = 1 << 30; }));

  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(opens([&](SharedMemoryOffer& offer) { offer.descriptor = ::fileno(file); }));
  std::fclose(file);
  int ends[2] = {};
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_FALSE(opens([&](SharedMemoryOffer& offer) { offer.descriptor = ends[0]; }));
  for (const int end : ends) ::close(end);
  // A copy of the good one, which anybody could cut off while it is read.
  const int copy = ::memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  struct ::stat size = {};
  ASSERT_EQ(::fstat(good.descriptor, &size), 0);
  std::vector<char> bytes(static_cast<std::size_t>(size.st_size));
  ASSERT_EQ(::pread(good.descriptor, bytes.data(), bytes.size(), 0), size.st_size);
  ASSERT_EQ(::write(copy, bytes.data(), bytes.size()), size.st_size);
  EXPECT_FALSE(opens([&](SharedMemoryOffer& offer) { offer.descriptor = copy; }));
  ASSERT_EQ(::fcntl(copy, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_TRUE(opens([&](SharedMemoryOffer& offer) { offer.descriptor = copy; }));
  ::close(copy);
}

// A process that offers memory, with a payload in its first block, until it is ended.
class OtherProcess {
 public:
  explicit OtherProcess(::uid_t user = ::geteuid()) {
    int ends[2] = {};
    EXPECT_EQ(::pipe(ends), 0);
    id_ = ::fork();
    if (id_ == 0) {
      if (user != ::geteuid() && ::setresuid(user, user, user) != 0) ::_exit(1);
      const auto blocks = SharedBlocks::make(2);
      const Payload payload = pattern(1000);
      if (!blocks || !blocks->lend(payload)) ::_exit(1);
      const SharedMemoryOffer offer = blocks->offer();
      if (::write(ends[1], &offer, sizeof offer) != sizeof offer) ::_exit(1);
      for (;;) ::pause();
    }
    EXPECT_EQ(::read(ends[0], &offer_, sizeof offer_), static_cast<::ssize_t>(sizeof offer_));
    for (const int end : ends) ::close(end);
  }
  ~OtherProcess() { end(); }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  const SharedMemoryOffer& offer() const { return offer_; }
  void end() {
    if (id_ <= 0) return;
    ::kill(id_, SIGKILL);
    ::waitpid(std::exchange(id_, 0), nullptr, 0);
  }

 private:
  ::pid_t id_ = 0;
  SharedMemoryOffer offer_;
};

TEST_F(SharedMemoryTest, OutlivesTheProcessThatMadeIt) {
  OtherProcess other;
  const auto view = SharedView::open(other.offer(), kMost);
  ASSERT_TRUE(view);
  EXPECT_FALSE(view->abandoned());
  const std::optional<Payload> read = view->payload(0, 1000);
  other.end();
  EXPECT_TRUE(view->abandoned());
  EXPECT_TRUE(same(read, pattern(1000)));
  EXPECT_FALSE(SharedView::open(other.offer(), kMost));
}

TEST_F(SharedMemoryTest, OfAnotherUserIsNotMapped) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const OtherProcess other(65534);
  EXPECT_FALSE(SharedView::open(other.offer(), kMost));
}

}  // namespace
}  // namespace trifold
