// Figures of a launch, and coverage of source lines.
#include <fstream>
#include <sstream>

#include "ptx_harness.h"

namespace gpusim::test {
namespace {

GpusimLaunch figures_of(const std::string& body, Dim3 grid = {1}, Dim3 block = {32}) {
  const std::string text = kernel_text(".param .u64 px", R"(.reg .pred %p<4>;
.reg .b32 %r<9>, t;
.reg .b64 %rd<9>, x;
.shared .align 16 .b8 s[8192];
mov.u32 t, %tid.x;
ld.param.u64 x, [px];
mov.u32 %r8, s;
)" + body + "\nret;");
  Buffer<std::uint32_t> x(std::vector<std::uint32_t>(4096));
  GpusimLaunch figures;
  EXPECT_TRUE(
      run(text, {.grid = grid, .block = block, .dynamic_shared_bytes = 0, .statistics = &figures}, x.address()));
  return figures;
}

TEST(Statistics, InstructionsAndLanes) {
  const GpusimLaunch figures = figures_of("setp.lt.u32 %p1, t, 10; @%p1 mov.u32 %r1, 5;", {3}, {40});
  EXPECT_STREQ(figures.kernel, "k");
  EXPECT_EQ(figures.grid[0], 3U);
  EXPECT_EQ(figures.block[0], 40U);
  EXPECT_EQ(figures.warp_instructions, 3U * 2 * 6);          // three at the start, setp, mov, ret
  EXPECT_EQ(figures.lane_instructions, 3U * (40 * 5 + 10));  // the guarded mov: ten lanes
  EXPECT_EQ(figures.divergent_branches, 0U);
}

TEST(Statistics, DivergentBranches) {
  const auto branch = [](const char* condition) {
    return figures_of(std::string(condition) + " @%p1 bra SKIP; mov.u32 %r1, 1; SKIP: mov.u32 %r2, 2;")
        .divergent_branches;
  };
  EXPECT_EQ(branch("setp.lt.u32 %p1, t, 10;"), 1U);
  EXPECT_EQ(branch("setp.lt.u32 %p1, t, 99;"), 0U);
}

TEST(Statistics, SectorsOfGlobalMemory) {
  const auto read = [](const char* stride) {
    return figures_of(std::string("mad.wide.u32 %rd1, t, ") + stride + ", x; ld.global.u32 %r1, [%rd1];");
  };
  EXPECT_EQ(read("4").global_read_sectors, 4U);
  EXPECT_EQ(read("4").global_read_bytes, 128U);
  EXPECT_EQ(read("8").global_read_sectors, 8U);
  EXPECT_EQ(read("32").global_read_sectors, 32U);
  EXPECT_EQ(read("0").global_read_sectors, 1U);
  EXPECT_EQ(read("0").global_read_bytes, 128U);
  const GpusimLaunch write =
      figures_of("mad.wide.u32 %rd1, t, 16, x; setp.lt.u32 %p1, t, 3; @%p1 st.global.v4.u32 [%rd1], {t, t, t, t};");
  EXPECT_EQ(write.global_write_bytes, 48U);
  EXPECT_EQ(write.global_write_sectors, 2U);
  EXPECT_EQ(write.global_read_bytes, 0U);
}

TEST(Statistics, BankConflicts) {
  const auto conflicts = [](const char* stride, const char* store = "st.shared.u32 [%r1], t;") {
    return figures_of(std::string("mad.lo.u32 %r1, t, ") + stride + ", %r8; " + store);
  };
  EXPECT_EQ(conflicts("4").shared_accesses, 1U);
  EXPECT_EQ(conflicts("4").shared_conflicts, 0U);
  EXPECT_EQ(conflicts("8").shared_conflicts, 1U);
  EXPECT_EQ(conflicts("128").shared_conflicts, 31U);
  EXPECT_EQ(conflicts("132").shared_conflicts, 0U);
  EXPECT_EQ(conflicts("0").shared_conflicts, 0U);
  EXPECT_EQ(conflicts("16", "st.shared.v4.u32 [%r1], {t, t, t, t};").shared_conflicts, 0U);
  EXPECT_EQ(conflicts("8", "st.shared.v2.u32 [%r1], {t, t};").shared_conflicts, 0U);
}

TEST(Statistics, AtomicsCountLanes) {
  EXPECT_EQ(figures_of("setp.lt.u32 %p1, t, 5; @%p1 red.global.add.u32 [x], 1;").atomics, 5U);
}

TEST(Coverage, LinesThatRanAndLinesThatDidNot) {
  const std::string text =
      ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u32 n)\n{\n.reg .b32 %r<4>;\n"
      ".reg .pred %p<2>;\n\t.loc 1 10 1\nld.param.u32 %r1, [n];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra END;\n"
      "\t.loc 1 11 1\nmov.u32 %r2, 1;\n\t.loc 2 99 1, function_name $x, inlined_at 1 12 1\nmov.u32 %r3, 1;\n"
      "\t.loc 1 13 1\nEND: ret;\n}\n.visible .entry never()\n{\n\t.loc 1 20 1\nret;\n}\n"
      ".file 1 \"/src/kernel.cu\"\n.file 2 \"/src/helper.h\"\n";
  const auto module = load_module(text, 0);
  run(*module, {.grid = {3}, .block = {64}}, std::uint32_t{0});
  PtxModule* modules[] = {module.get()};
  const std::string path = testing::TempDir() + "gpusim_coverage.info";
  write_coverage(modules, path);
  std::ifstream in(path);
  std::stringstream written;
  written << in.rdbuf();
  EXPECT_EQ(written.str(),
            "TN:\nSF:/src/helper.h\nDA:99,0\nLF:1\nLH:0\nend_of_record\n"
            "TN:\nSF:/src/kernel.cu\nDA:10,6\nDA:11,0\nDA:13,6\nDA:20,0\nLF:4\nLH:2\nend_of_record\n");
}

}  // namespace
}  // namespace gpusim::test
