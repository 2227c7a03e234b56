// mpirun starts this several times: every collective between processes must give what ranks in one process get, to the
// bit. With --check-calls every collective is compared with the other ranks' before it begins; --ranks-each 2: every
// process has two ranks.
#include <algorithm>
#include <functional>
#include <iterator>
#include <thread>

#include <gtest/gtest.h>

#include "core/philox.h"
#include "parallel/communicator/local_communicator.h"
#include "parallel/world.h"

namespace trifold {
namespace {

World* world = nullptr;
bool checks_calls = false;
int ranks_each = 1;

int all_ranks() {
  return world->size() * ranks_each;
}

using Bytes = std::vector<std::byte>;
using Body = std::function<Bytes(Communicator&)>;

std::vector<float> floats_of(int rank, std::size_t count) {
  RandomSequence random(11, Purpose::synthetic, static_cast<std::uint32_t>(rank));
  std::vector<float> numbers(count);
  for (float& number : numbers) number = random.uniform(-1, 1);
  return numbers;
}

template <class T>
std::span<std::byte> as_bytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

template <class T>
Bytes result(std::vector<T>& values) {
  const auto bytes = as_bytes(values);
  return {bytes.begin(), bytes.end()};
}

// Each rank of this process on its thread. One that fails ends the others' waits, as in a job.
std::vector<Bytes> on_threads(const std::vector<Communicator*>& ranks, const Body& body) {
  std::vector<Bytes> results(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    threads.emplace_back([&, rank] {
      try {
        results[rank] = body(*ranks[rank]);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
        ranks[rank]->abort(error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

std::vector<Bytes> in_one_process(int size, const Body& body) {
  const auto group = make_local_group({.size = size});
  std::vector<Communicator*> ranks;
  for (const auto& rank : group) ranks.push_back(rank.get());
  return on_threads(ranks, body);
}

// Of several ranks a process: groups with all ranks of every process, with one of each, and with some.
enum class Shape { whole, halves, by_twos };

// Groups along the data axis, all at the same time.
class MpiRanks : public ::testing::TestWithParam<Shape> {
 protected:
  MpiRanks() : ranks_(world->make_ranks(mesh())) {}

  static Mesh mesh() {
    if (GetParam() == Shape::whole) return {.data = all_ranks()};
    return GetParam() == Shape::halves ? Mesh{2, all_ranks() / 2, 1} : Mesh{all_ranks() / 2, 2, 1};
  }

  void expect_as_in_one_process(const Body& body) const {
    std::vector<Communicator*> mine;
    for (const auto& rank : ranks_) mine.push_back(&rank->along(Axis::data));
    const std::vector<Bytes> expected = in_one_process(mine.front()->size(), body);
    const std::vector<Bytes> results = on_threads(mine, body);
    for (std::size_t i = 0; i < mine.size(); ++i)
      EXPECT_TRUE(results[i] == expected[static_cast<std::size_t>(mine[i]->rank())])
          << "rank " << ranks_[i]->rank() << ", " << mine[i]->rank() << " of its group";
  }

 private:
  std::vector<std::unique_ptr<RankGroups>> ranks_;
};

// Nothing, one, small, the largest that is summed in one exchange, the next, parts of different lengths, and several
// pieces of a chain.
const std::vector<std::size_t> kCounts = {0, 1, 1000, 4096, 4097, 40001, 200001};

TEST_P(MpiRanks, AllReduce) {
  for (const std::size_t count : kCounts)
    expect_as_in_one_process([&](Communicator& mine) {
      std::vector<float> data = floats_of(mine.rank(), count);
      mine.wait(mine.all_reduce(data));
      return result(data);
    });
}

TEST_P(MpiRanks, ReduceScatter) {
  for (const std::size_t count : kCounts)
    expect_as_in_one_process([&](Communicator& mine) {
      const std::vector<float> data = floats_of(mine.rank(), count * static_cast<std::size_t>(mine.size()));
      std::vector<float> part(count);
      mine.wait(mine.reduce_scatter(data, part));
      return result(part);
    });
}

TEST_P(MpiRanks, AllGatherAlsoInPlace) {
  for (const bool in_place : {false, true})
    expect_as_in_one_process([&](Communicator& mine) {
      std::vector<float> part = floats_of(mine.rank(), 3000);
      std::vector<float> all(part.size() * static_cast<std::size_t>(mine.size()));
      const auto place = as_bytes(all).subspan(static_cast<std::size_t>(mine.rank()) * 12000, 12000);
      std::ranges::copy(as_bytes(part), place.begin());
      mine.wait(mine.all_gather(in_place ? place : as_bytes(part), as_bytes(all)));
      return result(all);
    });
}

TEST_P(MpiRanks, BroadcastAndAllToAll) {
  expect_as_in_one_process([](Communicator& mine) {
    std::vector<float> data = floats_of(mine.rank(), 20000);
    for (int root = mine.size() - 1; root >= 0; --root) {
      data[0] = static_cast<float>(mine.rank());
      mine.wait(mine.broadcast(as_bytes(data), root));
    }
    return result(data);
  });
  expect_as_in_one_process([](Communicator& mine) {
    std::vector<float> from = floats_of(mine.rank(), 500 * static_cast<std::size_t>(mine.size()));
    std::vector<float> to(from.size());
    mine.wait(mine.all_to_all(as_bytes(from), as_bytes(to)));
    return result(to);
  });
}

TEST_P(MpiRanks, MessagesOfEachTagArriveInOrder) {
  expect_as_in_one_process([](Communicator& mine) {
    const int next = (mine.rank() + 1) % mine.size();
    const int before = (mine.rank() + mine.size() - 1) % mine.size();
    std::vector<std::vector<float>> sent, received;
    for (std::size_t i = 0; i < 20; ++i) {
      sent.push_back(floats_of(100 * mine.rank() + static_cast<int>(i), 997 * i + 1));
      received.emplace_back(997 * i + 1);
    }
    std::vector<Ticket> tickets;
    for (std::size_t i = 0; i < sent.size(); ++i)
      tickets.push_back(mine.send(as_bytes(sent[i]), next, static_cast<int>(i % 3)));
    // One tag after the other: not as they were sent.
    for (std::size_t tag = 0; tag < 3; ++tag)
      for (std::size_t i = tag; i < received.size(); i += 3)
        tickets.push_back(mine.receive(as_bytes(received[i]), before, static_cast<int>(tag)));
    for (const Ticket& ticket : tickets) mine.wait(ticket);
    Bytes all;
    for (auto& each : received) std::ranges::copy(result(each), std::back_inserter(all));
    return all;
  });
}

// Announced in one order, waited for in another on every rank, with a message in between.
TEST_P(MpiRanks, ManyAreUnderWayAtOnce) {
  expect_as_in_one_process([](Communicator& mine) {
    Bytes all;
    for (int step = 0; step < 3; ++step) {
      std::vector<std::vector<float>> buckets;
      std::vector<Ticket> tickets;
      for (std::size_t i = 0; i < 20; ++i) buckets.push_back(floats_of(mine.rank() + step, 700 * i));
      for (auto& bucket : buckets) tickets.push_back(mine.all_reduce(bucket));
      std::vector<float> to_self = {1}, from_self = {0};
      const Ticket sent = mine.send(as_bytes(to_self), mine.rank());
      mine.wait(mine.receive(as_bytes(from_self), mine.rank()));
      mine.wait(sent);
      if (mine.rank() % 2 == 0) std::ranges::reverse(tickets);
      for (const Ticket& ticket : tickets) mine.wait(ticket);
      mine.barrier();
      for (auto& bucket : buckets) std::ranges::copy(result(bucket), std::back_inserter(all));
    }
    return all;
  });
}

INSTANTIATE_TEST_SUITE_P(Groups, MpiRanks, ::testing::Values(Shape::whole, Shape::halves, Shape::by_twos),
                         [](const auto& each) {
                           return each.param == Shape::whole    ? "Whole"
                                  : each.param == Shape::halves ? "Halves"
                                                                : "ByTwos";
                         });

// Messages between any two ranks, also of one process, with tags in common.
TEST(Messages, FindTheirRankAmongThoseOfAProcess) {
  const auto ranks = world->make_ranks({.pipeline = all_ranks()});
  std::vector<Communicator*> mine;
  for (const auto& rank : ranks) mine.push_back(&rank->along(Axis::pipeline));
  on_threads(mine, [](Communicator& group) {
    const auto size = static_cast<std::size_t>(group.size());
    std::vector<int> sent(size), received(size);
    std::vector<Ticket> tickets;
    for (int other = 0; other < group.size(); ++other) {
      const auto place = static_cast<std::size_t>(other);
      sent[place] = 100 * group.rank() + other;
      tickets.push_back(group.send(std::as_bytes(std::span(&sent[place], 1)), other, 7));
    }
    for (int other = group.size() - 1; other >= 0; --other) {
      const auto place = static_cast<std::size_t>(other);
      tickets.push_back(group.receive(std::as_writable_bytes(std::span(&received[place], 1)), other, 7));
    }
    for (const Ticket& ticket : tickets) group.wait(ticket);
    for (int other = 0; other < group.size(); ++other)
      EXPECT_EQ(received[static_cast<std::size_t>(other)], 100 * other + group.rank());
    return Bytes();
  });
}

TEST(World, GathersAndSpreadsValues) {
  const std::vector<int> ranks = world->gather(10 * world->rank());
  for (int rank = 0; rank < world->size(); ++rank) EXPECT_EQ(ranks[static_cast<std::size_t>(rank)], 10 * rank);
  EXPECT_EQ(world->from_first(world->first() ? std::string("a text") : std::string()), "a text");
  EXPECT_EQ(world->processes_here(), world->size());
}

// To be run alone: nothing can be called after it. The last rank of all has another idea than the others.
TEST(Mismatch, DifferentCallsAreAnErrorOfAll) {
  if (!checks_calls) GTEST_SKIP() << "calls are not checked";
  const auto ranks = world->make_ranks({.data = all_ranks()});
  std::vector<std::thread> threads;
  for (const auto& rank : ranks)
    threads.emplace_back([&group = rank->along(Axis::data)] {
      std::vector<float> data(group.rank() == group.size() - 1 ? 11 : 10);
      try {
        group.wait(group.all_reduce(data));
        ADD_FAILURE() << "nothing was thrown";
      } catch (const Error& error) {
        // A rank may hear of it from one that found it earlier. Of two ranks of a process either may come first.
        const std::string text = error.what();
        EXPECT_TRUE(text.find(fmt::format("rank {} calls all_reduce of 44 bytes", all_ranks() - 1)) !=
                    std::string::npos)
            << text;
        group.abort(text);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace trifold

int main(int argc, char** argv) {
  using namespace trifold;
  const Launch launch = find_launch([](const char* name) -> const char* { return std::getenv(name); });
  if (launch.by == Launch::By::alone) {
    fmt::print(stderr, "start this with mpirun\n");
    return 2;
  }
  GTEST_FLAG_SET(brief, launch.rank > 0);  // one process speaks, the others of failures only
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--check-calls") checks_calls = true;
    if (std::string(argv[i]) == "--ranks-each" && i + 1 < argc) ranks_each = std::atoi(argv[i + 1]);
  }
  World joined(launch, checks_calls);
  world = &joined;
  int status = 0;
  try {
    joined.run([&] { status = RUN_ALL_TESTS(); });
  } catch (const Error& error) {
    return status != 0 ? status : error.exit_code();
  }
  return status;
}
