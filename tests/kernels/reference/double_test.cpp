// The reference in f64: for every op case, f32 storage gives the f64 result rounded to float, and the f64 result has
// digits that float has not. An op whose reference kernel knows only float fails here.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/philox.h"
#include "kernels/ops/batch_norm.h"
#include "kernels/ops/conv2d.h"
#include "kernels/ops/shape_ops.h"
#include "support/op_cases.h"

namespace trifold::test {
namespace {

const OpRun kCaseRun{.backend = reference_backend(), .context = case_context()};

bool fits_float(double value) {
  return static_cast<double>(static_cast<float>(value)) == value;
}

HostTensor widened(const HostTensor& tensor, DType type) {
  if (tensor.desc.dtype == type) return tensor;
  HostTensor wide{.desc = tensor.desc, .opaque = tensor.opaque};
  wide.desc.dtype = type;
  wide.data.resize(wide.desc.bytes());
  for (std::size_t i = 0; i < wide.as<double>().size(); ++i) wide.as<double>()[i] = tensor.number(i);
  return wide;
}

// Arithmetic is in double either way: only the store rounds.
void expect_rounded(const HostTensor& rounded, const HostTensor& exact, const std::string& name) {
  ASSERT_EQ(rounded.desc.shape, exact.desc.shape);
  for (std::size_t i = 0; i < static_cast<std::size_t>(exact.desc.elements()); ++i) {
    const double allowed = 0x1p-23 * std::abs(exact.number(i)) + 0x1p-140;
    if (std::abs(rounded.number(i) - exact.number(i)) <= allowed || rounded.number(i) == exact.number(i)) continue;
    ADD_FAILURE() << name << "[" << i << "] is " << rounded.number(i) << " in f32, " << exact.number(i) << " in f64";
    return;
  }
}

class ReferenceDouble : public testing::TestWithParam<OpCase> {};

TEST_P(ReferenceDouble, FloatIsTheDoubleResultRounded) {
  const OpCase wide_case = in_double(GetParam());
  std::vector<HostTensor> narrow = draw_values(GetParam(), 0);
  std::vector<HostTensor> wide = draw_values(wide_case, 0);
  for (const CaseStep& step : GetParam().steps) {
    SCOPED_TRACE(to_string(*step.op));
    const std::vector<HostTensor> rounded = run_step(kCaseRun, GetParam(), step, narrow);
    const std::vector<HostTensor> exact = run_step(kCaseRun, wide_case, step, wide);
    for (std::size_t i = 0; i < step.out.size(); ++i) {
      const auto index = static_cast<std::size_t>(step.out[i]);
      if (GetParam().values[index].opaque)
        EXPECT_EQ(rounded[i].data, exact[i].data);
      else
        expect_rounded(rounded[i], exact[i], GetParam().values[index].name);
      // The next step starts from the same numbers in both.
      narrow[index] = rounded[i];
      wide[index] = widened(rounded[i], exact[i].desc.dtype);
    }
  }
}

// The gradient of log-probabilities without smoothing is a power of two here, and what comes from 16 bits fits float.
bool result_fits_float(const OpCase& op_case, const CaseStep& step) {
  if (op_case.name == "cross_entropy_of_log_probabilities") return true;
  return step.op->name() == Cast().name() &&
         size_of(op_case.values[static_cast<std::size_t>(step.in[0])].desc.dtype) == 2;
}

TEST_P(ReferenceDouble, KeepsTheDigitsOfDouble) {
  const OpCase wide_case = in_double(GetParam());
  std::vector<HostTensor> values = draw_values(wide_case, 0);
  for (HostTensor& value : values)
    if (value.desc.dtype == DType::f64)
      for (double& number : value.as<double>()) number *= 1 + 1e-9;
  for (const CaseStep& step : wide_case.steps) {
    SCOPED_TRACE(to_string(*step.op));
    const std::vector<HostTensor> made = run_step(kCaseRun, wide_case, step, values);
    for (std::size_t i = 0; i < step.out.size(); ++i) {
      const auto index = static_cast<std::size_t>(step.out[i]);
      values[index] = made[i];
      if (GetParam().values[index].desc.dtype != DType::f32 || made[i].desc.dtype != DType::f64) continue;
      bool all_simple = true;  // zeros and infinities
      bool all_fit = true;
      for (const double number : made[i].as<double>()) {
        all_simple = all_simple && (number == 0 || std::isinf(number));
        all_fit = all_fit && fits_float(number);
      }
      EXPECT_TRUE(all_simple || !all_fit || result_fits_float(wide_case, step)) << wide_case.values[index].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ReferenceDouble, testing::ValuesIn(op_cases()),
                         [](const auto& param_info) { return param_info.param.name; });

// Numbers with all the digits of double.
HostTensor doubles(const Shape& shape, std::uint32_t stream) {
  HostTensor tensor{.desc = {shape, DType::f64}};
  tensor.data.resize(tensor.desc.bytes());
  RandomSequence random(5, Purpose::synthetic, stream);
  for (double& number : tensor.as<double>()) number = std::sin(1 + 7.0 * static_cast<double>(random.normal()));
  return tensor;
}

TEST(ReferenceDoubleFormulas, Conv2dIsAPlainLoopOfDoubles) {
  const HostTensor x = doubles({2, 3, 5, 4}, 0);
  const HostTensor w = doubles({6, 3, 3, 3}, 1);
  const HostTensor bias = doubles({6}, 2);
  Conv2dForward op;
  op.args.pad = {1, 1};
  op.bias = true;
  const auto made =
      run_op(kCaseRun, op, std::vector{x, w, bias}, std::vector<OpOutput>{{.desc = {Shape{2, 6, 5, 4}, DType::f64}}});
  std::size_t at = 0;
  for (int n = 0; n < 2; ++n)
    for (int o = 0; o < 6; ++o)
      for (int p = 0; p < 5; ++p)
        for (int q = 0; q < 4; ++q) {
          double sum = bias.number(static_cast<std::size_t>(o));
          for (int c = 0; c < 3; ++c)
            for (int h = std::max(0, p - 1); h <= std::min(4, p + 1); ++h)
              for (int v = std::max(0, q - 1); v <= std::min(3, q + 1); ++v)
                sum += x.number(static_cast<std::size_t>(((n * 3 + c) * 5 + h) * 4 + v)) *
                       w.number(static_cast<std::size_t>(((o * 3 + c) * 3 + h - p + 1) * 3 + v - q + 1));
          EXPECT_NEAR(made[0].number(at++), sum, 1e-14);
        }
}

TEST(ReferenceDoubleFormulas, BatchNormTakesStatisticsInDouble) {
  const HostTensor x = doubles({50, 1}, 0);
  BatchNormStatistics op;
  op.group = 50;
  const TensorDesc channel{Shape{1}, DType::f64};
  const TensorDesc row{Shape{1, 1}, DType::f64};
  const auto made =
      run_op(kCaseRun, op, std::vector{x, doubles({1}, 1), doubles({1}, 2)},
             std::vector<OpOutput>{
                 {.desc = row}, {.desc = row}, {.desc = channel, .updates = 1}, {.desc = channel, .updates = 2}});
  double mean = 0;
  for (const double number : x.as<double>()) mean += number / 50;
  double variance = 0;
  for (const double number : x.as<double>()) variance += (number - mean) * (number - mean) / 50;
  EXPECT_NEAR(made[0].number(0), mean, 1e-14);
  EXPECT_NEAR(made[1].number(0), 1 / std::sqrt(variance + op.eps), 1e-14);
}

// Statistics of two halves, joined, are those of the whole: to the digits of double.
TEST(ReferenceDoubleFormulas, BatchNormJoinsInDouble) {
  const TensorDesc channel{Shape{1}, DType::f64};
  const std::vector<OpOutput> averages{{.desc = channel}, {.desc = channel}};
  const auto statistics = [&](const HostTensor& x, std::int64_t group) {
    BatchNormStatistics op;
    op.group = group;
    const TensorDesc rows{Shape{x.desc.shape[0] / group, 1}, DType::f64};
    return run_op(kCaseRun, op, std::vector{x, doubles({1}, 1), doubles({1}, 2)},
                  std::vector<OpOutput>{{.desc = rows}, {.desc = rows}, averages[0], averages[1]});
  };
  const HostTensor x = doubles({50, 1}, 0);
  const auto whole = statistics(x, 50);
  const auto halves = statistics(x, 25);
  const std::vector<HostTensor> in{halves[0], halves[1], doubles({1}, 1), doubles({1}, 2)};
  const TensorDesc row{Shape{1, 1}, DType::f64};

  BatchNormJoin replicas;
  replicas.group = 25;
  replicas.span = 2;
  const auto joined =
      run_op(kCaseRun, replicas, in, std::vector<OpOutput>{averages[0], averages[1], {.desc = row}, {.desc = row}});
  for (const std::size_t i : {0, 1, 2, 3}) EXPECT_NEAR(joined[(i + 2) % 4].number(0), whole[i].number(0), 1e-13) << i;

  BatchNormJoinRows rows;
  rows.group = 25;
  rows.pixels = {1, 1};
  rows.running = true;
  const auto of_rows =
      run_op(kCaseRun, rows, in, std::vector<OpOutput>{{.desc = row}, {.desc = row}, averages[0], averages[1]});
  for (const std::size_t i : {0, 1, 2, 3}) EXPECT_NEAR(of_rows[i].number(0), whole[i].number(0), 1e-13) << i;
}

TEST(ReferenceDoubleFormulas, CastsBetweenAllFloatTypes) {
  const HostTensor x = doubles({1, 9}, 0);
  const auto cast = [](const HostTensor& from, DType to) {
    return run_op(kCaseRun, Cast(), std::vector{from}, std::vector<OpOutput>{{.desc = {from.desc.shape, to}}})[0];
  };
  for (const DType type : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    SCOPED_TRACE(name_of(type));
    const HostTensor there = cast(x, type);
    const HostTensor back = cast(there, DType::f64);
    const double rounding = type == DType::f64   ? 0
                            : type == DType::f32 ? 0x1p-24
                            : type == DType::f16 ? 0x1p-11
                                                 : 0x1p-8;
    for (std::size_t i = 0; i < 9; ++i) {
      EXPECT_NEAR(there.number(i), x.number(i), rounding);  // numbers below 1
      EXPECT_EQ(back.number(i), there.number(i));
    }
  }
}

TEST(ReferenceDoubleFormulas, AMixOfTypesIsRefused) {
  HostTensor w{.desc = {Shape{6, 3, 3, 3}}};
  w.data.resize(w.desc.bytes());
  const std::vector<OpOutput> y{{.desc = {Shape{2, 6, 3, 2}, DType::f64}}};
  EXPECT_THROW(run_op(kCaseRun, Conv2dForward(), std::vector{doubles({2, 3, 5, 4}, 0), w}, y), Error);
}

}  // namespace
}  // namespace trifold::test
