#include "support/op_comparison.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "kernels/ops/conv2d.h"

namespace trifold::test {
namespace {

// Sums of a few hundred products in float: about 1e-6 of the largest element.
constexpr double kTolerance = 2e-5;
// Winograd's transforms cost two to three digits; strict_math is the promise to do without them.
constexpr double kWinogradTolerance = 5e-4;

}  // namespace

int native_block(const Backend& backend) {
  const TensorDesc x{{2, 32, 8, 8}};
  const TensorDesc w{{32, 32, 3, 3}};
  Conv2dForward op;
  op.args.pad = {1, 1};
  return backend.choose_layouts(op, std::vector{x, w}, std::vector{x}).out[0].block;
}

namespace {

// Results that differ in float's last digits may round to neighbours in 16 bits.
double rounding_of(DType type) {
  return type == DType::f16 ? 0x1p-10 : type == DType::bf16 ? 0x1p-7 : 0;
}

void expect_equal(const HostTensor& actual, const HostTensor& expected, double tolerance, const std::string& name) {
  const std::size_t count = static_cast<std::size_t>(expected.desc.elements());
  double largest = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (std::isfinite(expected.number(i))) largest = std::max(largest, std::abs(expected.number(i)));
  const bool exact = expected.desc.dtype == DType::u8 || expected.desc.dtype == DType::i32;
  const double allowed = exact ? 0.0 : std::max(tolerance, rounding_of(expected.desc.dtype)) * largest + 1e-9;
  for (std::size_t i = 0; i < count; ++i) {
    const double difference = std::abs(actual.number(i) - expected.number(i));
    // Not "> allowed": a NaN has to fail.
    if (difference <= allowed || actual.number(i) == expected.number(i)) continue;
    ADD_FAILURE() << name << "[" << i << "] of " << to_string(actual.desc) << " is " << actual.number(i) << ", not "
                  << expected.number(i) << " (allowed " << allowed << ")";
    return;
  }
}

}  // namespace

std::set<std::string> compare_with_reference(const ComparedBackend& compared, const OpCase& op_case,
                                             const ComparisonVariant& variant) {
  const Backend& backend = compared.backend;
  std::set<std::string> missing;
  const OpRun reference{.backend = reference_backend(), .context = case_context()};
  const OpRun tested{.backend = backend,
                     .device = compared.device,
                     .context = case_context(),
                     .strict_math = variant.strict_math,
                     .in_place = variant.in_place};
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
    // cuDNN makes the weight gradient in the images' type; ours is f32 all the same.
    const bool rounded = backend.name() == "cuda" && step.op->name() == "conv2d.backward_weights";
    const double rounding = rounded ? rounding_of(expected[static_cast<std::size_t>(step.in[0])].desc.dtype) : 0;
    for (std::size_t i = 0; i < step.out.size(); ++i) {
      const auto index = static_cast<std::size_t>(step.out[i]);
      const CaseValue& value = op_case.values[index];
      if (runs && !value.opaque)
        expect_equal(got[i], right[i], std::max(winograd ? kWinogradTolerance : kTolerance, rounding), value.name);
      expected[index] = right[i];
      if (runs) actual[index] = got[i];
      if (!value.opaque) actual[index].data = right[i].data;
    }
  }
  return missing;
}

}  // namespace trifold::test
