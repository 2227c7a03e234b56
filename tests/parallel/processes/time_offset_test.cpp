// Clocks that are apart are put together again, as well as the messages between them allow.
#include "parallel/processes/time_offset.h"

#include <cmath>
#include <thread>

#include <gtest/gtest.h>

#include "parallel/communicator/local_communicator.h"

namespace trifold {
namespace {

TEST(TimeOffset, IsFoundWithinItsUncertainty) {
  const auto group = make_local_group({.size = 3});
  const std::int64_t ahead[] = {0, 5'000'000'000, -7'000'000};
  std::vector<ClockReading> readings;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      const std::vector<ClockReading> found =
          read_clocks(*group[i], [&, i] { return steady_nanoseconds() + ahead[i]; });
      EXPECT_EQ(found.empty(), i > 0);
      if (i == 0) readings = found;
    });
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(readings.size(), 3U);
  EXPECT_EQ(readings[0].ahead, 0);
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_LE(std::abs(readings[i].ahead - ahead[i]), readings[i].uncertainty) << i;
    EXPECT_LT(readings[i].uncertainty, 1'000'000) << "of the best of many";
  }
}

TEST(TimeOffset, DriftsEvenlyBetweenTwoReadings) {
  // Its clock gains 1000 ns in a second.
  const AlignedClock clock({.at = 1'000'000'000, .ahead = 500, .uncertainty = 3},
                           {.at = 3'000'000'000, .ahead = 2500, .uncertainty = 2});
  EXPECT_EQ(clock.by_first(1'000'000'500), 1'000'000'000);
  EXPECT_EQ(clock.by_first(2'000'001'500), 2'000'000'000);
  EXPECT_EQ(clock.by_first(3'000'002'500), 3'000'000'000);
  EXPECT_EQ(clock.uncertainty(), 3);
  const AlignedClock still({.at = 10, .ahead = 4}, {.at = 10, .ahead = 4});
  EXPECT_EQ(still.by_first(54), 50) << "no time between the readings, no drift";
}

}  // namespace
}  // namespace trifold
