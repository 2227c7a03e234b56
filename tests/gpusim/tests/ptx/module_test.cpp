// Parsing and lowering: variables, parameters, scopes, calls; and that nothing unknown is let through.
#include "ptx/module.h"

#include "ptx_harness.h"

namespace gpusim::test {
namespace {

using ptx::parse_integer;

TEST(Literals, AllForms) {
  std::uint64_t value = 0;
  const std::pair<const char*, std::uint64_t> cases[] = {{"0", 0},
                                                         {"12", 12},
                                                         {"12U", 12},
                                                         {"0x1F", 31},
                                                         {"017", 15},
                                                         {"0b101", 5},
                                                         {"0U", 0},
                                                         {"0f3F800000", 0x3f800000},
                                                         {"0d3FF0000000000000", 0x3ff0000000000000}};
  for (const auto& [text, expected] : cases) {
    EXPECT_TRUE(parse_integer(text, value)) << text;
    EXPECT_EQ(value, expected) << text;
  }
  for (const char* text : {"", "x", "1.5", "12abc", "%r1"}) EXPECT_FALSE(parse_integer(text, value)) << text;
}

TEST(Module, ParametersAreAlignedByTheirTypes) {
  const auto module = load_module(
      kernel_text(".param .u8 a, .param .u64 .ptr .global .align 4 b, .param .align 8 .b8 c[12], .param .f32 d",
                  "ret;"),
      0);
  const auto& parameters = module->functions.at("k").parameters;
  ASSERT_EQ(parameters.size(), 4U);
  EXPECT_EQ(parameters[1].offset, 8U);
  EXPECT_EQ(parameters[2].offset, 16U);
  EXPECT_EQ(parameters[3].offset, 28U);
  EXPECT_EQ(resources_of(*find_kernel(*module, "k")).parameter_bytes, 32U);
}

TEST(Module, VariablesAreInitialised) {
  const auto module = load_module(
      ".version 8.0\n.target sm_80\n.address_size 64\n"
      ".global .align 4 .u32 list[4] = {1, 0x2, -1};\n.const .f32 one = 0f3F800000;\n"
      ".global .u64 pointer = generic(list)+4;\n.global .align 8 .b8 zero[100];\n",
      0);
  GlobalVariable list, one, pointer, zero, absent;
  ASSERT_TRUE(find_variable(*module, "list", list));
  ASSERT_TRUE(find_variable(*module, "one", one));
  ASSERT_TRUE(find_variable(*module, "pointer", pointer));
  ASSERT_TRUE(find_variable(*module, "zero", zero));
  EXPECT_FALSE(find_variable(*module, "absent", absent));
  const DeviceMemory& memory = DeviceMemory::get();
  const std::uint32_t expected[4] = {1, 2, ~0U, 0};
  EXPECT_EQ(std::memcmp(memory.translate(list.address), expected, 16), 0);
  EXPECT_EQ(*reinterpret_cast<float*>(memory.translate(one.address)), 1.0F);
  EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(memory.translate(pointer.address)), list.address + 4);
  EXPECT_EQ(zero.bytes, 100U);
  EXPECT_EQ(memory.check(zero.address, 100, Access::read), "");
}

TEST(Module, ResourcesOfAKernel) {
  const auto module = load_module(
      ".version 8.0\n.target sm_75\n.address_size 64\n.shared .align 4 .b8 tile[100];\n"
      ".visible .entry k()\n.maxntid 64, 2, 1\n.minnctapersm 2\n{\n.local .align 16 .b8 frame[24];\n.reg .b32 %r<3>;\n"
      ".reg .b64 %rd<2>;\nmov.u32 %r1, tile;\nmov.u64 %rd1, frame;\nret;\n}\n",
      0);
  const KernelResources resources = resources_of(*find_kernel(*module, "k"));
  EXPECT_EQ(resources.static_shared_bytes, 112U);
  EXPECT_EQ(resources.local_bytes, 32U);
  EXPECT_EQ(resources.max_threads_per_block, 128);
  EXPECT_EQ(resources.ptx_target, 75);
  EXPECT_EQ(find_kernel(*module, "other"), nullptr);
}

TEST(Module, FunctionsAreInlinedWithTheirOwnNames) {
  const std::string function =
      ".func (.param .b32 result) square(.param .b32 x)\n{\n.reg .b32 %r<3>;\nld.param.b32 %r1, [x];\n"
      "mul.lo.s32 %r2, %r1, %r1;\nst.param.b32 [result], %r2;\nret;\n}\n";
  const std::string text = kernel_text(".param .u64 out",
                                       R"(.reg .b32 %r<9>;
.reg .b64 %rd<3>;
mov.u32 %r1, %tid.x;
{
.param .b32 p;
st.param.b32 [p], %r1;
.param .b32 q;
call.uni (q), square, (p);
ld.param.b32 %r2, [q];
}
ld.param.u64 %rd1, [out];
mad.wide.u32 %rd2, %r1, 4, %rd1;
st.global.u32 [%rd2], %r2;
ret;)",
                                       "sm_80", function);
  Buffer<std::uint32_t> out(40);
  ASSERT_TRUE(run(text, {.grid = {}, .block = {40}}, out.address()));
  for (std::uint32_t thread = 0; thread < 40; ++thread) EXPECT_EQ(out.read()[thread], thread * thread);
}

