// A training step allocates nothing: everything it needs was decided and made before.
#include "core/parallel.h"
#include "runtime/train/model.h"
#include "support/allocation_counter.h"
#include "support/job_fixture.h"
#include "support/networks.h"

namespace trifold::test {
namespace {

struct AllocationCase {
  const char* name;
  NetworkSpec (*network)();
  OptimizerKind optimizer;
  std::int64_t accumulate;
  bool raw_images = false;
};

class Allocation : public JobFixture, public ::testing::WithParamInterface<AllocationCase> {};

TEST_P(Allocation, AStepTakesNone) {
  ModelOptions options;
  options.backend = &cpu_backend();
  options.batch = 8;
  options.accumulate = GetParam().accumulate;
  options.threads = thread_count();
  options.optimizer.kind = GetParam().optimizer;
  options.optimizer.momentum = 0.9;
  options.optimizer.clip_norm = 1;
  const NetworkSpec network = GetParam().network();
  if (GetParam().raw_images) {
    const auto channels = static_cast<std::size_t>(network.input[0]);
    options.prepare = {.mean = std::vector<float>(channels, 0.5f),
                       .deviation = std::vector<float>(channels, 0.25f),
                       .augmentations = {RandomCrop{1}, HorizontalFlip{}, Cutout{2}}};
  }
  Model model = make_model(network, options);
  model.initialize(1);
  Executable& program = model.training();
  const auto images = program.program().graph[program.program().graph.images].shape.elements();
  for (std::int64_t i = 0; i < images; ++i) {
    if (GetParam().raw_images)
      program.raw_images()[i] = static_cast<std::uint8_t>(i % 251);
    else
      program.images()[i] = static_cast<float>(i % 7) / 7;
  }
  for (std::int64_t i = 0; i < options.micro_batch(); ++i) program.labels()[i] = static_cast<std::int32_t>(i % 3);

  const auto step = [&](std::int64_t number) {
    StepContext context{.seed = 1, .first_sample = number * options.batch, .learning_rate = 0.01, .updates = number};
    for (std::int64_t micro = 0; micro < options.accumulate; ++micro) {
      program.run(context);
      if (options.accumulate > 1) program.accumulate(micro == 0, context);
    }
    program.update(context);
  };
  step(1);  // threads begin
  RankActivity activity;
  program.announce_nodes(&activity);
  const AllocationCounter counter;
  step(2);  // somebody looks on
  EXPECT_EQ(activity.read().activity, Activity::update);
  program.announce_nodes(nullptr);
  step(3);
  model.evaluation().run({});
  EXPECT_EQ(counter.count(), 0);
}

INSTANTIATE_TEST_SUITE_P(Networks, Allocation,
                         ::testing::Values(AllocationCase{"Resnet", small_resnet, OptimizerKind::sgd, 1},
                                           AllocationCase{"Tutorial", small_tutorial, OptimizerKind::adam, 1},
                                           AllocationCase{"RawImages", small_resnet, OptimizerKind::sgd, 1, true},
                                           AllocationCase{"Vgg", small_vgg, OptimizerKind::lars, 1},
                                           AllocationCase{"Odd", odd_network, OptimizerKind::adamw, 2}),
                         [](const auto& named) { return named.param.name; });

}  // namespace
}  // namespace trifold::test
