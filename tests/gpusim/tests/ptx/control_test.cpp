// Control flow and cooperation of threads: divergence, tables, barriers, warp operations, matrices.
#include "ptx/half.h"
#include "ptx_harness.h"

namespace gpusim::test {
namespace {

// d (a register) of each thread to out[thread].
std::vector<std::uint32_t> results_of(const std::string& body, std::uint32_t threads,
                                      const std::string& module_level = "") {
  const std::string text = kernel_text(".param .u64 out",
                                       R"(.reg .pred %p<9>;
.reg .b32 %r<20>, t, d;
.reg .b64 %rd<9>;
mov.u32 t, %tid.x;
mov.u32 d, 0;
)" + body + R"(
ld.param.u64 %rd1, [out];
mad.wide.u32 %rd2, t, 4, %rd1;
st.global.u32 [%rd2], d;
ret;)",
                                       "sm_80", module_level);
  Buffer<std::uint32_t> out(threads);
  EXPECT_TRUE(run(text, {.grid = {}, .block = {threads}}, out.address()));
  return out.read();
}

TEST(Control, LoopsOfDifferentLengthMeetAgain) {
  const auto results = results_of(R"(mov.u32 %r1, 0;
LOOP: setp.ge.u32 %p1, %r1, t;
@%p1 bra DONE;
add.u32 d, d, %r1;
add.u32 %r1, %r1, 1;
bra LOOP;
DONE: activemask.b32 %r2;
popc.b32 %r2, %r2;
mad.lo.u32 d, %r2, 1000, d;)",
                                  40);
  for (std::uint32_t thread = 0; thread < 40; ++thread)
    EXPECT_EQ(results[thread], thread * (thread - 1) / 2 * (thread > 0) + (thread < 32 ? 32000 : 8000)) << thread;
}

TEST(Control, BranchTables) {
  const auto results = results_of(R"(and.b32 %r1, t, 3;
TABLE: .branchtargets A, B, C, A;
brx.idx %r1, TABLE;
A: add.u32 d, d, 1; bra END;
B: add.u32 d, d, 20;
C: add.u32 d, d, 300;
END: mov.u32 %r2, 0;)",
                                  32);
  const std::uint32_t expected[] = {1, 320, 300, 1};
  for (std::uint32_t thread = 0; thread < 32; ++thread) EXPECT_EQ(results[thread], expected[thread % 4]);
}

TEST(Control, GuardedCallsRunForTheirLanesOnly) {
  const auto results = results_of(R"(setp.gt.u32 %p1, t, 15;
@%p1 call.uni f, ();
bar.warp.sync -1;
mov.u64 %rd3, counter;
ld.volatile.global.u32 d, [%rd3];)",
                                  32,
                                  ".global .u32 counter;\n"
                                  ".func f() { .reg .b64 a; mov.u64 a, counter; red.global.add.u32 [a], 1; ret; }");
  for (const std::uint32_t result : results) EXPECT_EQ(result, 16U);
}

TEST(Warp, ShufflesWithinSegments) {
  const auto up = results_of("shfl.sync.up.b32 d|%p1, t, 3, 0, -1;", 32);
  const auto down = results_of("shfl.sync.down.b32 d|%p1, t, 5, 0x100f, -1;", 32);  // segments of 16
  const auto index = results_of("shfl.sync.idx.b32 d, t, 9, 0x181f, -1;", 32);      // segments of 8
  const auto butterfly = results_of("shfl.sync.bfly.b32 d, t, 6, 31, -1;", 32);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(up[lane], lane < 3 ? lane : lane - 3);
    EXPECT_EQ(down[lane], lane % 16 + 5 > 15 ? lane : lane + 5);
    EXPECT_EQ(index[lane], lane / 8 * 8 + 1);
    EXPECT_EQ(butterfly[lane], lane ^ 6U);
  }
}

TEST(Warp, TilesWithTheirOwnMembers) {
  // Each half of the warp reduces over itself, from different sides of a branch.
  const auto results = results_of(R"(setp.lt.u32 %p1, t, 16;
@%p1 bra LOW;
vote.sync.ballot.b32 d, 1, 0xffff0000;
bra END;
LOW: setp.lt.u32 %p2, t, 4;
vote.sync.ballot.b32 d, %p2, 0x0000ffff;
END: bar.warp.sync -1;
redux.sync.add.u32 %r3, t, -1;
add.u32 d, d, %r3;)",
                                  32);
  for (std::uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(results[lane], (lane < 16 ? 15U : 0xffff0000U) + 496U);
}

