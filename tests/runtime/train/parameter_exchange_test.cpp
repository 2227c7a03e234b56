// A model whose optimiser is elsewhere: whoever takes its gradients and gives it parameters trains it as it would train
// itself, under every plan; and calls come once a tensor a step, as early as they can.
#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include <gtest/gtest.h>

#include "core/error.h"
#include "parallel/servers/updates/slice_update.h"
#include "runtime/train/parallel_model.h"
#include "support/allocation_counter.h"
#include "support/folding.h"
#include "support/networks.h"
#include "support/served_plans.h"

namespace trifold::test {
namespace {

// An optimiser of its own: plain SGD on whole tensors, by the servers' loop, which rounds as the model's own does (with
// fused products where the processor has them). A last bit is enough for an activation near 0 to change sides.
class SgdExchange : public ParameterExchange {
 public:
  explicit SgdExchange(const ParallelModel& model) : served(model.served_tensors()) {
    for (const ServedTensor& tensor : served) {
      values.emplace_back(static_cast<std::size_t>(tensor.elements));
      model.read(static_cast<int>(values.size()) - 1, values.back());
    }
  }

  bool need_parameter(int tensor, std::span<float> fill) override {
    note(needed, tensor);
    const std::vector<float>& from = values[static_cast<std::size_t>(tensor)];
    EXPECT_EQ(from.size(), fill.size());
    std::ranges::copy(from, fill.begin());
    return true;
  }

  void gradient_ready(int tensor, std::span<const float> gradient) override {
    note(ready, tensor);
    std::vector<float>& to = values[static_cast<std::size_t>(tensor)];
    ASSERT_EQ(to.size(), gradient.size());
    if (!served[static_cast<std::size_t>(tensor)].trained)
      std::ranges::copy(gradient, to.begin());
    else
      update_->apply(to, gradient, to, {}, {.rate = kServedRate});
  }

  std::vector<ServedTensor> served;
  std::vector<std::vector<float>> values;
  std::vector<int> needed = {};  // tensors, in the order of calls
  std::vector<int> ready = {};

 private:
  void note(std::vector<int>& calls, int tensor) {
    const std::lock_guard lock(mutex_);  // ranks of a plan call at the same time
    calls.push_back(tensor);
  }

