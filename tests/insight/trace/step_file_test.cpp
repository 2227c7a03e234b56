// Steps come back from their file, or from another process's, as they were noted.
#include "insight/trace/step_file.h"

#include <thread>

#include <gtest/gtest.h>

#include "parallel/communicator/local_communicator.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;

TraceStep::Time at_us(int us) {
  return TraceStep::Time(1h + std::chrono::microseconds(us));
}

// More than goes in one message.
constexpr int kSteps = 200;
constexpr int kSpansOfStep = 300;

void note_steps(StepFile& file) {
  std::vector<SpanLog> logs(2);
  for (int step = 0; step < kSteps; ++step) {
    for (int rank = 0; rank < 2; ++rank) {
      SpanLog& log = logs[static_cast<std::size_t>(rank)];
      log.clear();
      log.enter(1, step % 4);
      for (int i = 0; i < kSpansOfStep * rank; ++i) log.add(Span::Kind::node, i, at_us(step + i), at_us(step + i + 1));
    }
    file.write({.number = step, .round = 3, .begin = at_us(step), .end = at_us(step + 5), .loss_scale = 8}, logs);
  }
}

void expect_steps(StepReader& reader) {
  NotedStep noted;
  for (int step = 0; step < kSteps; ++step) {
    ASSERT_TRUE(reader.next(noted));
    EXPECT_EQ(noted.step.number, step);
    EXPECT_EQ(noted.step.round, 3);
    EXPECT_EQ(noted.step.end, at_us(step + 5));
    EXPECT_EQ(noted.step.loss_scale, 8);
    ASSERT_EQ(noted.ranks.size(), 2U);
    EXPECT_TRUE(noted.ranks[0].empty());
    ASSERT_EQ(noted.ranks[1].size(), static_cast<std::size_t>(kSpansOfStep));
    const Span& last = noted.ranks[1].back();
    EXPECT_EQ(last.node, kSpansOfStep - 1);
    EXPECT_EQ(last.chunk, 1);
    EXPECT_EQ(last.micro_batch, step % 4);
    EXPECT_EQ(last.begin, at_us(step + kSpansOfStep - 1));
  }
  EXPECT_FALSE(reader.next(noted));
}

TEST(StepFile, IsReadAsItWasWritten) {
  StepFile file;
  note_steps(file);
  StepReader reader(file);
  expect_steps(reader);
}

TEST(StepFile, IsReadByAnotherMember) {
  const auto group = make_local_group({.size = 2});
  std::thread sender([&] {
    StepFile file;
    note_steps(file);
    file.send(*group[1], 0);
  });
  StepReader reader(*group[0], 1);
  expect_steps(reader);
  sender.join();
}

}  // namespace
}  // namespace trifold