TEST(Warp, OthersGoOnWhenLanesHaveEnded) {
  // Lane 7 leaves only after the others have come to the vote and wait for it.
  const auto results = results_of(R"(setp.eq.u32 %p1, t, 7;
@%p1 bra LEAVE;
vote.sync.any.pred %p2, 1, -1;
match.any.sync.b32 d, 5, -1;
bra END;
LEAVE: ld.param.u64 %rd1, [out];
st.global.u32 [%rd1+28], t;
exit;
END: mov.u32 %r1, 0;)",
                                  32);
  EXPECT_EQ(results[0], ~(1U << 7));
  EXPECT_EQ(results[7], 7U);
}

TEST(Barriers, ReduceAndCount) {
  const auto count = results_of("setp.lt.u32 %p1, t, 50; bar.red.popc.u32 d, 0, %p1;", 96);
  const auto any =
      results_of("setp.eq.u32 %p1, t, 95; barrier.cta.red.or.pred %p2, 0, %p1; selp.u32 d, 1, 0, %p2;", 96);
  const auto all = results_of("setp.ne.u32 %p1, t, 95; bar.red.and.pred %p2, 0, %p1; selp.u32 d, 1, 0, %p2;", 96);
  for (std::uint32_t thread = 0; thread < 96; ++thread) {
    EXPECT_EQ(count[thread], 50U);
    EXPECT_EQ(any[thread], 1U);
    EXPECT_EQ(all[thread], 0U);
  }
}

// Warp 0 produces, warp 1 consumes, with a named barrier that the producer does not wait for.
constexpr const char* kProducer = R"(.shared .align 4 .b8 s[128];
shl.b32 %r5, t, 2; and.b32 %r5, %r5, 127; mov.u32 %r6, s; add.u32 %r5, %r6, %r5;
setp.ge.u32 %p1, t, 32;
@%p1 bra CONSUME;
st.shared.u32 [%r5], t;
)";
TEST(Barriers, ArriveAndSync) {
  const int before = report_count();
  const auto results = results_of(std::string(kProducer) + R"(bar.arrive 1, 64; bra END;
CONSUME: bar.sync 1, 64; ld.shared.u32 d, [%r5];
END: mov.u32 %r1, 0;)",
                                  64);
  for (std::uint32_t thread = 32; thread < 64; ++thread) EXPECT_EQ(results[thread], thread - 32);
  EXPECT_EQ(report_count(), before);
}
TEST(Barriers, OfOtherWarpsDoNotOrder) {
  // Consumers meet among themselves only: the producer's store races with their loads.
  const Reports reports = reports_of([] {
    results_of(std::string(kProducer) + R"(bar.sync 2, 32; bra END;
CONSUME: bar.sync 1, 32; ld.shared.u32 d, [%r5];
END: mov.u32 %r1, 0;)",
               64);
  });
  EXPECT_EQ(reports.count, 1);
  EXPECT_EQ(reports.last, Finding::shared_memory_race);
}

TEST(AsyncCopy, ArrivesAtTheWaitOnly) {
  const std::string module_level = ".global .align 16 .u32 source[4] = {11, 22, 33, 44};";
  const auto results = results_of(R"(.shared .align 16 .b8 s[32];
mov.u32 %r1, s;
st.shared.u32 [%r1], 5; st.shared.u32 [%r1+16], 6;
mov.u64 %rd3, source;
cp.async.ca.shared.global [%r1], [%rd3], 4;
cp.async.commit_group;
cp.async.cg.shared.global [%r1+16], [%rd3], 16, 8;
cp.async.commit_group;
ld.shared.u32 d, [%r1];
cp.async.wait_group 1;
ld.shared.u32 %r2, [%r1]; mad.lo.u32 d, d, 100, %r2;
ld.shared.u32 %r2, [%r1+16]; mad.lo.u32 d, d, 100, %r2;
cp.async.wait_all;
ld.shared.u32 %r2, [%r1+20]; mad.lo.u32 d, d, 100, %r2;
ld.shared.u32 %r2, [%r1+28]; mad.lo.u32 d, d, 100, %r2;)",
                                  1, module_level);
  EXPECT_EQ(results[0], 511062200U);  // old 5, then 11, still 6, then 22, and zero beyond the 8 source bytes
}

}  // namespace
}  // namespace gpusim::test
