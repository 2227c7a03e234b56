// Blocks that take turns: who waits for whom, and what orders them.
#include <cstdlib>

#include "ptx_harness.h"

namespace gpusim::test {
namespace {

const std::string kDeclarations = R"(.reg .pred %p<9>;
.reg .b32 %r<20>, t, block, blocks;
.reg .b64 %rd<9>, x, count, mine, next;
mov.u32 t, %tid.x;
mov.u32 block, %ctaid.x;
mov.u32 blocks, %nctaid.x;
ld.param.u64 x, [px];
add.u64 count, x, 512;
mad.wide.u32 mine, block, 4, x;
add.u32 %r1, block, 1;
rem.u32 %r1, %r1, blocks;
mad.wide.u32 next, %r1, 4, x;
)";

struct Outcome {
  bool succeeded = false;
  std::vector<std::uint32_t> x;
  Reports reports;
};
// x has 256 words, all zero. Blocks have one thread.
Outcome outcome_of(const std::string& body, std::uint32_t blocks) {
  Buffer<std::uint32_t> x(std::vector<std::uint32_t>(256));
  Outcome outcome;
  const std::string text = kernel_text(".param .u64 px", kDeclarations + body + "\nret;");
  outcome.reports = reports_of(
      [&] { outcome.succeeded = run(text, {.grid = {blocks}, .block = {1}, .cooperative = true}, x.address()); });
  outcome.x = x.read();
  return outcome;
}
void expect_clean(const std::string& body, std::uint32_t blocks) {
  const Outcome outcome = outcome_of(body, blocks);
  EXPECT_TRUE(outcome.succeeded) << body;
  EXPECT_EQ(outcome.reports.count, 0) << body;
}
void expect_race(const std::string& body, std::uint32_t blocks) {
  const Outcome outcome = outcome_of(body, blocks);
  EXPECT_TRUE(outcome.succeeded) << body;
  ASSERT_EQ(outcome.reports.count, 1) << body;
  EXPECT_EQ(outcome.reports.last, Finding::block_race) << body;
}
void expect_deadlock(const std::string& body, std::uint32_t blocks) {
  setenv("GPUSIM_BRANCH_LIMIT", "1", 1);
  const Outcome outcome = outcome_of(body, blocks);
  unsetenv("GPUSIM_BRANCH_LIMIT");
  EXPECT_FALSE(outcome.succeeded) << body;
  ASSERT_EQ(outcome.reports.count, 1) << body;
  EXPECT_EQ(outcome.reports.last, Finding::deadlock) << body;
}

// Until the counter is `times` the number of blocks. `before` and `after` are the fences.
std::string meet(const std::string& times, const std::string& before = "membar.gl;",
                 const std::string& after = "membar.gl;") {
  return before + "red.global.add.u32 [count], 1; mul.lo.u32 %r2, blocks, " + times + ";\nWAIT" + times +
         ": ld.volatile.global.u32 %r3, [count]; nanosleep.u32 100; setp.lt.u32 %p1, %r3, %r2; @%p1 bra WAIT" + times +
         ";\n" + after;
}
const std::string kWriteMine = "add.u32 %r4, block, 7; st.global.u32 [mine], %r4;";
const std::string kReadNext = "ld.global.u32 %r5, [next];";

TEST(Turns, BlocksMeet) {
  const Outcome outcome =
      outcome_of(kWriteMine + meet("1") + kReadNext + meet("2") + "st.global.u32 [mine], %r5;" + meet("3"), 5);
  EXPECT_TRUE(outcome.succeeded);
  EXPECT_EQ(outcome.reports.count, 0);
  EXPECT_EQ(std::vector(outcome.x.begin(), outcome.x.begin() + 5), (std::vector<std::uint32_t>{8, 9, 10, 11, 7}));
}

TEST(Turns, WhatIsNotFencedRaces) {
  expect_race(kWriteMine + meet("1", "") + kReadNext, 5);
  expect_race(kWriteMine + meet("1", "membar.cta;") + kReadNext, 5);
  expect_race("membar.gl;" + kWriteMine + meet("1", "") + kReadNext, 5);
  expect_clean(kWriteMine + meet("1", "membar.gl;", "") + kReadNext, 5);
}

TEST(Turns, ReadersAreWaitedForToo) {
  expect_race(kWriteMine + meet("1") + kReadNext + "st.global.u32 [mine], 5;", 5);
  expect_clean(kWriteMine + meet("1") + kReadNext + meet("2") + "st.global.u32 [mine], 5;", 5);
}

TEST(Turns, ReadersSinceTheLastWriteAreRemembered) {
  const auto write_by = [](int block) {
    return "setp.eq.u32 %p2, block, " + std::to_string(block) + "; @%p2 st.global.u32 [x], 5;";
  };
  const std::string read = "ld.global.u32 %r5, [x];";
  for (int writer = 0; writer < 5; ++writer) {
    expect_race(read + meet("1") + write_by(0) + meet("2") + read + write_by(writer), 5);
    expect_clean(read + meet("1") + write_by(0) + meet("2") + read + meet("3") + write_by(writer), 5);
  }
}

const std::string kSleep =
    "mov.u32 %r9, 0; SLEEP: nanosleep.u32 1; add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, 5;\n"
    "@%p3 bra SLEEP;\n";

TEST(Turns, AFenceCountsForAnAtomicOfALaterTurn) {
  const std::string atomic = "red.global.add.u32 [count], 1; bra END;\n";
  const std::string wait =
      "OTHER: ld.volatile.global.u32 %r3, [count]; nanosleep.u32 1; setp.eq.u32 %p1, %r3, 0; @%p1 bra OTHER;\n" +
      std::string("ld.global.u32 %r5, [x]; END:");
  const std::string only_first = "setp.ne.u32 %p2, block, 0; @%p2 bra OTHER;\n";
  expect_clean(only_first + kWriteMine + "membar.gl;" + kSleep + atomic + wait, 2);
  expect_race(only_first + "membar.gl;" + kSleep + kWriteMine + atomic + wait, 2);
}

TEST(Turns, ABlockDoesNotRaceWithItsEarlierTurns) {
  expect_clean(
      kWriteMine + kSleep + "ld.global.u32 %r5, [mine]; st.global.u32 [mine], 1; red.global.add.u32 [mine], 1;", 3);
}

TEST(Turns, AReportNamesTheOtherBlock) {
  // Block 2 writes in its third turn or later.
  const std::string body = "setp.eq.u32 %p1, block, 2; @!%p1 bra WAIT;\n" + kSleep +
                           "st.global.u32 [x], 1; red.global.add.u32 [count], 1; bra END;\n"
                           "WAIT: ld.volatile.global.u32 %r3, [count]; nanosleep.u32 1; setp.eq.u32 %p2, %r3, 0;\n"
                           "@%p2 bra WAIT; setp.eq.u32 %p3, block, 3; @%p3 ld.global.u32 %r5, [x]; END:";
  std::string text(1 << 16, '\0');
  gpusim_take_reports(text.data(), text.size());
  outcome_of(body, 4);
  ASSERT_EQ(gpusim_take_reports(text.data(), text.size()), 1);
  EXPECT_NE(text.find("that block (2,0,0) has written"), std::string::npos) << text;
  EXPECT_NE(text.find("in kernel k, block (3,0,0)"), std::string::npos) << text;
}

TEST(Turns, GridsThatDoNotGetOnAreDeadlocks) {
  const std::string skip = "setp.eq.u32 %p2, block, 1; @%p2 exit;";
  expect_deadlock(skip + meet("1"), 4);
  expect_deadlock(skip + "WAIT: atom.global.add.u32 %r3, [count], 0; setp.eq.u32 %p1, %r3, 0; @%p1 bra WAIT;", 4);
  expect_deadlock("WAIT: bar.sync 0; ld.volatile.global.u32 %r3, [count]; setp.eq.u32 %p1, %r3, 0; @%p1 bra WAIT;", 2);
}

TEST(Turns, AnEndlessLoopThatWritesIsADeadlockToo) {
  expect_deadlock("WAIT: atom.global.add.u32 %r3, [count], 1; setp.ge.u32 %p1, %r3, 0; @%p1 bra WAIT;", 2);
}

}  // namespace
}  // namespace gpusim::test
