// mpirun starts this several times: every collective between processes must give what ranks in one process get, to the
// bit. With --check-calls every collective is compared with the other ranks' before it begins.
#include <algorithm>
#include <functional>
#include <iterator>
#include <thread>

#include <gtest/gtest.h>

#include "parallel/local_communicator.h"
#include "parallel/world.h"
#include "runtime/core/philox.h"

namespace trifold {
namespace {

World* world = nullptr;
bool checks_calls = false;

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

Bytes in_one_process(int ranks, int mine, const Body& body) {
  const auto group = make_local_group({.size = ranks});
  std::vector<Bytes> results(group.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < group.size(); ++rank)
    threads.emplace_back([&, rank] { results[rank] = body(*group[rank]); });
  for (std::thread& thread : threads) thread.join();
  return results[static_cast<std::size_t>(mine)];
}

// On all processes, and on two groups of half of them that work at the same time.
class MpiRanks : public ::testing::TestWithParam<bool> {
 protected:
  MpiRanks() : rank_(world->make_rank(GetParam() ? Mesh{.data = world->size()} : Mesh{2, world->size() / 2, 1})) {}

  void expect_as_in_one_process(const Body& body) const {
    Communicator& group = rank_->along(Axis::data);
    EXPECT_EQ(body(group), in_one_process(group.size(), group.rank(), body));
  }

 private:
  std::unique_ptr<RankGroups> rank_;
};

// Nothing, one, small, the largest that is summed in one exchange, the next, and parts of different lengths.
const std::vector<std::size_t> kCounts = {0, 1, 1000, 4096, 4097, 40001};

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
    mine.wait(mine.broadcast(as_bytes(data), mine.size() - 1));
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

INSTANTIATE_TEST_SUITE_P(Groups, MpiRanks, ::testing::Bool(),
                         [](const auto& each) { return each.param ? "Whole" : "Halves"; });

TEST(World, GathersAndSpreadsValues) {
  const std::vector<int> ranks = world->gather(10 * world->rank());
  for (int rank = 0; rank < world->size(); ++rank) EXPECT_EQ(ranks[static_cast<std::size_t>(rank)], 10 * rank);
  EXPECT_EQ(world->from_first(world->first() ? std::string("a text") : std::string()), "a text");
  EXPECT_EQ(world->processes_here(), world->size());
}

// To be run alone: nothing can be called after it.
TEST(Mismatch, DifferentCallsAreAnErrorOfAll) {
  if (!checks_calls) GTEST_SKIP() << "calls are not checked";
  std::vector<float> data(world->rank() == 1 ? 11 : 10);
  try {
    world->everyone().wait(world->everyone().all_reduce(data));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    // A rank may hear of it from one that found it earlier.
    const std::string expected = "rank 1 calls all_reduce of 44 bytes where rank 0 calls all_reduce of 40 bytes";
    EXPECT_TRUE(std::string(error.what()).ends_with(expected)) << error.what();
  }
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
  checks_calls = argc > 1 && std::string(argv[1]) == "--check-calls";
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
