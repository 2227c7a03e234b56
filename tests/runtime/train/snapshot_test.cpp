// A snapshot that owns its tensors stays as it is while the model trains on, and has just their bytes.
#include <gtest/gtest.h>

#include "runtime/train/parallel_model.h"
#include "support/folding.h"
#include "support/networks.h"

namespace trifold::test {
namespace {

std::map<std::string, std::vector<std::byte>> bytes_of(const Model::Snapshot& snapshot) {
  std::map<std::string, std::vector<std::byte>> bytes;
  for (const NamedTensor& tensor : snapshot.tensors())
    bytes[tensor.name].assign(tensor.data.begin(), tensor.data.end());
  return bytes;
}

TEST(Snapshot, ThatOwnsItsTensorsDoesNotSeeTheModelChange) {
  for (const PlanConfig& plan : {PlanConfig{}, PlanConfig{.tp = 2}, PlanConfig{.pp = 2, .micro_batches = 2}}) {
    ParallelModel model(fold_job(small_resnet(), plan, {}));
    model.initialize(1);
    const Model::Snapshot view = model.snapshot(Model::Contents::model_and_optimizer);
    Model::Snapshot copy = model.snapshot(Model::Contents::model_and_optimizer);
    copy.own();
    const auto before = bytes_of(copy);
    EXPECT_EQ(before, bytes_of(view));
    model.initialize(2);
    EXPECT_EQ(bytes_of(copy), before);
    EXPECT_NE(bytes_of(view), before) << "this model's snapshots view nothing of it: nothing was tested";
  }
}

}  // namespace
}  // namespace trifold::test
