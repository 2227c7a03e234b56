// What instructions compute, against the same arithmetic on the host. Each case is one instruction applied to a table
// of operands, one thread a row.
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>

#include "ptx/half.h"
#include "ptx_harness.h"

namespace gpusim::test {
namespace {

// d = op(a, b, c) of 32-bit registers for every row.
std::vector<std::uint32_t> results_of(const std::string& instruction, const std::vector<std::uint32_t>& a,
                                      const std::vector<std::uint32_t>& b = {},
                                      const std::vector<std::uint32_t>& c = {}) {
  const std::string text = kernel_text(".param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd, .param .u32 n",
                                       R"(.reg .pred %p<4>;
.reg .b16 %h<8>;
.reg .b32 %r<9>, a, b, c, d;
.reg .b64 %rd<9>, w;
.reg .f64 %fd<4>;
mov.u32 %r1, %tid.x;
ld.param.u32 %r2, [n];
setp.ge.u32 %p1, %r1, %r2;
@%p1 bra END;
ld.param.u64 %rd1, [pa]; mad.wide.u32 %rd1, %r1, 4, %rd1; ld.global.u32 a, [%rd1];
ld.param.u64 %rd2, [pb]; mad.wide.u32 %rd2, %r1, 4, %rd2; ld.global.u32 b, [%rd2];
ld.param.u64 %rd3, [pc]; mad.wide.u32 %rd3, %r1, 4, %rd3; ld.global.u32 c, [%rd3];
)" + instruction + R"(
ld.param.u64 %rd4, [pd]; mad.wide.u32 %rd4, %r1, 4, %rd4; st.global.u32 [%rd4], d;
END: ret;)");
  const std::size_t count = a.size();
  std::vector<std::uint32_t> second = b;
  std::vector<std::uint32_t> third = c;
  second.resize(count);
  third.resize(count);
  Buffer<std::uint32_t> in_a(a), in_b(second), in_c(third), out(count);
  EXPECT_TRUE(run(text, {.grid = {}, .block = {64}}, in_a.address(), in_b.address(), in_c.address(), out.address(),
                  static_cast<std::uint32_t>(count)));
  return out.read();
}

std::uint32_t bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
float value(std::uint32_t bits_of_it) {
  return std::bit_cast<float>(bits_of_it);
}
std::vector<std::uint32_t> bits(const std::vector<float>& values) {
  std::vector<std::uint32_t> result;
  for (const float one : values) result.push_back(bits(one));
  return result;
}

const std::vector<std::uint32_t> kNumbers = {0, 1, 2, 31, 32, 255, 0x7fffffff, 0x80000000, 0xffffffff, 0x12345678};
std::vector<std::uint32_t> rotated(const std::vector<std::uint32_t>& list, std::size_t by) {
  std::vector<std::uint32_t> result;
  for (std::size_t at = 0; at < list.size(); ++at) result.push_back(list[(at + by) % list.size()]);
  return result;
}

TEST(Integers, DivideAndShiftAtTheEdges) {
  const auto a = kNumbers;
  for (std::size_t by = 0; by < a.size(); ++by) {
    const auto b = rotated(a, by);
    const auto quotient = results_of("div.s32 d, a, b;", a, b);
    const auto remainder = results_of("rem.u32 d, a, b;", a, b);
    const auto left = results_of("shl.b32 d, a, b;", a, b);
    const auto right = results_of("shr.s32 d, a, b;", a, b);
    const auto high = results_of("mul.hi.s32 d, a, b;", a, b);
    for (std::size_t at = 0; at < a.size(); ++at) {
      const auto x = static_cast<std::int32_t>(a[at]);
      const auto y = static_cast<std::int32_t>(b[at]);
      if (y != 0) {
        EXPECT_EQ(quotient[at], static_cast<std::uint32_t>(std::int64_t{x} / y));
        EXPECT_EQ(remainder[at], a[at] % b[at]);
      }
      EXPECT_EQ(left[at], b[at] > 31 ? 0U : a[at] << b[at]);
      EXPECT_EQ(right[at], static_cast<std::uint32_t>(x >> std::min(b[at], 31U)));
      EXPECT_EQ(high[at], static_cast<std::uint32_t>((std::int64_t{x} * y) >> 32));
    }
  }
}

TEST(Integers, CarryChainsAddAndMultiply) {
  const auto a = kNumbers;
  const auto b = rotated(a, 3);
  const auto high_of_sum = results_of("add.cc.u32 %r3, a, b; addc.u32 d, a, b;", a, b);
  const auto high_of_difference = results_of("sub.cc.u32 %r3, a, b; subc.u32 d, b, a;", a, b);
  const auto mad = results_of("mad.lo.cc.u32 %r3, a, b, a; madc.hi.u32 d, a, b, b;", a, b);
  for (std::size_t at = 0; at < a.size(); ++at) {
    const std::uint64_t wide_a = std::uint64_t{a[at]} << 32 | a[at];
    const std::uint64_t wide_b = std::uint64_t{b[at]} << 32 | b[at];
    EXPECT_EQ(high_of_sum[at], static_cast<std::uint32_t>((wide_a + wide_b) >> 32));
    const std::uint64_t swapped_a = std::uint64_t{b[at]} << 32 | a[at];
    const std::uint64_t swapped_b = std::uint64_t{a[at]} << 32 | b[at];
    EXPECT_EQ(high_of_difference[at], static_cast<std::uint32_t>((swapped_a - swapped_b) >> 32));
    EXPECT_EQ(mad[at],
              static_cast<std::uint32_t>((std::uint64_t{a[at]} * b[at] + (std::uint64_t{b[at]} << 32 | a[at])) >> 32));
  }
}

TEST(Integers, BitFields) {
  const auto a = kNumbers;
  for (const std::uint32_t position : {0U, 5U, 28U, 31U, 32U, 40U}) {
    for (const std::uint32_t length : {0U, 1U, 4U, 31U, 32U, 33U}) {
      const std::vector<std::uint32_t> b(a.size(), position), c(a.size(), length);
      const auto unsigned_field = results_of("bfe.u32 d, a, b, c;", a, b, c);
      const auto signed_field = results_of("bfe.s32 d, a, b, c;", a, b, c);
      const auto inserted = results_of("bfi.b32 d, a, 0x5555AAAA, b, c;", a, b, c);
      for (std::size_t at = 0; at < a.size(); ++at) {
        // Bit by bit, as the instruction set describes it.
        std::uint32_t plain = 0, extended = 0, merged = 0x5555aaaa;
        const std::uint32_t sign = length == 0 ? 0 : a[at] >> std::min(position + length - 1, 31U) & 1U;
        for (std::uint32_t bit = 0; bit < 32; ++bit) {
          const bool inside = bit < length && position + bit < 32;
          const std::uint32_t here = inside ? a[at] >> (position + bit) & 1U : 0;
          plain |= here << bit;
          extended |= (inside ? here : sign) << bit;
        }
        for (std::uint32_t bit = 0; bit < length && position + bit < 32; ++bit)
          merged = (merged & ~(1U << (position + bit))) | (bit < 32 ? a[at] >> bit & 1U : 0) << (position + bit);
        EXPECT_EQ(unsigned_field[at], plain) << position << ' ' << length;
        EXPECT_EQ(signed_field[at], extended) << std::hex << a[at] << ' ' << position << ' ' << length;
        EXPECT_EQ(inserted[at], merged) << position << ' ' << length;
      }
    }
  }
}

TEST(Integers, LogicOfThreeAndPermutation) {
  const auto a = kNumbers;
  const auto b = rotated(a, 1);
  const auto c = rotated(a, 2);
  const auto logic = results_of("lop3.b32 d, a, b, c, 0xE8;", a, b, c);  // majority
  const auto bytes = results_of("prmt.b32 d, a, b, 0xF726;", a, b);
  const auto funnel = results_of("shf.r.clamp.b32 d, a, b, c;", a, b, c);
  for (std::size_t at = 0; at < a.size(); ++at) {
    EXPECT_EQ(logic[at], (a[at] & b[at]) | (b[at] & c[at]) | (a[at] & c[at]));
    const std::uint64_t both = std::uint64_t{b[at]} << 32 | a[at];
    const auto byte = [&](unsigned which) { return static_cast<std::uint32_t>(both >> (8 * which) & 255U); };
    const std::uint32_t sign = (byte(7) & 128U) != 0 ? 255U : 0U;
    EXPECT_EQ(bytes[at], sign << 24 | byte(7) << 16 | byte(2) << 8 | byte(6));
    EXPECT_EQ(funnel[at], static_cast<std::uint32_t>(both >> std::min(c[at], 32U)));
  }
}

TEST(Floats, DirectedRoundingAndFlush) {
  const auto a = bits({1.0F, -1.0F, 3.0F, 1e-38F, 16777216.0F});
  const auto b = bits({0x1p-30F, 0x1p-30F, 7.0F, 0.5F, 1.0F});
  const auto zero = results_of("add.rz.f32 d, a, b;", a, b);
  const auto up = results_of("div.rp.f32 d, a, b;", a, b);
  const auto down = results_of("fma.rm.f32 d, a, b, a;", a, b);
  const auto flushed = results_of("mul.ftz.f32 d, a, b;", a, b);
  const auto kept = results_of("mul.f32 d, a, b;", a, b);
  const auto under = [](int mode, auto compute) {
    std::fesetround(mode);
    volatile float result = compute();
    std::fesetround(FE_TONEAREST);
    return bits(result);
  };
  for (std::size_t at = 0; at < a.size(); ++at) {
    volatile float x = value(a[at]);
    volatile float y = value(b[at]);
    EXPECT_EQ(zero[at], under(FE_TOWARDZERO, [&] { return x + y; }));
    EXPECT_EQ(up[at], under(FE_UPWARD, [&] { return x / y; }));
    EXPECT_EQ(down[at], under(FE_DOWNWARD, [&] { return std::fma(x, y, x); }));
    EXPECT_EQ(kept[at], bits(x * y));
  }
  EXPECT_EQ(flushed[3], 0U);
  EXPECT_NE(kept[3], 0U);
}

TEST(Floats, ComparisonsMinimumAndNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto a = bits({1, nan, -0.0F, 0.0F, nan, 2});
  const auto b = bits({2, 1, 0.0F, -0.0F, nan, 2});
  const auto flag = [&](const std::string& comparison) {
    return results_of("setp." + comparison + ".f32 %p2, a, b; selp.u32 d, 1, 0, %p2;", a, b);
  };
  using Flags = std::vector<std::uint32_t>;
  EXPECT_EQ(flag("lt"), (Flags{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(flag("ltu"), (Flags{1, 1, 0, 0, 1, 0}));
  EXPECT_EQ(flag("ne"), (Flags{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(flag("neu"), (Flags{1, 1, 0, 0, 1, 0}));
  EXPECT_EQ(flag("equ"), (Flags{0, 1, 1, 1, 1, 1}));
  EXPECT_EQ(flag("nan"), (Flags{0, 1, 0, 0, 1, 0}));
  EXPECT_EQ(flag("num"), (Flags{1, 0, 1, 1, 0, 1}));
  const auto least = results_of("min.f32 d, a, b;", a, b);
  EXPECT_EQ(least[1], bits(1.0F));
  EXPECT_EQ(least[2], bits(-0.0F));
  EXPECT_EQ(least[3], bits(-0.0F));
  EXPECT_EQ(results_of("max.f32 d, a, b;", a, b)[2], bits(0.0F));
  EXPECT_TRUE(std::isnan(value(results_of("min.NaN.f32 d, a, b;", a, b)[1])));
}

TEST(Conversions, ToIntegersSaturate) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto a = bits({2.5F, -2.5F, 1e20F, -1e20F, nan, 3.5F, 255.7F});
  using Words = std::vector<std::uint32_t>;
  const auto negative = [](int number) { return static_cast<std::uint32_t>(number); };
  EXPECT_EQ(results_of("cvt.rni.s32.f32 d, a;", a), (Words{2, negative(-2), 0x7fffffff, 0x80000000, 0, 4, 256}));
  EXPECT_EQ(results_of("cvt.rzi.u32.f32 d, a;", a), (Words{2, 0, 0xffffffff, 0, 0, 3, 255}));
  EXPECT_EQ(results_of("cvt.rmi.s32.f32 d, a;", a)[1], negative(-3));
  EXPECT_EQ(results_of("cvt.rpi.f32.f32 d, a;", a)[0], bits(3.0F));
  EXPECT_EQ(results_of("cvt.sat.u8.s32 %h1, a; cvt.u32.u16 d, %h1;", {300, negative(-5), 77}), (Words{255, 0, 77}));
  EXPECT_EQ(results_of("cvt.s32.s8 d, a;", {0x80, 0x17f}), (Words{negative(-128), 127}));
  EXPECT_EQ(results_of("cvt.rz.f32.u32 d, a;", {0xffffffff})[0], bits(4294967040.0F));
}

TEST(Conversions, PackedHalvesAndTf32) {
  const auto a = bits({1.0F, 65519.0F, -2.5F, 1e-8F});
  const auto b = bits({0.333333F, 70000.0F, 0.0F, 5e-8F});
  const auto pairs = results_of("cvt.rn.f16x2.f32 d, a, b;", a, b);
  const auto truncated = results_of("cvt.rz.bf16x2.f32 d, a, b;", a, b);
  const auto relu = results_of("cvt.rn.relu.f16x2.f32 d, a, b;", a, b);
  for (std::size_t at = 0; at < a.size(); ++at) {
    const std::uint32_t high = ptx::Half(value(a[at])).bits;
    const std::uint32_t low = ptx::Half(value(b[at])).bits;
    EXPECT_EQ(pairs[at], high << 16 | low);
    EXPECT_EQ(truncated[at], (a[at] & 0xffff0000U) | b[at] >> 16);
  }
  EXPECT_EQ(relu[2] >> 16, 0U);
  EXPECT_EQ(results_of("cvt.rna.tf32.f32 d, a;", {0x3f801000, 0x3f800fff}),
            (std::vector<std::uint32_t>{0x3f802000, 0x3f800000}));
}

// The fused multiply-add of halves rounds once: compared with exact arithmetic in long double.
TEST(Halves, MultiplyAddRoundsOnce) {
  // Just below the middle of two halves, by less than a float can tell: rounding twice would go up.
  EXPECT_EQ(results_of("fma.rn.f16x2 d, a, b, c;", {0x3c01}, {0x0ffe}, {0x3c01})[0], 0x3c01U);
  std::vector<std::uint32_t> a, b, c;
  std::uint32_t state = 1;
  for (int count = 0; count < 4000; ++count) {
    const auto next = [&] {
      state = state * 1664525U + 1013904223U;
      return state >> 16;
    };
    a.push_back(next());
    b.push_back(next());
    c.push_back(next());
  }
  const auto of = [](std::uint32_t word) {
    ptx::Half half;
    half.bits = static_cast<std::uint16_t>(word);
    return static_cast<float>(half);
  };
  for (std::size_t begin = 0; begin < a.size(); begin += 50) {
    const auto part = [begin](const std::vector<std::uint32_t>& list) {
      return std::vector<std::uint32_t>(list.begin() + static_cast<std::ptrdiff_t>(begin),
                                        list.begin() + static_cast<std::ptrdiff_t>(begin) + 50);
    };
    const auto results = results_of("fma.rn.f16x2 d, a, b, c;", part(a), part(b), part(c));
    for (std::size_t at = 0; at < results.size(); ++at) {
      const float x = of(a[begin + at]), y = of(b[begin + at]), z = of(c[begin + at]);
      const long double exact = static_cast<long double>(x) * y + z;  // 64 bits of mantissa: exact but for tiny addends
      if (std::isnan(x) || std::isnan(y) || std::isnan(z) || std::isinf(x) || std::isinf(y) || std::isinf(z)) continue;
      const float got = of(results[at]);
      if (std::isinf(got)) {
        EXPECT_GE(std::fabs(exact), 65520.0L);
        continue;
      }
      const auto neighbours = {of(results[at] + 1), of(results[at] - 1)};
      for (const float other : neighbours) {
        if (std::isfinite(other)) {
          EXPECT_LE(std::fabs(static_cast<long double>(got) - exact),
                    std::fabs(static_cast<long double>(other) - exact));
        }
      }
    }
  }
}

TEST(Functions, AreCloseToTheHost) {
  const auto a = bits({0.1F, 1.0F, 2.0F, 7.5F, 100.0F});
  const std::pair<const char*, float (*)(float)> cases[] = {
      {"sin.approx.f32", [](float x) { return std::sin(x); }},
      {"cos.approx.ftz.f32", [](float x) { return std::cos(x); }},
      {"ex2.approx.f32", [](float x) { return std::exp2(x); }},
      {"lg2.approx.f32", [](float x) { return std::log2(x); }},
      {"rsqrt.approx.f32", [](float x) { return 1 / std::sqrt(x); }},
      {"rcp.rn.f32", [](float x) { return 1 / x; }},
      {"sqrt.rn.f32", [](float x) { return std::sqrt(x); }},
      {"tanh.approx.f32", [](float x) { return std::tanh(x); }},
  };
  for (const auto& [name, reference] : cases) {
    const auto results = results_of(std::string(name) + " d, a;", a);
    for (std::size_t at = 0; at < a.size(); ++at)
      EXPECT_NEAR(value(results[at]), reference(value(a[at])), 1e-6F * std::fabs(reference(value(a[at]))) + 1e-7F)
          << name;
  }
}

}  // namespace
}  // namespace gpusim::test
