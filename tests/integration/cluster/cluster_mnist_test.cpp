// Real digits by parameter servers: workers that do not wait, say little or train on their own come to the accuracy of
// the synchronous run, which is the single one's.
#include <fmt/format.h>

#include "support/job_fixture.h"
#include "support/paths.h"

namespace trifold::test {
namespace {

struct WayToTrain {
  const char* name;
  std::vector<std::string> arguments;
  double points;  // of accuracy that it may lose
};

class ClusterOnMnist : public JobFixture, public ::testing::WithParamInterface<WayToTrain> {
 protected:
  void SetUp() override {
    JobFixture::SetUp();
    if (!std::filesystem::exists(data_)) GTEST_SKIP() << data_ << " is not here";
    Json job;
    job["model"] = (source_dir() / "models/nets/lenet5.json").string();
    job["data"] = {{"type", "idx"}, {"path", data_}, {"normalize", {{"mean", {0.1307}}, {"std", {0.3081}}}}};
    job["train"] = {{"epochs", 12},
                    {"batch", 64},
                    {"threads", 1},
                    {"tensorboard", {{"histograms", false}}},
                    {"optimizer", {{"type", "sgd"}, {"lr", 0.05}, {"momentum", 0.9}}}};
    write_job(job);
  }
  double accuracy(const std::string& name, std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--name", name});
    return train(std::move(arguments)).value("test_accuracy", 0.0);
  }
  // Once for all ways.
  double accuracy_of_sync() const {
    static const double sync = accuracy("sync", {});
    return sync;
  }

 private:
  const std::filesystem::path data_ = source_dir() / "../shared/data/mnist5k";
};

TEST_P(ClusterOnMnist, ComesToTheAccuracyOfSync) {
  const double sync = accuracy_of_sync();
  const double servers = accuracy("servers", GetParam().arguments);
  EXPECT_GE(sync, 0.96);
  EXPECT_GE(servers, sync - GetParam().points / 100);
  RecordProperty("accuracy", fmt::format("{:.4f}, sync {:.4f}", servers, sync));  // for --gtest_output=json
}

std::vector<std::string> federated(const std::vector<std::string>& fields) {
  std::vector<std::string> arguments = {"--workers", "2"};
  for (const char* field : {"plan.sync.type=federated", "plan.sync.clients=5", "plan.sync.local_epochs=5",
                            "data.shard=dirichlet", "data.shard_alpha=0.5"})
    arguments.insert(arguments.end(), {"--set", field});
  for (const std::string& field : fields) arguments.insert(arguments.end(), {"--set", field});
  return arguments;
}

INSTANTIATE_TEST_SUITE_P(
    Ways, ClusterOnMnist,
    ::testing::Values(
        WayToTrain{"async", {"--plan", "ps,servers=2,workers=4,mode=async", "--set", "train.epochs=16"}, 1},
        WayToTrain{"ssp", {"--plan", "ps,servers=2,workers=4,mode=ssp,staleness=2", "--set", "train.epochs=16"}, 1},
        WayToTrain{"topk", {"--plan", "ps,servers=2,workers=4,keep=0.01", "--set", "train.epochs=20"}, 1},
        WayToTrain{"rotate", {"--plan", "ps,servers=2,workers=4,rotate=4"}, 1},
        WayToTrain{"layers", {"--plan", "ps,servers=2,workers=4,layers=[\"c?\",\"f6\"]"}, 1},
        WayToTrain{"fedavg", federated({"train.epochs=10"}), 2},
        WayToTrain{"fedavg_rotate", federated({"train.epochs=14", "plan.sync.rotate=3"}), 2},
        WayToTrain{"fedprox", federated({"train.epochs=10", "plan.sync.proximal=0.01"}), 2},
        WayToTrain{"fedadagrad",
                   federated({"train.epochs=20", "plan.sync.server=fedadagrad", "plan.sync.server_lr=0.1"}), 2}),
    [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace trifold::test