TEST(Module, ScopesOfInlineAssembly) {
  const std::string text = kernel_text(".param .u64 out",
                                       R"(.reg .b32 %r<3>;
.reg .b64 %rd<2>;
ld.param.u64 %rd1, [out];
mov.u32 %r1, 5;
{ .reg.b32 t, u; .reg .pred p; setp.ne.b32 p, %r1, 0; mov.b32 t, 7; { .reg.b32 t; mov.b32 t, 9; @!p bra SKIP; add.u32 %r1, t, 1; } SKIP: add.u32 %r1, %r1, t; }
st.global.u32 [%rd1], %r1;
ret;)");
  Buffer<std::uint32_t> out(1);
  ASSERT_TRUE(run(text, {}, out.address()));
  EXPECT_EQ(out.read()[0], 17U);
}

// Everything that is not understood is an error that names it and its line.
struct Refusal {
  const char* instruction;
  const char* names;
};
class Refusals : public testing::TestWithParam<Refusal> {};

TEST_P(Refusals, AreLoud) {
  const std::string text = kernel_text(".param .u64 out",
                                       ".reg .pred %p<3>; .reg .b16 %rs<5>; .reg .b32 %r<9>; .reg .f32 %f<9>; "
                                       ".reg .b64 %rd<5>; .reg .f64 %fd<4>;\n" +
                                           std::string(GetParam().instruction) + "\nret;");
  const auto module = load_module(text, 0);
  const std::string error = error_of([&] { find_kernel(*module, "k"); });
  EXPECT_NE(error.find(GetParam().names), std::string::npos) << error;
  EXPECT_NE(error.find("PTX line 8"), std::string::npos) << error;
}

INSTANTIATE_TEST_SUITE_P(
    All, Refusals,
    testing::Values(
        Refusal{"frobnicate.u32 %r1, %r2;", "opcode 'frobnicate'"},
        Refusal{"add.sat.u32 %r1, %r2, %r3;", "modifier '.sat'"},
        Refusal{"add.ftz.f64 %fd1, %fd2, %fd3;", "modifier '.ftz'"},
        Refusal{"add.ftz.f16 %rs1, %rs2, %rs3;", "modifier '.ftz'"},
        Refusal{"mul.s32 %r1, %r2, %r3;", "without .lo, .hi or .wide"},
        Refusal{"min.xorsign.abs.f32 %f1, %f2, %f3;", "modifier '.xorsign'"},
        Refusal{"ld.global.L2::cache_hint.u32 %r1, [%rd1], %rd2;", "number of operands"},
        Refusal{"ld.global.v8.u32 %r1, [%rd1];", "modifier '.v8'"},
        Refusal{"ld.shared::cluster.u32 %r1, [%rd1];", "modifier '.shared::cluster'"},
        Refusal{"cvt.rn.satfinite.f16.f32 %rs1, %f1;", "modifier '.satfinite'"},
        Refusal{"cvt.u32.f32 %r1, %f1;", "without rounding"}, Refusal{"shfl.up.b32 %r1, %r2, 1, 0;", "without .sync"},
        Refusal{"barrier.cluster.arrive;", "number of operands"}, Refusal{"fence.proxy.async;", "fence without"},
        Refusal{"add.u32 %r1, %r2, %rd1;", "another width"},
        Refusal{"add.u32 %r1, %r2, %nothing;", "unknown name '%nothing'"},
        Refusal{"add.f32 %f1, %f2, 1;", "integer literal"},
        Refusal{"mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%r1}, {%r2}, {%r3}, {%r4};", "shape of mma"},
        Refusal{"atom.global.add.noftz.v2.f16 %r1, [%rd1], %r2;", "modifier '.v2'"},
        Refusal{"call.uni nowhere, ();", "function 'nowhere'"}, Refusal{".reg .v4 .f32 %v;", "attribute '.v4'"},
        Refusal{"mov.u64 %rd1, %tid.x;", "64-bit operand"}));

TEST(Refusal, OfTheModule) {
  EXPECT_NE(error_of([] {
              load_module(".version 8.0\n.target sm_80\n.address_size 64\n.tex .u32 t;\n", 0);
            }).find("PTX line 4: unknown directive '.tex'"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              load_module(".target sm_80\n.visible .entry k()\n.clusterlaunch 2\n{ ret; }", 0);
            }).find("'.clusterlaunch'"),
            std::string::npos);
  EXPECT_NE(error_of([] { load_module(".target sm_80\n.visible .entry k(\n", 0); }), "");
}

TEST(Refusal, OfAnUndefinedLabelAndOfRecursion) {
  const auto label = load_module(kernel_text("", "bra NOWHERE; ret;"), 0);
  EXPECT_NE(error_of([&] { find_kernel(*label, "k"); }).find("label 'NOWHERE'"), std::string::npos);
  const auto recursion =
      load_module(kernel_text("", "call.uni f, (); ret;", "sm_80", ".func f() { call.uni f, (); ret; }"), 0);
  EXPECT_NE(error_of([&] { find_kernel(*recursion, "k"); }).find("recursion"), std::string::npos);
}

TEST(Refusal, OfPrintf) {
  const auto module = load_module(
      kernel_text("", "{ .param .b64 a; .param .b64 b; .param .b32 r; call.uni (r), vprintf, (a, b); } ret;", "sm_80",
                  ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);"),
      0);
  EXPECT_NE(error_of([&] { find_kernel(*module, "k"); }).find("vprintf"), std::string::npos);
}

}  // namespace
}  // namespace gpusim::test
