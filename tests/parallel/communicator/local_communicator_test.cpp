#include "parallel/communicator/local_communicator.h"

#include <functional>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/philox.h"
#include "parallel/processes/wait_board.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;

// Runs a function on each rank's thread; what each threw, "" where nothing.
std::vector<std::string> run_ranks(const LocalGroupOptions& options, const std::function<void(Communicator&)>& body) {
  const auto group = make_local_group(options);
  std::vector<std::string> errors(group.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < group.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        body(*group[i]);
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::rank_lost);
        errors[i] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

std::vector<float> numbers_of(int rank, std::size_t count) {
  RandomSequence random(11, Purpose::synthetic, static_cast<std::uint32_t>(rank));
  std::vector<float> numbers(count);
  for (float& number : numbers) number = random.uniform(-1, 1);
  return numbers;
}

// In the order of ranks, in float: what every rank must get, to the bit.
std::vector<float> sum_of(int ranks, std::size_t count) {
  std::vector<float> sum = numbers_of(0, count);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::vector<float> term = numbers_of(rank, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += term[i];
  }
  return sum;
}

template <class T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

class LocalCommunicatorTest : public testing::TestWithParam<int> {
 protected:
  int ranks() const { return GetParam(); }
  void run(const std::function<void(Communicator&)>& body) const {
    for (const std::string& error : run_ranks({.size = ranks()}, body)) EXPECT_EQ(error, "");
  }
};

// Nothing, less than a chunk, exactly one, many and a bit.
const std::vector<std::size_t> kCounts = {0, 1, 1000, 16384, 40001};

TEST_P(LocalCommunicatorTest, AllReduceGivesEveryRankTheSameBits) {
  for (const std::size_t count : kCounts) {
    const std::vector<float> expected = sum_of(ranks(), count);
    run([&](Communicator& mine) {
      std::vector<float> data = numbers_of(mine.rank(), count);
      mine.wait(mine.all_reduce(data));
      EXPECT_EQ(data, expected) << count;
    });
  }
}

TEST_P(LocalCommunicatorTest, ReduceScatterAndAllGatherAreItsHalves) {
  for (const std::size_t count : kCounts) {
    const std::size_t all = count * static_cast<std::size_t>(ranks());
    const std::vector<float> expected = sum_of(ranks(), all);
    run([&](Communicator& mine) {
      const std::vector<float> data = numbers_of(mine.rank(), all);
      std::vector<float> part(count);
      mine.wait(mine.reduce_scatter(data, part));
      std::vector<float> gathered(all);
      mine.wait(mine.all_gather(bytes_of(part), bytes_of(gathered)));
      EXPECT_EQ(gathered, expected) << count;
    });
  }
}

TEST_P(LocalCommunicatorTest, APartMayLieInItsPlaceOfTheWhole) {
  run([&](Communicator& mine) {
    std::vector<int> all(static_cast<std::size_t>(ranks()), -1);
    all[static_cast<std::size_t>(mine.rank())] = mine.rank();
    const auto part = bytes_of(all).subspan(static_cast<std::size_t>(mine.rank()) * sizeof(int), sizeof(int));
    mine.wait(mine.all_gather(part, bytes_of(all)));
    std::vector<int> expected(all.size());
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  });
}

TEST_P(LocalCommunicatorTest, BroadcastsFromAnyRank) {
  for (int root = 0; root < ranks(); ++root)
    run([&](Communicator& mine) {
      std::vector<float> data = numbers_of(mine.rank(), 20000);
      mine.wait(mine.broadcast(bytes_of(data), root));
      EXPECT_EQ(data, numbers_of(root, 20000));
    });
}

TEST_P(LocalCommunicatorTest, AllToAllTransposes) {
  run([&](Communicator& mine) {
    std::vector<int> from(static_cast<std::size_t>(ranks()));
    for (std::size_t to = 0; to < from.size(); ++to) from[to] = 100 * mine.rank() + static_cast<int>(to);
    std::vector<int> to(from.size());
    mine.wait(mine.all_to_all(bytes_of(from), bytes_of(to)));
    for (std::size_t peer = 0; peer < to.size(); ++peer)
      EXPECT_EQ(to[peer], 100 * static_cast<int>(peer) + mine.rank());
  });
}

TEST_P(LocalCommunicatorTest, MessagesArriveInOrder) {
  run([&](Communicator& mine) {
    const int next = (mine.rank() + 1) % ranks();
    const int before = (mine.rank() + ranks() - 1) % ranks();
    std::vector<std::vector<float>> sent, received;
    std::vector<Ticket> tickets;
    for (std::size_t i = 0; i < 20; ++i) {
      sent.push_back(numbers_of(mine.rank(), 10 * i + 1));
      received.emplace_back(10 * i + 1);
    }
    for (std::size_t i = 0; i < sent.size(); ++i) tickets.push_back(mine.send(bytes_of(sent[i]), next));
    for (auto& each : received) tickets.push_back(mine.receive(bytes_of(each), before));
    for (const Ticket& ticket : tickets) mine.wait(ticket);
    for (std::size_t i = 0; i < received.size(); ++i) EXPECT_EQ(received[i], numbers_of(before, 10 * i + 1));
  });
}

// As gradients are: announced while others are still under way, waited for in the end and in any order.
TEST_P(LocalCommunicatorTest, ManyAreUnderWayAtOnce) {
  constexpr std::size_t kBuckets = 30;
  std::vector<std::vector<float>> expected;
  for (std::size_t i = 0; i < kBuckets; ++i) expected.push_back(sum_of(ranks(), 100 * i));
  run([&](Communicator& mine) {
    for (int step = 0; step < 5; ++step) {
      std::vector<std::vector<float>> buckets;
      std::vector<Ticket> tickets;
      for (std::size_t i = 0; i < kBuckets; ++i) buckets.push_back(numbers_of(mine.rank(), 100 * i));
      for (auto& bucket : buckets) tickets.push_back(mine.all_reduce(bucket));
      for (std::size_t i = kBuckets; i-- > 0;) mine.wait(tickets[i]);
      EXPECT_EQ(buckets, expected);
      mine.barrier();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, LocalCommunicatorTest, testing::Values(1, 2, 3, 5));

TEST(LocalCommunicator, ARankThatDoesNotArriveIsNamed) {
  const std::vector<std::string> errors = run_ranks({.size = 3, .patience = 1000ms}, [](Communicator& mine) {
    std::vector<float> data(10);
    mine.wait(mine.all_reduce(data));
    if (mine.rank() != 1) mine.barrier();
  });
  const std::string expected = " has waited 1000 ms in barrier for rank 1, whose last call was all_reduce of 40 bytes";
  EXPECT_TRUE(errors[0] == "rank 0" + expected || errors[0] == "rank 2" + expected) << errors[0];
  EXPECT_EQ(errors[1], "");
  EXPECT_EQ(errors[2], errors[0]);
}

TEST(LocalCommunicator, AMissingSenderIsNamed) {
  const std::vector<std::string> errors = run_ranks({.size = 2, .patience = 20ms}, [](Communicator& mine) {
    std::vector<float> data(4);
    if (mine.rank() == 0) mine.wait(mine.receive(bytes_of(data), 1));
  });
  EXPECT_EQ(errors[0], "rank 0 has waited 20 ms in message of 16 bytes for rank 1, which has called nothing yet");
}

TEST(LocalCommunicator, DifferentCallsAreAnErrorOfAll) {
  const std::vector<std::string> errors = run_ranks({.size = 2}, [](Communicator& mine) {
    std::vector<float> data(mine.rank() == 0 ? 10 : 11);
    if (mine.rank() == 1) std::this_thread::sleep_for(20ms);
    mine.wait(mine.all_reduce(data));
  });
  EXPECT_EQ(errors[0], "rank 1 calls all_reduce of 44 bytes where rank 0 calls all_reduce of 40 bytes");
  EXPECT_EQ(errors[1], errors[0]);
}

// In a process of several the group decides nothing: it says who waits for whom, by the ranks of the whole job.
TEST(LocalCommunicator, ALongWaitIsOnTheBoardWhileItLasts) {
  WaitBoard board;
  run_ranks({.size = 2, .patience = 1ms, .axis = "tensor", .ranks = {6, 7}, .board = &board}, [&](Communicator& mine) {
    std::vector<float> data(10);
    if (mine.rank() == 1) {
      while (board.waiting().empty()) std::this_thread::sleep_for(1ms);
      const std::map<int, RankStatus::Waiting> waiting = board.waiting();
      ASSERT_TRUE(waiting.contains(6));
      EXPECT_EQ(waiting.at(6).what, "all_reduce of 40 bytes (tensor axis)");
      EXPECT_EQ(waiting.at(6).ranks, std::vector<int>{7});
    }
    mine.wait(mine.all_reduce(data));
  });
  EXPECT_TRUE(board.waiting().empty());
}

TEST(LocalCommunicator, AnAbortEndsEveryWait) {
  const std::vector<std::string> errors = run_ranks({.size = 3}, [](Communicator& mine) {
    if (mine.rank() == 2) return mine.abort("rank 2: out of memory");
    mine.barrier();
  });
  EXPECT_EQ(errors[0], "rank 2: out of memory");
  EXPECT_EQ(errors[1], "rank 2: out of memory");
}

}  // namespace
}  // namespace trifold
