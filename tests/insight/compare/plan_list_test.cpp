// The plans of a comparison: each is the job under that plan alone, and none is left that cannot run.
#include "insight/compare/plan_list.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/job_fixture.h"

namespace trifold::test {
namespace {

class Plans : public JobFixture {
 protected:
  PlanList load(const Json& job, const std::string& plans, std::vector<Override> settings = {}) const {
    write_job(job);
    return load_plans(directory() / "job.json", std::move(settings), plans);
  }
  std::string refusal(const Json& job, const std::string& plans) const {
    try {
      load(job, plans);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::input);
      return error.what();
    }
    return "no error";
  }
  static Json normalised_job() {
    Json job = small_job();
    Json& layers = job["model"]["layers"];
    layers.insert(layers.begin() + 1, Json{{"id", "bn1"}, {"type", "batch_norm"}});
    return job;
  }
};

TEST_F(Plans, AreListedWithSemicolons) {
  const PlanList list = load(small_job(), " dp=2 ; single; pp=2, schedule=gpipe ;");
  ASSERT_EQ(list.plans.size(), 3u);
  EXPECT_EQ(list.plans[0].name, "dp=2");
  EXPECT_EQ(list.plans[0].job.plan.dp, 2);
  EXPECT_EQ(list.plans[1].name, "single");
  EXPECT_EQ(list.single, 1u);
  EXPECT_EQ(list.plans[2].name, "pp=2,schedule=gpipe");
  EXPECT_EQ(list.plans[2].job.plan.pp, 2);
  EXPECT_EQ(list.plans[2].job.plan.schedule, "gpipe");
  EXPECT_EQ(list.plans[2].job.plan.dp, 1);
}

TEST_F(Plans, HaveTheSingleOneInAnyCase) {
  const PlanList list = load(small_job(), "dp=2");
  ASSERT_EQ(list.plans.size(), 2u);
  EXPECT_EQ(list.plans[list.single].name, "single");
  EXPECT_EQ(list.plans[list.single].job.plan.dp, 1);
}

TEST_F(Plans, DoNotInheritTheJobsMesh) {
  Json job = small_job();
  job["plan"] = {{"device", "cpu:4"}, {"dp", 2}, {"pp", 2}, {"micro_batches", 2}, {"stages", {4, 4}}};
  const PlanList list = load(job, "tp=2; pp=3");
  for (const ComparedPlan& plan : list.plans) {
    EXPECT_EQ(plan.job.plan.dp, 1) << plan.name;
    EXPECT_EQ(plan.job.plan.device, "cpu") << plan.name;
    EXPECT_TRUE(plan.job.plan.stages.empty()) << plan.name;
  }
  EXPECT_EQ(list.plans[1].job.plan.pp, 1);
  EXPECT_EQ(list.plans[2].job.plan.pp, 3);
}

TEST_F(Plans, DoNotInheritTheJobsServers) {
  Json job = small_job();
  job["plan"] = {{"sync", {{"type", "federated"}, {"clients", 2}}}};
  job["data"]["shard"] = "dirichlet";
  job["data"]["shard_alpha"] = 0.1;
  for (const ComparedPlan& plan : load(job, "dp=2").plans) {
    EXPECT_FALSE(plan.job.plan.servers) << plan.name;
    EXPECT_EQ(plan.job.data.division.kind, DivisionKind::batch) << plan.name;
  }
}

TEST_F(Plans, MayHaveServers) {
  const PlanList list = load(small_job(), "dp=2; ps,servers=3,workers=2,mode=ssp,staleness=2");
  ASSERT_EQ(list.plans.size(), 3u);
  EXPECT_FALSE(list.plans[1].job.plan.servers);
  ASSERT_TRUE(list.plans[2].job.plan.servers);
  EXPECT_EQ(list.plans[2].job.plan.servers->servers, 3);
  EXPECT_EQ(list.plans[2].job.plan.servers->staleness, 2);
  EXPECT_EQ(list.plans[2].job.plan.dp, 1);
}

// Batch norm takes samples of one worker together, also where the job asks for more.
TEST_F(Plans, ShareAGroupThatAWorkerHas) {
  Json job = normalised_job();
  job["train"]["bn_group"] = 32;
  const PlanList list = load(job, "dp=2; ps,workers=4");
  EXPECT_EQ(list.asked_group, 32);
  for (const ComparedPlan& plan : list.plans) EXPECT_EQ(plan.job.train.bn_group, 8) << plan.name;
}

TEST_F(Plans, GetMicroBatchesThatDivideTheBatch) {
  Json job = small_job();
  const auto default_of = [&](std::int64_t batch, const std::string& plan) {
    job["train"]["batch"] = batch;
    return load(job, plan).plans[1].job.plan.micro_batches;
  };
  EXPECT_EQ(default_of(32, "pp=2"), 4);
  EXPECT_EQ(default_of(30, "pp=2"), 3);
  EXPECT_EQ(default_of(32, "pp=3"), 4);
  EXPECT_EQ(default_of(36, "dp=3,pp=2"), 4);
  EXPECT_EQ(default_of(18, "pp=3,schedule=interleaved,chunks=2"), 6);
  EXPECT_EQ(default_of(15, "pp=3,schedule=interleaved,chunks=2"), 3);
  EXPECT_EQ(default_of(32, "pp=2,micro_batches=8"), 8);
  EXPECT_EQ(default_of(32, "dp=2"), 1);
}

TEST_F(Plans, ShareOneGroupOfBatchNorm) {
  const PlanList list = load(normalised_job(), "dp=2; pp=2; dp=2,pp=2,micro_batches=2");
  EXPECT_TRUE(list.has_batch_norm);
  EXPECT_EQ(list.asked_group, 32);
  for (const ComparedPlan& plan : list.plans) EXPECT_EQ(plan.job.train.bn_group, 8) << plan.name;
  EXPECT_EQ(load(normalised_job(), "dp=2; tp=2").plans[0].job.train.bn_group, 32);
  EXPECT_FALSE(load(small_job(), "pp=2").has_batch_norm);
}

// Where a channel has one value a sample, there are no statistics of a single sample.
TEST_F(Plans, MayNormaliseFeatures) {
  Json job = small_job();
  Json& layers = job["model"]["layers"];
  layers.push_back({{"id", "bn"}, {"type", "batch_norm"}});
  layers.push_back({{"id", "fc2"}, {"type", "linear"}, {"out", 3}});
  const PlanList list = load(job, "dp=2; pp=2; ps,workers=4");
  ASSERT_EQ(list.plans.size(), 4u);
  for (const ComparedPlan& plan : list.plans) EXPECT_EQ(plan.job.train.bn_group, 8) << plan.name;
  EXPECT_TRUE(says(refusal(job, "pp=2,micro_batches=32"), "plan 'pp=2,micro_batches=32': "));
}

// Replicas of local SGD do not exchange statistics: a group lies on one of them.
TEST_F(Plans, ShareAGroupThatAReplicaOfLocalSgdHas) {
  Json job = normalised_job();
  job["plan"] = {{"sync", {{"type", "local_sgd"}}}};
  for (const ComparedPlan& plan : load(job, "dp=2").plans) EXPECT_EQ(plan.job.train.bn_group, 16) << plan.name;
}

TEST_F(Plans, TakeSettingsAsOtherCommandsDo) {
  const PlanList list = load(small_job(), "dp=2", {parse_set("train.batch=64")});
  for (const ComparedPlan& plan : list.plans) EXPECT_EQ(plan.job.train.batch, 64);
}

TEST_F(Plans, ThatCannotRunAreNamed) {
  EXPECT_TRUE(says(refusal(small_job(), "dp=2; dp=3"), "plan 'dp=3': "));
  EXPECT_TRUE(says(refusal(small_job(), "dp=2; dp=3"), "a batch of 32 does not divide"));
  EXPECT_TRUE(says(refusal(small_job(), "pp=99"), "plan 'pp=99': "));
  EXPECT_TRUE(says(refusal(small_job(), "dp=2; pq=2"), "--plan pq=2"));
  EXPECT_TRUE(says(refusal(small_job(), "dp=two"), "--plan dp=two"));
  EXPECT_TRUE(says(refusal(small_job(), "dp"), "--plan dp: expected field=value"));
  EXPECT_TRUE(says(refusal(small_job(), " ; "), "--plans: expected plans"));
  EXPECT_TRUE(says(refusal(small_job(), "ps,workers=2,period=2"), "plan 'ps,workers=2,period=2': workers that push"));
  EXPECT_TRUE(says(refusal(small_job(), "federated,clients=2"), "plan 'federated,clients=2': a round of federated"));
}

}  // namespace
}  // namespace trifold::test
