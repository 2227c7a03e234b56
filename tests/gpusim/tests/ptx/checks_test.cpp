// Bugs that the engine must find, and correct patterns that it must not complain about.
#include <cstdlib>

#include "ptx_harness.h"

namespace gpusim::test {
namespace {

const std::string kDeclarations = R"(.reg .pred %p<9>;
.reg .b32 %r<20>, t, block;
.reg .b64 %rd<9>, x, y;
.shared .align 16 .b8 s[512];
mov.u32 t, %tid.x;
mov.u32 block, %ctaid.x;
ld.param.u64 x, [px];
ld.param.u64 y, [py];
shl.b32 %r1, t, 2;
mov.u32 %r2, s;
add.u32 %r3, %r2, %r1;
)";

std::string text_of(const std::string& body) {
  return kernel_text(".param .u64 px, .param .u64 py", kDeclarations + body + "\nret;");
}

struct Outcome {
  bool succeeded = false;
  Reports reports;
};
// x has 256 written words, y 256 unwritten ones.
Outcome outcome_of(const std::string& body, Dim3 grid = {1}, Dim3 block = {64}) {
  Buffer<std::uint32_t> x(std::vector<std::uint32_t>(256));
  Buffer<std::uint32_t> y(256);
  Outcome outcome;
  outcome.reports = reports_of(
      [&] { outcome.succeeded = run(text_of(body), {.grid = grid, .block = block}, x.address(), y.address()); });
  return outcome;
}

void expect_fault(const std::string& body, Finding finding, Dim3 grid = {1}, Dim3 block = {64}) {
  const Outcome outcome = outcome_of(body, grid, block);
  EXPECT_FALSE(outcome.succeeded) << body;
  ASSERT_EQ(outcome.reports.count, 1) << body;
  EXPECT_EQ(outcome.reports.last, finding) << body << " gave " << name_of(outcome.reports.last);
}
// Reported, but the kernel goes on as on a real GPU.
void expect_note(const std::string& body, Finding finding, Dim3 grid = {1}, Dim3 block = {64}) {
  const Outcome outcome = outcome_of(body, grid, block);
  EXPECT_TRUE(outcome.succeeded) << body;
  ASSERT_EQ(outcome.reports.count, 1) << body;
  EXPECT_EQ(outcome.reports.last, finding) << body << " gave " << name_of(outcome.reports.last);
}
void expect_clean(const std::string& body, Dim3 grid = {1}, Dim3 block = {64}) {
  const Outcome outcome = outcome_of(body, grid, block);
  EXPECT_TRUE(outcome.succeeded) << body;
  EXPECT_EQ(outcome.reports.count, 0) << body;
}

TEST(GlobalMemory, Bounds) {
  expect_fault("mad.wide.u32 %rd1, t, 16, x; st.global.u32 [%rd1+4], t;", Finding::out_of_bounds, {1}, {65});
  expect_clean("mad.wide.u32 %rd1, t, 16, x; st.global.u32 [%rd1+4], t;");
  expect_fault("ld.global.u32 %r4, [x+-4];", Finding::out_of_bounds);
  expect_fault("st.global.u32 [0], t;", Finding::host_pointer_in_kernel);
}

TEST(GlobalMemory, HostPointers) {
  std::uint32_t on_host = 0;
  Buffer<std::uint32_t> y(1);
  const Reports reports = reports_of([&] {
    EXPECT_FALSE(run(text_of("st.global.u32 [x], t;"), {}, reinterpret_cast<Address>(&on_host), y.address()));
  });
  EXPECT_EQ(reports.last, Finding::host_pointer_in_kernel);
}

TEST(GlobalMemory, UseAfterFree) {
  Buffer<std::uint32_t> x(4), y(4);
  const Address stale = x.address();
  x.free();
  const Reports reports =
      reports_of([&] { EXPECT_FALSE(run(text_of("st.global.u32 [x], t;"), {}, stale, y.address())); });
  EXPECT_EQ(reports.last, Finding::use_after_free);
}

TEST(GlobalMemory, Alignment) {
  expect_fault("st.global.v4.u32 [x+4], {t, t, t, t};", Finding::misaligned);
  expect_fault("st.global.u16 [x+1], t;", Finding::misaligned);
}

TEST(GlobalMemory, UninitialisedReads) {
  expect_note("mad.wide.u32 %rd1, t, 4, y; ld.global.u32 %r4, [%rd1];", Finding::uninitialised_read);
  expect_note("atom.global.add.u32 %r4, [y], 1;", Finding::uninitialised_read);
  expect_clean("st.volatile.global.u32 [y], 1;", {1}, {1});
  expect_clean("atom.global.exch.b32 %r4, [y], 1;");
  // Half of it is written: a struct with padding looks like that.
  expect_clean("mad.wide.u32 %rd1, t, 8, y; st.global.u32 [%rd1], t; ld.global.u64 %rd2, [%rd1];", {1}, {32});
}

TEST(SharedMemory, BoundsOfSharedLocalAndParameters) {
  expect_fault("st.shared.u32 [%r3+272], t;", Finding::out_of_bounds);
  expect_clean("st.shared.u32 [%r3+256], t;");
  expect_clean("add.u32 %r4, %r3, -8; st.shared.u32 [%r4+8], t;");
  expect_fault("st.shared.u32 [%r3+-4], t;", Finding::out_of_bounds);
  expect_fault(".local .align 4 .b8 frame[16]; mov.u64 %rd1, frame; st.local.u32 [%rd1+16], t;",
               Finding::out_of_bounds);
  expect_fault("mov.u64 %rd1, px; ld.param.u64 %rd2, [%rd1+16];", Finding::out_of_bounds);
}

TEST(SharedMemory, UninitialisedReads) {
  expect_note("ld.shared.u32 %r4, [%r3];", Finding::uninitialised_read);
  expect_clean("st.shared.u32 [%r3], t; ld.shared.u32 %r4, [%r3];");
  // What the block before wrote does not count.
  expect_note(
      "setp.ne.u32 %p1, block, 0; @%p1 bra READ; st.shared.u32 [%r3], t; bra END;\n"
      "READ: ld.shared.u32 %r4, [%r3]; END:",
      Finding::uninitialised_read, {2});
}

const std::string kOther = "xor.b32 %r5, t, 32; shl.b32 %r5, %r5, 2; add.u32 %r5, %r2, %r5;";     // of the other warp
const std::string kNeighbour = "xor.b32 %r5, t, 1; shl.b32 %r5, %r5, 2; add.u32 %r5, %r2, %r5;";  // of the same warp

TEST(SharedMemory, RacesBetweenWarps) {
  const std::string fill = "st.shared.u32 [%r3], t; bar.sync 0;";
  expect_note(fill + kOther + "ld.shared.u32 %r4, [%r5]; st.shared.u32 [%r3], t;", Finding::shared_memory_race);
  expect_note(fill + kOther + "st.shared.u32 [%r3], t; ld.shared.u32 %r4, [%r5];", Finding::shared_memory_race);
  const std::string split = kOther + "setp.lt.u32 %p1, t, 32;";
  expect_note(fill + split + "@%p1 ld.shared.u32 %r4, [%r5]; @!%p1 st.shared.u32 [%r3], t;",
              Finding::shared_memory_race);
  expect_note(fill + split + "@%p1 st.shared.u32 [%r3], t; @!%p1 ld.shared.u32 %r4, [%r5];",
              Finding::shared_memory_race);
  expect_note(fill + "st.shared.u32 [%r2], t;", Finding::shared_memory_race);
  expect_note(fill + "atom.shared.add.u32 %r4, [%r2], 1; ld.shared.u32 %r4, [%r2];", Finding::shared_memory_race);
  expect_clean(fill + kOther + "ld.shared.u32 %r4, [%r5]; bar.sync 0; st.shared.u32 [%r3], t;");
  expect_clean(fill + "atom.shared.add.u32 %r4, [%r2], 1; bar.sync 0; ld.shared.u32 %r4, [%r2];");
  expect_clean(fill + "ld.shared.u32 %r4, [%r2];");
}

TEST(SharedMemory, NeighbouringBytesAreNotTheSame) {
  // Warps write the two halves of each word.
  expect_clean(
      "and.b32 %r6, t, 31; shl.b32 %r6, %r6, 2; shr.u32 %r7, t, 5; mad.lo.u32 %r6, %r7, 2, %r6;"
      "add.u32 %r6, %r6, %r2; st.shared.u16 [%r6], t;");
}

TEST(SharedMemory, RacesBetweenLanes) {
  const std::string exchange = kNeighbour + "st.shared.u32 [%r3], t;";
  expect_note(exchange + "ld.shared.u32 %r4, [%r5];", Finding::shared_memory_race, {1}, {32});
  expect_clean(exchange + "bar.warp.sync -1; ld.shared.u32 %r4, [%r5];", {1}, {32});
  expect_clean(exchange + "ld.shared.u32 %r4, [%r3];", {1}, {32});
}

TEST(Blocks, RaceOnGlobalMemory) {
  expect_note("mad.wide.u32 %rd1, t, 4, x; st.global.u32 [%rd1], t;", Finding::block_race, {2});
  expect_note("mad.wide.u32 %rd1, block, 4, x; ld.global.u32 %r4, [x]; st.global.u32 [%rd1], t;", Finding::block_race,
              {2}, {1});
  expect_note("setp.eq.u32 %p1, block, 0; @%p1 st.global.u32 [x], t; @!%p1 red.global.add.u32 [x], 1;",
              Finding::block_race, {2}, {1});
  expect_clean("mad.lo.u32 %r4, block, 64, t; mad.wide.u32 %rd1, %r4, 4, x; st.global.u32 [%rd1], t;", {4});
  expect_clean("ld.global.u32 %r4, [x]; red.global.add.u32 [x+4], 1;", {4});
  // Bytes of one word, each by its own block.
  expect_clean("cvt.u64.u32 %rd1, block; add.u64 %rd1, %rd1, x; st.global.u8 [%rd1], t;", {8}, {1});
}

// The last block to finish adds up what all have written, and resets the counter.
std::string last_block_sums(const std::string& fence) {
  return "setp.ne.u32 %p1, t, 0; @%p1 bra END; mad.wide.u32 %rd1, block, 4, x; add.u64 %rd2, x, 512;\n"
         "st.global.u32 [%rd1], 7;\n" +
         fence +
         "atom.global.inc.u32 %r4, [%rd2], 4; setp.ne.u32 %p2, %r4, 4; @%p2 bra END;\n"
         "ld.global.u32 %r5, [x]; ld.global.u32 %r6, [x+4]; ld.global.u32 %r7, [x+12];\n"
         "st.global.u32 [%rd2], 0; st.global.u32 [x], %r5;\nEND:";
}
TEST(Blocks, ReleaseThroughFenceAndAtomic) {
  expect_clean(last_block_sums("membar.gl;"), {5});
  expect_clean(last_block_sums("fence.acq_rel.gpu;"), {5});
  expect_note(last_block_sums(""), Finding::block_race, {5});
  expect_note(last_block_sums("membar.cta;"), Finding::block_race, {5});
}

TEST(Blocks, WhatComesAfterTheFenceIsNotReleased) {
  expect_note(
      "add.u64 %rd2, x, 512; setp.ne.u32 %p1, block, 0; @%p1 bra LATER;\n"
      "st.global.u32 [x], 1; membar.gl; st.global.u32 [x+4], 2; red.global.add.u32 [%rd2], 1; bra END;\n"
      "LATER: atom.global.add.u32 %r4, [%rd2], 1; ld.global.u32 %r5, [x]; ld.global.u32 %r6, [x+4];\nEND:",
      Finding::block_race, {2}, {1});
  expect_clean(
      "add.u64 %rd2, x, 512; setp.ne.u32 %p1, block, 0; @%p1 bra LATER;\n"
      "st.global.u32 [x], 1; membar.gl; st.global.u32 [x+4], 2; red.global.add.u32 [%rd2], 1; bra END;\n"
      "LATER: atom.global.add.u32 %r4, [%rd2], 1; ld.global.u32 %r5, [x];\nEND:",
      {2}, {1});
}

TEST(Blocks, ReleaseIsHandedOn) {
  // Block 0 releases to block 1 through one counter, block 1 to block 2 through another.
  expect_clean(
      "setp.eq.u32 %p1, block, 1; setp.eq.u32 %p2, block, 2; @%p1 bra ONE; @%p2 bra TWO;\n"
      "st.global.u32 [x], 1; membar.gl; red.global.add.u32 [x+512], 1; bra END;\n"
      "ONE: atom.global.add.u32 %r4, [x+512], 1; membar.gl; red.global.add.u32 [x+516], 1; bra END;\n"
      "TWO: atom.global.add.u32 %r4, [x+516], 1; ld.global.u32 %r5, [x];\nEND:",
      {3}, {1});
}

// As in a decoupled look-back: every block takes what the eight before it have released, and releases it again.
TEST(Blocks, ReleaseIsHandedOnThroughManyBlocks) {
  const std::string chain =
      "add.u64 %rd2, x, 512; setp.ne.u32 %p1, block, 0; @%p1 bra LOOK; st.global.u32 [x], 1; bra OWN;\n"
      "LOOK: max.u32 %r4, block, 8; sub.u32 %r4, %r4, 8;\n"
      "BACK: mad.wide.u32 %rd3, %r4, 4, %rd2; ld.volatile.global.u32 %r5, [%rd3]; add.u32 %r4, %r4, 1;\n"
      "setp.lt.u32 %p1, %r4, block; @%p1 bra BACK; ld.global.u32 %r6, [x];\nOWN: ";
  const std::string own = "mad.wide.u32 %rd3, block, 4, %rd2; st.volatile.global.u32 [%rd3], 1;";
  expect_clean(chain + "membar.gl;" + own, {100}, {1});
  expect_note(chain + own, Finding::block_race, {100}, {1});
  // The blocks in between have nothing of their own to release, but hand on what they know only behind a fence.
  expect_note(chain + "setp.eq.u32 %p2, block, 0; @%p2 membar.gl;" + own, Finding::block_race, {100}, {1});
}

TEST(Barriers, Divergence) {
  expect_fault("setp.lt.u32 %p1, t, 40; @%p1 bar.sync 0; bar.sync 1;", Finding::divergent_barrier);
  expect_fault("setp.lt.u32 %p1, t, 40; @!%p1 exit; bar.sync 0;", Finding::divergent_barrier);
  expect_fault("setp.lt.u32 %p1, t, 40; @%p1 bra A; bar.sync 0; bra END; A: bar.sync 0; END:",
               Finding::divergent_barrier);
  expect_clean("bar.sync 0; setp.lt.u32 %p1, t, 40; @!%p1 exit; mov.u32 %r4, 1;");
}

TEST(Warps, OperationsThatNeverComplete) {
  expect_fault("setp.lt.u32 %p1, t, 16; @%p1 bar.warp.sync -1; bar.sync 0;", Finding::deadlock, {1}, {32});
  expect_fault("bar.warp.sync 0xff;", Finding::invalid_call, {1}, {32});
}

TEST(Kernels, EndlessLoopsEnd) {
  setenv("GPUSIM_BRANCH_LIMIT", "2", 1);
  expect_fault("LOOP: ld.volatile.global.u32 %r4, [x]; setp.eq.u32 %p1, %r4, 0; @%p1 bra LOOP;", Finding::deadlock, {1},
               {1});
  unsetenv("GPUSIM_BRANCH_LIMIT");
}

TEST(Kernels, WarpsMayWaitForEachOther) {
  // Warp 0 spins until warp 1 has set a flag.
  expect_clean(
      "setp.ge.u32 %p1, t, 32; @%p1 bra SET;\n"
      "LOOP: ld.volatile.global.u32 %r4, [x]; setp.eq.u32 %p2, %r4, 0; @%p2 bra LOOP; bra END;\n"
      "SET: st.volatile.global.u32 [x], 1;\nEND:");
}

TEST(Kernels, WrongLaunchesAreRefused) {
  const auto module = load_module(text_of(""), 0);
  const Launch launch{.grid = {1}, .block = {1}, .dynamic_shared_bytes = 0, .parameters = {}, .statistics = nullptr};
  const Reports reports = reports_of([&] { EXPECT_FALSE(run_kernel(*find_kernel(*module, "k"), launch)); });
  EXPECT_EQ(reports.last, Finding::invalid_launch);
}

}  // namespace
}  // namespace gpusim::test