  const std::unique_ptr<SliceUpdate> update_ = make_optimizer_update({.kind = OptimizerKind::sgd});
  std::mutex mutex_;
};

std::vector<int> first_numbers(std::size_t count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

struct ServedNetwork {
  std::string name;
  NetworkSpec (*make)();
};

class ParameterExchangeUnder : public ::testing::TestWithParam<std::tuple<ServedNetwork, ServedPlan>> {};

// Batch norm, its statistics, and dropout are in these networks; so are layouts that are not row-major.
TEST_P(ParameterExchangeUnder, SgdElsewhereIsSgdHere) {
  const auto& [net, named] = GetParam();
  const Job job = fold_job(net.make(), named.plan, plain_sgd(named.accumulate));
  FoldRun here;
  try {
    here = run_fold(job, kServedSteps, kServedRate);
  } catch (const Error& error) {
    ASSERT_EQ(error.fault(), Fault::input) << error.what();
    ASSERT_NE(named.plan.split.size(), 0U) << error.what();
    GTEST_SKIP() << "the split does not fit this network: " << error.what();
  }
  ParallelModel model(job, nullptr, Updates::elsewhere);
  model.initialize(3);
  SgdExchange servers(model);
  for (std::size_t i = 0; i < servers.values.size(); ++i)
    model.write(static_cast<int>(i), std::vector<float>(servers.values[i].size(), 7.0f));  // steps must not read these
  model.exchange_with(&servers);
  const std::vector<int> all = first_numbers(servers.served.size());
  for (int step = 0; step < kServedSteps; ++step) {
    const double loss = step_fold(model, job, step, 0);
    EXPECT_NEAR(loss, here.losses[static_cast<std::size_t>(step)], 1e-6 * std::abs(loss)) << "step " << step;
    for (std::vector<int>* calls : {&servers.needed, &servers.ready}) {
      std::ranges::sort(*calls);
      EXPECT_EQ(*calls, all) << "step " << step;
      calls->clear();
    }
  }
  for (std::size_t i = 0; i < servers.served.size(); ++i) {
    const std::vector<float>& expected = here.parameters.at(servers.served[i].name);
    for (std::size_t k = 0; k < expected.size(); ++k)
      ASSERT_NEAR(servers.values[i][k], expected[k], 1e-5 * (1 + std::abs(expected[k]))) << servers.served[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Plans, ParameterExchangeUnder,
    ::testing::Combine(::testing::Values(ServedNetwork{"tutorial", small_tutorial},
                                         ServedNetwork{"resnet", small_resnet}, ServedNetwork{"vgg", small_vgg}),
                       ::testing::ValuesIn(served_plans())),
    [](const auto& param) { return std::get<0>(param.param).name + "_" + std::get<1>(param.param).name; });

TEST(ParameterExchange, GivesWeightsToLayersInBf16) {
  FoldOptions options = plain_sgd();
  options.precision = DType::bf16;
  for (const PlanConfig& plan : {PlanConfig{}, PlanConfig{.tp = 2}}) {
    const Job job = fold_job(small_vgg(), plan, options);
    const FoldRun here = run_fold(job, kServedSteps, kServedRate);
    ParallelModel model(job, nullptr, Updates::elsewhere);
    model.initialize(3);
    SgdExchange servers(model);
    model.exchange_with(&servers);
    for (int step = 0; step < kServedSteps; ++step) {
      const double loss = here.losses[static_cast<std::size_t>(step)];
      EXPECT_NEAR(step_fold(model, job, step, 0), loss, 1e-6 * loss) << "step " << step;
    }
  }
}

// --- when calls come

// A layer's tensors come together, layers in the order of the network or against it; statistics after all gradients.
TEST(ParameterExchangeOrder, IsThatOfTheForwardAndTheBackwardPass) {
  for (const std::int64_t accumulate : {1, 2}) {
    const Job job = fold_job(small_mobilenet(), {}, plain_sgd(accumulate));
    ParallelModel model(job, nullptr, Updates::elsewhere);
    model.initialize(3);
    SgdExchange servers(model);
    model.exchange_with(&servers);
    step_fold(model, job, 0, 0);
    const auto layers_in = [&](const std::vector<int>& calls, bool trained) {
      std::vector<std::string> layers;
      for (const int tensor : calls) {
        const ServedTensor& served = servers.served[static_cast<std::size_t>(tensor)];
        const std::string layer = served.name.substr(0, served.name.rfind('.'));
        if (served.trained == trained && (layers.empty() || layers.back() != layer)) layers.push_back(layer);
      }
      return layers;
    };
    std::vector<int> order = first_numbers(servers.served.size());
    for (const bool trained : {true, false}) EXPECT_EQ(layers_in(servers.needed, trained), layers_in(order, trained));
    std::ranges::reverse(order);
    for (const bool trained : {true, false}) EXPECT_EQ(layers_in(servers.ready, trained), layers_in(order, trained));
    EXPECT_TRUE(std::ranges::is_partitioned(
        servers.ready, [&](int tensor) { return servers.served[static_cast<std::size_t>(tensor)].trained; }));
  }
}

// Looks at the model while it is called.
class WatchingExchange final : public SgdExchange {
 public:
  explicit WatchingExchange(const ParallelModel& model) : SgdExchange(model), model_(model) {}

  bool need_parameter(int tensor, std::span<float> fill) override {
    const std::vector<double>& seconds = model_.chunks(0).front()->training().node_seconds();
    seconds_at_need.push_back(std::accumulate(seconds.begin(), seconds.end(), 0.0));
    return SgdExchange::need_parameter(tensor, fill);
  }
  void gradient_ready(int tensor, std::span<const float> gradient) override {
    if (ready.empty()) first_layer_at_first_call = first_gradient();
    SgdExchange::gradient_ready(tensor, gradient);
  }
  std::vector<float> first_gradient() const {
    const Model::Held first = model_.chunks(0).front()->held().front();
    const auto* gradient = reinterpret_cast<const float*>(first.gradient);
    return {gradient, gradient + first.desc->elements()};
  }

  std::vector<double> seconds_at_need = {};  // that nodes took before each
  std::vector<float> first_layer_at_first_call = {};

 private:
  const ParallelModel& model_;
};

TEST(ParameterExchangeOrder, LeavesTimeToTravelWhileTheStepGoesOn) {
  const Job job = fold_job(small_vgg(), {}, plain_sgd());
  ParallelModel model(job, nullptr, Updates::elsewhere);
  model.initialize(3);
  WatchingExchange servers(model);
  model.exchange_with(&servers);
  model.time_steps(true);
  step_fold(model, job, 0, 0);
  EXPECT_EQ(servers.seconds_at_need.front(), 0);
  EXPECT_GT(servers.seconds_at_need.back(), servers.seconds_at_need[2])
      << "layers run before the last one is asked for";
  const std::vector<float> of_first_step = servers.first_gradient();
  servers.ready.clear();
  step_fold(model, job, 1, 0);
  EXPECT_EQ(servers.first_layer_at_first_call, of_first_step) << "its gradient of this step was not yet made";
  EXPECT_NE(servers.first_gradient(), of_first_step);
}

TEST(ParameterExchange, AllocatesNothingInASteadyStep) {
  for (const PlanConfig& plan : {PlanConfig{}, PlanConfig{.tp = 2}, PlanConfig{.pp = 2, .micro_batches = 4}}) {
    const Job job = fold_job(small_resnet(), plan, plain_sgd());
    ParallelModel model(job, nullptr, Updates::elsewhere);
    model.initialize(3);
    const auto allocations = [&] {
      for (int step = 0; step < 2; ++step) step_fold(model, job, step, 0);
      const AllocationCounter counter;
      step_fold(model, job, 2, 0);
      return counter.count();
    };
    const std::int64_t alone = allocations();
    SgdExchange servers(model);
    servers.needed.reserve(1000);
    servers.ready.reserve(1000);
    model.exchange_with(&servers);
    EXPECT_EQ(allocations(), alone);
  }
}

// --- what an exchange may do

// Gives nothing: the model keeps what it has.
class KeepingExchange final : public ParameterExchange {
 public:
  bool need_parameter(int, std::span<float>) override { return false; }
  void gradient_ready(int, std::span<const float>) override {}
};

TEST(ParameterExchange, MayLeaveTheModelWhatItHas) {
  for (const PlanConfig& plan : {PlanConfig{}, PlanConfig{.tp = 2}}) {
    const Job job = fold_job(small_vgg(), plan, plain_sgd());
    ParallelModel model(job, nullptr, Updates::elsewhere);
    model.initialize(3);
    const std::vector<double> untouched = train_fold(model, job, 2, 0);
    KeepingExchange keeps;
    model.exchange_with(&keeps);
    EXPECT_EQ(train_fold(model, job, 2, 0), untouched);
    model.exchange_with(nullptr);
    EXPECT_EQ(train_fold(model, job, 2, 0), untouched);
  }
}

class FailingExchange final : public ParameterExchange {
 public:
  bool need_parameter(int tensor, std::span<float>) override {
    if (tensor == 2) fail_runtime("the servers are gone");
    return false;
  }
  void gradient_ready(int, std::span<const float>) override {}
};

TEST(ParameterExchange, EndsTheStepOfAllRanksWhenItFails) {
  for (const PlanConfig& plan :
       {PlanConfig{}, PlanConfig{.dp = 2}, PlanConfig{.tp = 2}, PlanConfig{.pp = 2, .micro_batches = 4}}) {
    const Job job = fold_job(small_vgg(), plan, plain_sgd());
    ParallelModel model(job, nullptr, Updates::elsewhere);
    model.initialize(3);
    FailingExchange fails;
    model.exchange_with(&fails);
    try {
      step_fold(model, job, 0, 0);
      ADD_FAILURE() << "the step went on";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("the servers are gone"), std::string::npos) << error.what();
    }
    if (model.ranks_here() > 1) continue;
    SgdExchange servers(model);  // one rank has nobody to part from: it may try again
    model.exchange_with(&servers);
    EXPECT_GT(step_fold(model, job, 0, 0), 0);
  }
}

}  // namespace
}  // namespace trifold::test
