// The statistics of replicas, joined, are those of all their samples.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "core/philox.h"
#include "kernels/ops/batch_norm.h"
#include "support/op_runner.h"

namespace trifold::test {
namespace {

HostTensor tensor_of(const Shape& shape, const std::vector<float>& values) {
  const TensorDesc desc{shape};
  HostTensor tensor{desc, false, std::vector<std::byte>(desc.bytes())};
  std::copy(values.begin(), values.end(), tensor.as<float>().begin());
  return tensor;
}

std::vector<float> values_of(HostTensor& tensor) {
  return {tensor.as<float>().begin(), tensor.as<float>().end()};
}

// x is [8, C, 2, 2]; every replica has 8 / replicas samples of it.
struct Joined {
  std::vector<float> running_mean, running_var, mean, istd;
};

constexpr std::int64_t kChannels = 3;

std::vector<float> drawn() {
  std::vector<float> x(8 * kChannels * 4);
  RandomSequence random(1, Purpose::synthetic, 0, 0);
  for (float& value : x) value = random.uniform(-1, 3);
  return x;
}

Joined statistics(const std::vector<float>& x, std::int64_t samples, std::int64_t group, double momentum) {
  BatchNormStatistics op;
  op.group = group;
  op.momentum = momentum;
  const Shape channels{kChannels};
  const Shape groups{samples / group, kChannels};
  const OpRun run{.backend = reference_backend()};
  const std::vector<float> zeros(kChannels, 0.0f), ones(kChannels, 1.0f);
  const std::vector<HostTensor> in = {tensor_of({samples, kChannels, 2, 2}, x), tensor_of(channels, zeros),
                                      tensor_of(channels, ones)};
  const std::vector<OpOutput> outputs = {
      {.desc = {groups}}, {.desc = {groups}}, {.desc = {channels}, .updates = 1}, {.desc = {channels}, .updates = 2}};
  auto out = run_op(run, op, in, outputs);
  return {values_of(out[2]), values_of(out[3]), values_of(out[0]), values_of(out[1])};
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b, std::size_t offset = 0) {
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[offset + i], 2e-6 * std::max(1.0f, std::abs(a[i])));
}

class Join : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(Join, IsTheStatisticsOfAllSamples) {
  const auto [replicas, group] = GetParam();
  const std::int64_t samples = 8 / replicas;
  const std::int64_t local = std::min<std::int64_t>(group, samples);
  const std::vector<float> x = drawn();
  std::vector<float> all_mean, all_istd;
  for (int replica = 0; replica < replicas; ++replica) {
    const auto begin = x.begin() + replica * samples * kChannels * 4;
    const Joined mine = statistics({begin, begin + samples * kChannels * 4}, samples, local, 0);
    all_mean.insert(all_mean.end(), mine.mean.begin(), mine.mean.end());
    all_istd.insert(all_istd.end(), mine.istd.begin(), mine.istd.end());
  }
  const Joined whole = statistics(x, 8, group, 0.1);
  for (int replica = 0; replica < replicas; ++replica) {
    BatchNormJoin op;
    op.group = local;
    op.pixels = 4;
    op.span = static_cast<int>(group / local);
    op.replica = replica;
    const Shape channels{kChannels};
    const Shape rows{static_cast<std::int64_t>(all_mean.size()) / kChannels, kChannels};
    std::vector<OpOutput> outputs = {{.desc = {channels}, .updates = 2}, {.desc = {channels}, .updates = 3}};
    if (op.span > 1) outputs.insert(outputs.end(), {{.desc = {{1, kChannels}}}, {.desc = {{1, kChannels}}}});
    const std::vector<HostTensor> in = {tensor_of(rows, all_mean), tensor_of(rows, all_istd),
                                        tensor_of(channels, std::vector<float>(kChannels, 0.0f)),
                                        tensor_of(channels, std::vector<float>(kChannels, 1.0f))};
    auto out = run_op({.backend = cpu_backend()}, op, in, outputs);
    expect_near(values_of(out[0]), whole.running_mean);
    expect_near(values_of(out[1]), whole.running_var);
    if (op.span == 1) continue;
    const auto group_of_replica = static_cast<std::size_t>(replica / op.span) * kChannels;
    expect_near(values_of(out[2]), whole.mean, group_of_replica);
    expect_near(values_of(out[3]), whole.istd, group_of_replica);
  }
}

INSTANTIATE_TEST_SUITE_P(Replicas, Join, ::testing::Combine(::testing::Values(2, 4), ::testing::Values(2, 4, 8)));

}  // namespace
}  // namespace trifold::test
