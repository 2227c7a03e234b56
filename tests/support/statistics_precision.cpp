#include "support/statistics_precision.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <random>

#include <gtest/gtest.h>

#include "kernels/ops/batch_norm.h"

namespace trifold::test {
namespace {

constexpr double kInitialMean = 0.3, kInitialVar = 1;  // of the running averages
constexpr int kParts = 4;

HostTensor filled(const TensorDesc& desc, double value) {
  HostTensor tensor{.desc = desc};
  tensor.data.resize(tensor.desc.bytes());
  std::ranges::fill(tensor.as(), static_cast<float>(value));
  return tensor;
}

HostTensor drawn_x(const StatisticsValues& values) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal(values.mean_over_std, 1);
  HostTensor x = filled(values.x, 0);
  const Shape& shape = values.x.shape;
  for (std::int64_t n = 0; n < shape.batch(); ++n)
    for (std::int64_t c = 1; c < shape.channels(); ++c)
      for (std::int64_t p = 0; p < shape.pixels(); ++p) {
        const std::int64_t width = shape.rank() == 4 ? shape[3] : 1, column = p % width;
        x.as()[static_cast<std::size_t>((n * shape.channels() + c) * shape.pixels() + p)] =
            values.black_edges && (column == 0 || column == width - 1) ? 0.0f : static_cast<float>(normal(random));
      }
  return x;
}

struct TakenStatistics {
  HostTensor mean, istd, running_mean, running_var;
};

TakenStatistics take(const OpRun& run, const HostTensor& x, const BatchNormStatistics& op) {
  const std::int64_t channels = x.desc.shape.channels();
  const TensorDesc statistics{{x.desc.shape.batch() / op.group, channels}}, averages{{channels}};
  const std::vector<HostTensor> in = {x, filled(averages, kInitialMean), filled(averages, kInitialVar)};
  const std::vector<HostTensor> out = run_op(
      run, op, in, std::vector<OpOutput>{{statistics}, {statistics}, {averages, false, 1}, {averages, false, 2}});
  return {out[0], out[1], out[2], out[3]};
}

// A part is a run of samples here; to batch_norm.join_rows it is as good as rows of all of them.
TakenStatistics take_in_parts(const OpRun& run, const HostTensor& x, std::int64_t group, StatisticsPath path) {
  BatchNormStatistics of_part;
  of_part.group = group / kParts;
  of_part.momentum = 0;
  const TakenStatistics parts = take(run, x, of_part);
  const std::int64_t channels = x.desc.shape.channels(), pixels = x.desc.shape.pixels();
  const TensorDesc statistics{{1, channels}}, averages{{channels}};
  const std::vector<HostTensor> in = {parts.mean, parts.istd, parts.running_mean, parts.running_var};
  if (path == StatisticsPath::replicas) {
    BatchNormJoin join;
    join.group = of_part.group;
    join.pixels = pixels;
    join.span = kParts;
    const std::vector<HostTensor> out = run_op(
        run, join, in, std::vector<OpOutput>{{averages, false, 2}, {averages, false, 3}, {statistics}, {statistics}});
    return {out[2], out[3], out[0], out[1]};
  }
  BatchNormJoinRows join;
  join.group = of_part.group;
  join.pixels.assign(kParts, pixels);
  join.running = true;
  const std::vector<HostTensor> out = run_op(
      run, join, in, std::vector<OpOutput>{{statistics}, {statistics}, {averages, false, 2}, {averages, false, 3}});
  return {out[0], out[1], out[2], out[3]};
}

struct ExactStatistics {
  double mean, variance;  // biased
};

ExactStatistics exact_statistics(const HostTensor& x, std::int64_t group_size, std::int64_t group,
                                 std::int64_t channel) {
  const Shape& shape = x.desc.shape;
  std::vector<float> values;
  for (std::int64_t n = group * group_size; n < (group + 1) * group_size; ++n) {
    const float* plane = x.as().data() + (n * shape.channels() + channel) * shape.pixels();
    values.insert(values.end(), plane, plane + shape.pixels());
  }
  const auto count = static_cast<long double>(values.size());
  long double mean = 0, squares = 0;
  for (const float value : values) mean += value / count;
  for (const float value : values) squares += (value - mean) * (value - mean);
  return {static_cast<double>(mean), static_cast<double>(squares / count)};
}

double relative(double value, double exact) {
  return std::abs(value - exact) / std::abs(exact);
}

}  // namespace

double StatisticsErrors::largest() const {
  return std::max({mean, istd, running_var});
}

std::ostream& operator<<(std::ostream& os, const StatisticsErrors& errors) {
  return os << "errors: mean " << errors.mean << ", istd " << errors.istd << ", running_var " << errors.running_var;
}

double statistics_limit(const StatisticsValues& values, StatisticsPath path) {
  const double three_ulps = 3 * 0x1p-23;
  if (path == StatisticsPath::whole) return three_ulps;
  const double part_values = static_cast<double>(values.group / kParts * values.x.shape.pixels());
  const double rounding = values.mean_over_std * 0x1p-24, apart = 1 / std::sqrt(part_values);  // in deviations
  return three_ulps + rounding * apart;
}

StatisticsErrors statistics_errors(const ComparedBackend& tested, const StatisticsValues& values, StatisticsPath path) {
  const std::int64_t channels = values.x.shape.channels(), groups = values.x.shape.batch() / values.group;
  const double count = static_cast<double>(values.group * values.x.shape.pixels());
  const HostTensor x = drawn_x(values);
  const OpRun run{.backend = tested.backend, .device = tested.device};
  BatchNormStatistics op;
  op.group = values.group;
  const TakenStatistics taken =
      path == StatisticsPath::whole ? take(run, x, op) : take_in_parts(run, x, values.group, path);

  for (std::int64_t g = 0; g < groups; ++g) {
    const auto at = static_cast<std::size_t>(g * channels);
    EXPECT_EQ(taken.mean.number(at), 0) << "mean of zeros";
    EXPECT_EQ(taken.istd.number(at), static_cast<float>(1 / std::sqrt(op.eps))) << "istd of zeros";
  }
  StatisticsErrors errors;
  for (std::int64_t c = 1; c < channels; ++c) {
    double running_var = kInitialVar;
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto at = static_cast<std::size_t>(g * channels + c);
      const ExactStatistics exact = exact_statistics(x, values.group, g, c);
      const double scale = std::max(std::abs(exact.mean), std::sqrt(exact.variance));
      errors.mean = std::max(errors.mean, std::abs(taken.mean.number(at) - exact.mean) / scale);
      errors.istd = std::max(errors.istd, relative(taken.istd.number(at), 1 / std::sqrt(exact.variance + op.eps)));
      running_var += op.momentum * (exact.variance * count / (count - 1) - running_var);
    }
    errors.running_var =
        std::max(errors.running_var, relative(taken.running_var.number(static_cast<std::size_t>(c)), running_var));
  }
  return errors;
}

}  // namespace trifold::test
