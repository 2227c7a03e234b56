// Why a plan lost: the largest losses of time, each with its cause, from the figures alone.
#include "insight/compare/slowdown.h"

#include <gtest/gtest.h>

namespace trifold {
namespace {

PlanResult with(const Mesh& mesh, int threads, const StepSplit& step) {
  PlanResult plan;
  plan.mesh = mesh;
  plan.threads = threads;
  plan.step_ms = step;
  return plan;
}

PlanResult fastest() {
  return with({}, 2, {.compute = 100, .exposed_comm = 0, .bubble = 0, .input = 1, .optimizer = 4});
}

TEST(Slowdown, NamesCommunicationAndItsSize) {
  PlanResult plan = with({.data = 2}, 1, {101, 20, 0, 1, 4});
  plan.traffic = {{{.kind = "all_reduce", .calls = 1, .sent = 1e6}},
                  {{.kind = "all_reduce", .calls = 1, .sent = 2e6}, {.kind = "all_gather", .calls = 2, .sent = 0.5e6}}};
  EXPECT_EQ(explain_slowdown(plan, fastest(), 2),
            "21.0 ms a step longer (20 %): +20.0 ms of communication (a rank sends 2.50 MB in 3 exchanges)");
}

TEST(Slowdown, NamesTheSchedulesBubbleWhereStagesAreEven) {
  PlanResult plan = with({.pipeline = 2}, 1, {100, 0, 25, 1, 4});
  plan.pipeline = {.micro_batches = 4, .stage_ms = {50, 52}, .predicted_bubble_ms = 25};
  EXPECT_EQ(explain_slowdown(plan, fastest(), 2),
            "25.0 ms a step longer (24 %): +25.0 ms of bubble (2 stages fill and drain with 4 micro-batches)");
}

TEST(Slowdown, NamesUnevenStages) {
  PlanResult plan = with({.pipeline = 2}, 1, {100, 0, 50, 1, 4});
  plan.pipeline = {.micro_batches = 4, .stage_ms = {30, 90}, .predicted_bubble_ms = 50};
  EXPECT_EQ(explain_slowdown(plan, fastest(), 2),
            "50.0 ms a step longer (48 %): +50.0 ms of bubble (its stages are uneven, 30.0 to 90.0 ms of work)");
}

TEST(Slowdown, NamesWorkThatIsDoneTwice) {
  PlanResult plan = with({.tensor = 2}, 1, {150, 0, 0, 1, 4});
  plan.arithmetic = 1.5;
  EXPECT_EQ(
      explain_slowdown(plan, fastest(), 2),
      "50.0 ms a step longer (48 %): +50.0 ms of compute (every rank computes the layers that are not split: 1.50 "
      "times the arithmetic)");
  plan.mesh = {.pipeline = 2};
  EXPECT_EQ(explain_slowdown(plan, fastest(), 2),
            "50.0 ms a step longer (48 %): +50.0 ms of compute (recomputation: 1.50 times the arithmetic)");
}

TEST(Slowdown, TellsRepeatedWorkFromWorkThatIsNotSplit) {
  PlanResult plan = with({.pipeline = 2, .tensor = 2}, 1, {150, 0, 0, 1, 4});
  plan.arithmetic = 1.4;
  plan.repeated = 0.3;
  EXPECT_EQ(explain_slowdown(plan, fastest(), 4),
            "50.0 ms a step longer (48 %): +50.0 ms of compute (recomputation: 1.40 times the arithmetic)");
  plan.repeated = 0.1;
  EXPECT_NE(explain_slowdown(plan, fastest(), 4).find("every rank computes the layers that are not split"),
            std::string::npos);
}

TEST(Slowdown, NamesArithmeticOnlyWhereItIsTheCause) {
  PlanResult plan = with({.tensor = 2}, 1, {150, 0, 0, 1, 4});
  plan.arithmetic = 1.02;
  EXPECT_EQ(explain_slowdown(plan, fastest(), 2),
            "50.0 ms a step longer (48 %): +50.0 ms of compute (1 thread a rank, not 2, on smaller tensors)");
}

TEST(Slowdown, NamesMoreRanksThanCores) {
  PlanResult plan = with({.data = 4}, 1, {200, 0, 60, 1, 4});
  EXPECT_EQ(
      explain_slowdown(plan, fastest(), 2),
      "160.0 ms a step longer (152 %): +100.0 ms of compute (1 thread a rank, not 2, on smaller tensors), +60.0 ms "
      "of bubble (ranks wait for each other to begin and to end a step); its 4 ranks take turns on 2 cores");
}

TEST(Slowdown, NamesCoresWithoutARank) {
  const PlanResult plan = with({.data = 3}, 1, {133, 0, 0, 1, 4});
  PlanResult winner = fastest();
  winner.threads = 4;
  EXPECT_EQ(explain_slowdown(plan, winner, 4),
            "33.0 ms a step longer (31 %): +33.0 ms of compute (3 of 4 cores are used)");
}

TEST(Slowdown, NamesThreads) {
  EXPECT_EQ(explain_slowdown(with({.data = 2}, 1, {120, 0, 0, 1, 4}), fastest(), 2),
            "20.0 ms a step longer (19 %): +20.0 ms of compute (1 thread a rank, not 2, on smaller tensors)");
  const PlanResult replicas = with({.data = 2}, 1, {90, 0, 0, 1, 4});
  EXPECT_EQ(explain_slowdown(fastest(), replicas, 2),
            "10.0 ms a step longer (11 %): +10.0 ms of compute (2 threads of one rank wait for each other in every "
            "kernel)");
}

TEST(Slowdown, SaysWhereTheMeasurementCannotTell) {
  PlanResult plan = with({}, 2, {102, 0, 0, 1, 4});
  plan.spread = 0.1;
  EXPECT_EQ(
      explain_slowdown(plan, fastest(), 2),
      "2.0 ms a step longer (2 %), less than the rounds differ by (10 %): +2.0 ms of compute (the same arithmetic "
      "in smaller pieces)");
}

// Nothing is known of where workers' time goes: no cause is made up, neither of their plan nor against it.
TEST(Slowdown, SaysOfServersOnlyWhatIsKnown) {
  PlanResult served = with({}, 1, {.undivided = 147});
  served.served =
      ServedResult{.mode = "sync", .servers = 1, .workers = 2, .sent = {1e6, 2e6}, .received = {1e6, 1.5e6}};
  const std::string text = "42.0 ms a step longer (40 %); a worker sends 2.00 MB and receives 1.50 MB a step";
  EXPECT_EQ(explain_slowdown(served, fastest(), 4), text);
  EXPECT_EQ(explain_slowdown(served, fastest(), 2), text + "; its 3 servers and workers take turns on 2 cores");
  served.step_ms.undivided = 100;
  EXPECT_EQ(explain_slowdown(fastest(), served, 4), "5.0 ms a step longer (5 %)");
}

TEST(Slowdown, LeavesOutWhatIsSmall) {
  const PlanResult plan = with({.data = 2}, 1, {99, 0, 50, 3, 6});
  EXPECT_EQ(explain_slowdown(plan, fastest(), 2),
            "53.0 ms a step longer (50 %): +50.0 ms of bubble (ranks wait for each other to begin and to end a step)");
}

}  // namespace
}  // namespace trifold
