// Processes that are started together and looked after; here each is a shell.
#include "parallel/processes/process_team.h"

#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "runtime/checkpoint/temporary_directory.h"

namespace trifold {
namespace {

using namespace std::chrono_literals;

ProcessTeam::Args shells(int processes, const std::string& script) {
  return {.command = {"/bin/sh", "-c", script}, .processes = processes};
}

std::vector<int> codes_by_process(const TeamEnd& end, int processes) {
  std::vector<int> codes(static_cast<std::size_t>(processes), -2);
  for (const ProcessEnd& each : end.ends) codes[static_cast<std::size_t>(each.process)] = each.exit_code;
  return codes;
}

TEST(ProcessTeamTest, GivesEveryProcessItsNumberAndOneMeetingPoint) {
  const testing::TemporaryDirectory directory;
  ProcessTeam team(shells(
      3, "echo $WORLD_SIZE $MASTER_ADDR $MASTER_PORT > " + (directory.path() / "at").string() + "$RANK; exit $RANK"));
  EXPECT_EQ(codes_by_process(team.wait(), 3), (std::vector{0, 1, 2}));
  const std::string first = testing::read_file(directory.path() / "at0");
  EXPECT_TRUE(first.starts_with("3 127.0.0.1 ")) << first;
  EXPECT_EQ(first, testing::read_file(directory.path() / "at2"));
}

TEST(ProcessTeamTest, OneProcessMeetsNobody) {
  ::setenv("RANK", "7", 1);  // of another job
  ProcessTeam team(shells(1, "test -z \"$RANK$WORLD_SIZE\""));
  EXPECT_EQ(team.wait().ends.at(0).exit_code, 0);
  ::unsetenv("RANK");
}

TEST(ProcessTeamTest, SaysHowAProcessEnded) {
  ProcessTeam team(shells(1, "kill -9 $$"));
  const TeamEnd end = team.wait();
  ASSERT_EQ(end.ends.size(), 1u);
  EXPECT_EQ(end.ends[0].signal, SIGKILL);
  EXPECT_EQ(to_string(end.ends[0]), "was killed by signal 9 (Killed)");
  EXPECT_EQ(to_string(ProcessEnd{.exit_code = 3}), "ended with exit code 3");
}

TEST(ProcessTeamTest, KillsThoseThatOutliveAFailureAndDoesNotCountThem) {
  ProcessTeam::Args args = shells(2, "test $RANK = 1 && exit 5; exec sleep 60");
  args.grace = 50ms;
  const TeamEnd end = ProcessTeam(args).wait();
  ASSERT_EQ(end.ends.size(), 1u);
  EXPECT_EQ(end.ends[0].process, 1);
  EXPECT_EQ(end.ends[0].exit_code, 5);
}

// The signal comes before the team waits for it: no moment is too early.
TEST(ProcessTeamTest, PassesAnInterruptOn) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const testing::TemporaryDirectory directory;
    const std::string ready = (directory.path() / "ready").string();
    ProcessTeam team(shells(2, "trap 'exit 4' INT TERM; : > " + ready + "$RANK; while :; do sleep 0.01; done"));
    while (!std::filesystem::exists(ready + "0") || !std::filesystem::exists(ready + "1"))
      std::this_thread::sleep_for(1ms);
    ::pthread_kill(::pthread_self(), signal);  // this program has other threads, which do not block it
    const TeamEnd end = team.wait();
    EXPECT_EQ(end.interrupt, signal);
    EXPECT_EQ(codes_by_process(end, 2), (std::vector{4, 4}));
  }
}

}  // namespace
}  // namespace trifold
