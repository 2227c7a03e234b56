// Every op of the CPU backend gives what the reference gives, for every case, from plain and from blocked inputs, with
// and without taking over its inputs' memory. Each step starts from the reference's values, so errors do not add up.
#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "kernels/ops/conv2d.h"
#include "support/op_cases.h"

namespace trifold::test {
namespace {

// Sums of a few hundred products in float: about 1e-6 of the largest element.
constexpr double kTolerance = 2e-5;
// Winograd's transforms cost two to three digits; strict_math is the promise to do without them.
constexpr double kWinogradTolerance = 5e-4;

// How the backend blocks channels: as it wants the output of an ordinary convolution. 0: it does not.
int native_block(const Backend& backend) {
  const TensorDesc x{{2, 32, 8, 8}};
  const TensorDesc w{{32, 32, 3, 3}};
  Conv2dForward op;
  op.args.pad = {1, 1};
  return backend.choose_layouts(op, std::vector{x, w}, std::vector{x}).out[0].block;
}

void expect_equal(const HostTensor& actual, const HostTensor& expected, double tolerance, const std::string& name) {
  const std::size_t count = static_cast<std::size_t>(expected.desc.elements());
  double largest = 0;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(expected.number(i)));
  const bool exact = expected.desc.dtype == DType::u8 || expected.desc.dtype == DType::i32;
  const double allowed = exact ? 0.0 : tolerance * largest + 1e-9;
  for (std::size_t i = 0; i < count; ++i) {
    const double difference = std::abs(actual.number(i) - expected.number(i));
    // Not "> allowed": a NaN has to fail.
    if (difference <= allowed) continue;
    ADD_FAILURE() << name << "[" << i << "] of " << to_string(actual.desc) << " is " << actual.number(i) << ", not "
                  << expected.number(i) << " (allowed " << allowed << ")";
    return;
  }
}

class OpEquality : public testing::TestWithParam<OpCase> {};

struct Variant {
  int block = 0;
  bool in_place = false;
  bool strict_math = false;
};

// Runs the case; returns the names of ops that the backend lacks.
std::set<std::string> compare(const Backend& backend, const OpCase& op_case, const Variant& variant) {
  std::set<std::string> missing;
  const OpRun reference{.backend = reference_backend(), .context = case_context()};
  const OpRun tested{
      .backend = backend, .context = case_context(), .strict_math = variant.strict_math, .in_place = variant.in_place};
  std::vector<HostTensor> expected = draw_values(op_case, 0);
  std::vector<HostTensor> actual = draw_values(op_case, variant.block);
  for (const CaseStep& step : op_case.steps) {
    SCOPED_TRACE(to_string(*step.op));
    const std::vector<HostTensor> right = run_step(reference, op_case, step, expected);
    bool runs = backend.supports(step.op->name());
    for (const int index : step.in) runs = runs && !actual[static_cast<std::size_t>(index)].data.empty();
    if (!runs) missing.insert(std::string(step.op->name()));
    const std::vector<HostTensor> got = runs ? run_step(tested, op_case, step, actual) : std::vector<HostTensor>();
    const bool winograd = !variant.strict_math && step.op->name().starts_with("conv2d");
    for (std::size_t i = 0; i < step.out.size(); ++i) {
      const auto index = static_cast<std::size_t>(step.out[i]);
      const CaseValue& value = op_case.values[index];
      if (runs && !value.opaque) expect_equal(got[i], right[i], winograd ? kWinogradTolerance : kTolerance, value.name);
      expected[index] = right[i];
      if (runs) actual[index] = got[i];
      if (!value.opaque) actual[index].data = right[i].data;
    }
  }
  return missing;
}

TEST_P(OpEquality, CpuEqualsReference) {
  const Backend& backend = cpu_backend();
  const int block = native_block(backend);
  std::set<std::string> missing;
  for (const int layout : block == 0 ? std::set<int>{0} : std::set<int>{0, block})
    for (const bool in_place : {false, true})
      for (const bool strict_math : {false, true}) {
        SCOPED_TRACE(testing::Message() << "block " << layout << (in_place ? ", in place" : "")
                                        << (strict_math ? ", strict" : ""));
        missing.merge(compare(backend, GetParam(), {layout, in_place, strict_math}));
      }
  if (missing.empty() || HasFailure()) return;
  std::string names;
  for (const std::string& name : missing) names += " " + name;
  GTEST_SKIP() << "the cpu backend has no kernel for" << names;
}

INSTANTIATE_TEST_SUITE_P(Cases, OpEquality, testing::ValuesIn(op_cases()),
                         [](const auto& param_info) { return param_info.param.name; });

}  // namespace
}  // namespace trifold::test
