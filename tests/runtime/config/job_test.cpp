// Jobs that are right: what the sections mean, blocks, overrides, and the resolved job.
#include "runtime/config/job.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/config/byte_size.h"
#include "runtime/config/nearest_name.h"

namespace trifold {
namespace {

std::string job_with_model(const std::string& model) {
  return R"({"model": )" + model + R"(, "data": {"type": "synthetic"}})";
}

std::string job_with_train(const std::string& train) {
  return R"({"model": {"input": [1, 8, 8], "classes": 4, "layers": [{"type": "flatten"}, {"type": "linear", "out": 4}]},
             "data": {"type": "synthetic"}, "train": )" +
         train + "}";
}

// "conv1(input) relu_1(conv1)": ids with their inputs, in running order.
std::string outline(const Job& job) {
  std::string text;
  for (const LayerSpec& layer : job.model.layers) {
    text += (text.empty() ? "" : " ") + layer.id + "(";
    for (std::size_t i = 0; i < layer.in.size(); ++i) text += (i > 0 ? "," : "") + layer.in[i];
    text += ")";
  }
  return text;
}

std::string error_of(const std::string& text, const std::vector<Override>& overrides) {
  try {
    parse_job(text, "job.json", overrides);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Job, DefaultsAreFilledIn) {
  const Job job = parse_job(job_with_train("{}"), "folder/first.json");
  EXPECT_EQ(job.name, "first");
  EXPECT_EQ(job.train.epochs, 10);
  EXPECT_EQ(job.train.batch, 64);
  EXPECT_EQ(job.train.bn_group, 64);
  EXPECT_EQ(job.train.optimizer.kind, OptimizerKind::sgd);
  EXPECT_DOUBLE_EQ(job.train.schedule.base_rate, 0.01);
  EXPECT_EQ(job.train.checkpoint.every_epochs, 1);
  EXPECT_EQ(job.data.source.classes, 4);
  EXPECT_EQ(job.data.source.input, (ImageShape{1, 8, 8}));
  EXPECT_EQ(job.data.augment_on, AugmentOn::automatic);
  EXPECT_EQ(job.plan, PlanConfig{});
  EXPECT_EQ(outline(job), "flatten_1(input) linear_1(flatten_1)");
  EXPECT_EQ(job.model.layers[1].place, "folder/first.json:1: /model/layers/1");
}

TEST(Job, TrainSectionIsRead) {
  const TrainConfig train = parse_job(job_with_train(R"({
      "epochs": 3, "batch": 32, "accumulate": 4, "seed": 7, "math": "strict", "clip_norm": 2.5,
      "optimizer": {"type": "lars", "lr": 0.4, "momentum": 0.8, "nesterov": true, "weight_decay": 1e-4, "trust": 0.02,
                    "decay_bias": true},
      "schedule": {"type": "polynomial", "power": 2, "final_lr": 0.001, "warmup_steps": 12},
      "stop": {"loss_delta": 1e-6, "patience": 3, "target_accuracy": 0.99, "minutes": 1.5},
      "eval_every": 2, "checkpoint": {"every_steps": 100, "keep": 5, "shard_bytes": "1MiB"},
      "memory_limit": "1.5GiB", "threads": 3})"),
                                      "job.json")
                                .train;
  EXPECT_EQ(train.micro_batch(), 8);
  EXPECT_EQ(train.bn_group, 8);
  EXPECT_EQ(train.seed, 7u);
  EXPECT_EQ(train.math, Math::strict);
  EXPECT_EQ(train.optimizer.kind, OptimizerKind::lars);
  EXPECT_DOUBLE_EQ(train.optimizer.momentum, 0.8);
  EXPECT_TRUE(train.optimizer.nesterov);
  EXPECT_DOUBLE_EQ(train.optimizer.weight_decay, 1e-4);
  EXPECT_DOUBLE_EQ(train.optimizer.trust, 0.02);
  EXPECT_DOUBLE_EQ(train.optimizer.clip_norm, 2.5);
  EXPECT_TRUE(train.decay_bias);
  EXPECT_EQ(
      train.schedule,
      (LearningSchedule{
          .kind = ScheduleKind::polynomial, .base_rate = 0.4, .final_rate = 0.001, .power = 2, .warmup_steps = 12}));
  EXPECT_EQ(train.stop, (StopRules{1e-6, 3, 0.99, 1.5}));
  EXPECT_EQ(train.checkpoint, (CheckpointRules{0, 100, 5, 1 << 20}));
  EXPECT_EQ(train.memory_limit_bytes, 1610612736);
  EXPECT_EQ(train.threads, 3);
}

TEST(Job, DataSectionIsReadAndItsPathIsRelativeToTheJob) {
  const Job job = parse_job(R"({
      "model": {"input": [3, 32, 32], "classes": 3, "layers": [{"type": "flatten"}, {"type": "linear", "out": 3}]},
      "data": {"type": "csv", "path": "rows", "label_column": -1, "test_path": "/abs/test.csv",
               "normalize": {"mean": [0.1, 0.2, 0.3], "std": [0.5]},
               "augment": [{"type": "random_crop", "pad": 2}, {"type": "flip"}, {"type": "cutout", "size": 16}],
               "sampler": "balanced", "class_weights": [1, 2, 0.5], "threads": 2, "augment_on": "host"}})",
                            "/jobs/a/job.json");
  EXPECT_EQ(job.data.source.values.text("path"), "/jobs/a/rows");
  EXPECT_EQ(job.data.source.values.text("test_path"), "/abs/test.csv");
  EXPECT_EQ(job.data.source.values.text("label_column"), "-1");
  EXPECT_EQ(job.data.normalize.mean, (std::vector<float>{0.1f, 0.2f, 0.3f}));
  ASSERT_EQ(job.data.augment.size(), 3u);
  EXPECT_EQ(std::get<RandomCrop>(job.data.augment[0]).padding_px, 2);
  EXPECT_EQ(std::get<HorizontalFlip>(job.data.augment[1]).probability, 0.5f);
  EXPECT_EQ(std::get<Cutout>(job.data.augment[2]).side_px, 16);
  EXPECT_EQ(job.data.sampler, SampleOrder::balanced);
  EXPECT_EQ(job.data.class_weighting, ClassWeighting::listed);
  EXPECT_EQ(job.data.class_weights, (std::vector<double>{1, 2, 0.5}));
  EXPECT_EQ(job.data.augment_on, AugmentOn::host);
}

TEST(Job, LayersMayComeInAnyOrder) {
  const Job job = parse_job(job_with_model(R"({"input": [1, 8, 8], "classes": 4, "layers": [
      {"id": "last", "type": "linear", "in": "flat", "out": 4},
      {"id": "flat", "type": "flatten", "in": "conv"},
      {"id": "conv", "type": "conv2d", "in": "input", "out": 2, "kernel": 3}]})"),
                            "job.json");
  EXPECT_EQ(outline(job), "conv(input) flat(conv) last(flat)");
}

constexpr const char* kResidualModel = R"json({"input": [1, 8, 8], "classes": 4,
  "blocks": {
    "basic": {"params": {"out": null, "project": false}, "layers": [
      {"id": "conv", "type": "conv2d", "out": "$out * (1 + $index)", "kernel": 1},
      {"id": "short", "type": "conv2d", "in": "$in", "when": "$project && $out > 2", "out": "$out", "kernel": 1},
      {"id": "add", "type": "add", "in": ["conv", "short"]}]},
    "pair": {"layers": [{"block": "basic", "id": "b", "out": 1}]},
    "join": {"params": {"with": null}, "layers": [{"id": "add", "type": "add", "in": ["$in", "$with"]}]}},
  "layers": [
    {"block": "basic", "id": "s", "repeat": 2, "out": 4, "first": {"project": true}},
    {"block": "pair", "id": "p"},
    {"block": "join", "id": "j", "with": "s"},
    {"block": "pair", "id": "off", "when": false},
    {"type": "flatten"}, {"type": "linear", "out": "$classes"}]})json";

TEST(Job, BlocksUnfold) {
  const Job job = parse_job(job_with_model(kResidualModel), "job.json");
  EXPECT_EQ(outline(job),
            "s.0.conv(input) s.0.short(input) s.0.add(s.0.conv,s.0.short) "
            "s.1.conv(s.0.add) s.1.add(s.1.conv,s.0.add) "
            "p.b.conv(s.1.add) p.b.add(p.b.conv,s.1.add) "
            "j.add(p.b.add,s.1.add) flatten_1(j.add) linear_1(flatten_1)");
  EXPECT_EQ(job.model.layers[0].values.integer("out"), 4);
  EXPECT_EQ(job.model.layers[3].values.integer("out"), 8);  // $index is 1
  EXPECT_EQ(job.model.layers.back().values.integer("out"), 4);
  EXPECT_EQ(job.model.layers[3].place, "job.json:4: /model/blocks/basic/layers/0");
}

TEST(Job, OverridesReachEveryPlace) {
  const std::vector<Override> overrides = {
      parse_set("train.batch=256"),      parse_set("train.stop.minutes=2"),
      parse_set("model.layers.1.out=3"), parse_set("model.layers.flat.id=f"),
      parse_set("name=other"),           parse_set("data.augment=[{\"type\": \"flip\"}]")};
  const Job job = parse_job(R"({"model": {"input": [1, 8, 8], "classes": 4,
      "layers": [{"id": "flat", "type": "flatten"}, {"type": "linear", "out": 4}]}, "data": {"type": "synthetic"}})",
                            "job.json", overrides);
  EXPECT_EQ(job.train.batch, 256);
  EXPECT_EQ(job.train.stop.minutes, 2);
  EXPECT_EQ(job.model.layers[1].values.integer("out"), 3);
  EXPECT_EQ(job.model.layers[0].id, "f");
  EXPECT_EQ(job.name, "other");
  EXPECT_EQ(job.data.augment.size(), 1u);
}

TEST(Job, WrongOverridesNameTheOption) {
  const std::string job = job_with_train("{}");
  EXPECT_EQ(error_of(job, {parse_set("train.batch=many")}),
            "--set train.batch=many: /train/batch: expected an integer of at least 1, found the text \"many\"");
  EXPECT_EQ(error_of(job, {parse_set("train.bach=1")}).substr(0, 87),
            "--set train.bach=1: /train/bach: unknown key 'bach' in the train section; did you mean ");
  EXPECT_EQ(error_of(job, {parse_set("model.layers.7.out=1")}),
            "--set model.layers.7.out=1: /model/layers has 2 elements, so there is no 7 (the first is 0)");
  EXPECT_EQ(error_of(job, {parse_set("model.classes.x=1")}),
            "--set model.classes.x=1: /model/classes is 4, which has no 'x' in it");
  EXPECT_EQ(error_of(job, parse_plan("dp=2,sync.type=powersgd,sync.rank=4")), "accepted");
  EXPECT_EQ(error_of(job, parse_plan("dp=2,zero=1,bucket=25MB")), "accepted");
  EXPECT_EQ(error_of(job, parse_plan("dp=2,pp=2")), "accepted");
  EXPECT_EQ(error_of(job, parse_plan("stages=[1,1],pp=2")), "accepted");
  EXPECT_EQ(error_of(job, parse_plan("dp=1,tp=1")), "accepted");
  EXPECT_EQ(error_of(job, parse_plan("dp=2,keep=0.1,topk")), "accepted");
  EXPECT_THROW(parse_set("train.batch"), Error);
  EXPECT_THROW(parse_set("train..batch=1"), Error);
  EXPECT_THROW(parse_set("data.augment=[1"), Error);
}

TEST(Job, APathFromTheCommandLineIsRelativeToTheCurrentFolder) {
  const Job job = parse_job(job_with_train("{}"), "/jobs/job.json",
                            std::vector<Override>{parse_set("data={\"type\": \"idx\", \"path\": \"mnist\"}")});
  EXPECT_EQ(job.data.source.values.text("path"), std::filesystem::current_path() / "mnist");
}

TEST(Job, TheResolvedJobLoadsAsAnEqualJob) {
  const std::vector<std::string> trains = {
      "{}",
      R"({"optimizer": {"type": "adamw", "lr": 0.3, "beta1": 0.8, "beta2": 0.9, "eps": 1e-6, "weight_decay": 0.1},
          "schedule": {"type": "step", "milestones": [1, 2.5], "gamma": 0.3, "warmup_epochs": 0.5}})",
      R"({"epochs": 3, "batch": 32, "accumulate": 4, "bn_group": 2, "seed": 7, "math": "strict", "clip_norm": 2.5,
          "optimizer": {"type": "lars", "trust": 0.02, "decay_bias": true, "nesterov": true},
          "schedule": {"type": "polynomial", "power": 2, "final_lr": 0.001, "warmup_steps": 12},
          "stop": {"loss_delta": 1e-6, "patience": 3, "target_accuracy": 0.99, "minutes": 1.5}, "eval_every": 2,
          "checkpoint": {"every_steps": 100, "keep": 5, "shard_bytes": 77}, "tensorboard": {"histograms": false}, "memory_limit": "8GB", "threads": 3})",
      R"({"optimizer": {"type": "adagrad", "lr": 0.2, "eps": 1e-5, "initial_accumulator": 0.1, "weight_decay": 0.1}})",
      R"({"schedule": {"type": "step", "every": 2}, "checkpoint": {"every_epochs": 0}})"};
  const std::vector<std::string> datas = {
      R"({"type": "synthetic", "classes": 3, "train_samples": 5, "test_samples": 6, "seed": 9, "sampler": "balanced"})",
      R"({"type": "csv", "path": "a", "label_column": "y", "targets": 2, "test_path": "b", "class_weights": "balanced"})",
      R"({"type": "image_folder", "path": "a", "resize": 9, "random_resized_crop": true, "least_area": 0.3,
          "normalize": {"mean": [0.1], "std": [0.3]}, "class_weights": [1, 2, 3, 0.1], "threads": 2, "augment_on": "device",
          "augment": [{"type": "random_crop", "pad": 1}, {"type": "flip", "probability": 0.1}, {"type": "cutout"}]})"};
  for (const std::string& train : trains) {
    for (const std::string& data : datas) {
      const Job job = parse_job(std::string(R"({"name": "n", "model": )") + kResidualModel + R"(, "data": )" + data +
                                    R"(, "train": )" + train + "}",
                                "/jobs/job.json");
      const std::string text = to_json_text(job);
      const Job again = parse_job(text, "/elsewhere/resolved.json");
      EXPECT_TRUE(again == job) << text;
      EXPECT_EQ(to_json_text(again), text);
    }
  }
}

TEST(Job, TheResolvedPlanLoadsAsAnEqualPlan) {
  for (const char* plan : {"pp=2,recompute=all", "pp=3,recompute=[0,2],schedule=zero-bubble,micro_batches=4",
                           "dp=2,zero=3,bucket=25MB", "pp=2,stages=[1,1],sync.type=topk", "pp=2,stages=measured"}) {
    const Job job = parse_job(job_with_train("{}"), "job.json", parse_plan(plan));
    EXPECT_FALSE(job.plan == PlanConfig{}) << plan;
    EXPECT_TRUE(parse_job(to_json_text(job), "resolved.json").plan == job.plan) << plan;
  }
}

TEST(Job, TheResolvedServersLoadAsEqualServers) {
  for (const char* plan :
       {"ps", "ps,workers=4,servers=2,mode=ssp,staleness=0", "ps,workers=8,backup=2,rule=krum,byzantine=1,keep=1",
        "ps,workers=2,mode=async,wire=fp16,keep=0.01,period=3,rule=weighted_mean", "ps,rule=trimmed_mean,trim=0.3",
        "federated,clients=20,fraction=0.1,local_epochs=5,servers=2,wire=fp16,server_momentum=0.9,proximal=0.01",
        "federated,server=fedadagrad,server_lr=0.1,beta1=0,tau=0.01", "federated,server=fedadam,beta2=0.9,rule=median",
        "federated,server=fedyogi,rule=krum,byzantine=3", "ps,workers=4,combine=host,wire=fp16",
        "federated,combine=host", "ps,workers=4,layers=conv*,rotate=2", "federated,layers=[\"a\",\"b\"]"}) {
    const Job job = parse_job(job_with_train("{}"), "job.json", parse_plan(plan));
    ASSERT_TRUE(job.plan.servers) << plan;
    const std::string text = to_json_text(job);
    const Job again = parse_job(text, "resolved.json");
    EXPECT_TRUE(again.plan == job.plan) << text;
    EXPECT_EQ(to_json_text(again), text);
  }
}

TEST(Job, TheResolvedDivisionLoadsAsAnEqualDivision) {
  const std::vector<std::pair<const char*, const char*>> divided = {
      {R"({"type": "synthetic", "shard": "dirichlet", "shard_alpha": 0.1})", "federated"},
      {R"({"type": "csv", "path": "a", "shard": "time", "time_column": "when"})", "ps"},
      {R"({"type": "csv", "path": "a", "time_column": 3})", "ps"},
      {R"({"type": "synthetic_rows", "train_samples": 9, "test_samples": 8, "seed": 4, "informative": 3, "redundant": 1,
           "clusters": 1, "separation": 1.5, "flipped": 0.1})",
       "ps"},
      {R"({"type": "synthetic"})", "federated"}};
  for (const auto& [data, plan] : divided) {
    const Job job = parse_job(std::string(R"({"name": "n", "model": )") + kResidualModel + R"(, "data": )" + data + "}",
                              "/jobs/job.json", parse_plan(plan));
    const std::string text = to_json_text(job);
    const Job again = parse_job(text, "/elsewhere/resolved.json");
    EXPECT_TRUE(again == job) << text;
    EXPECT_EQ(to_json_text(again), text);
  }
}

TEST(Job, TheDivisionThatIsNotSaidIsThatOfTheServers) {
  const auto kind = [](const char* shard, const char* plan) {
    std::vector<Override> settings = parse_plan(plan);
    if (*shard != 0) settings.push_back(parse_set(std::string("data.shard=") + shard));
    return parse_job(job_with_train("{}"), "job.json", settings).data.division.kind;
  };
  EXPECT_EQ(kind("", "dp=2"), DivisionKind::batch);
  EXPECT_EQ(kind("index", "dp=2"), DivisionKind::batch);  // as old jobs say it
  EXPECT_EQ(kind("", "ps"), DivisionKind::batch);
  EXPECT_EQ(kind("index", "ps"), DivisionKind::index);
  EXPECT_EQ(kind("", "federated"), DivisionKind::kfold);
}

TEST(Job, AServersPlanSaysItsFieldsInShort) {
  const Job job =
      parse_job(job_with_train("{}"), "job.json", parse_plan("mode=ssp,dp=2,ps,servers=2,workers=4,staleness=3"));
  const ServerSync& servers = job.plan.servers.value();
  EXPECT_EQ(job.plan.sync.kind, GradientSync::Kind::servers);
  EXPECT_EQ(job.plan.dp, 2);
  EXPECT_EQ(servers.servers, 2);
  EXPECT_EQ(servers.shards, 4);
  EXPECT_EQ(servers.consistency, Consistency::ssp);
  EXPECT_EQ(servers.staleness, 3);
  EXPECT_EQ(job.train.bn_group, 16);  // of a batch of 64, a worker's

  const std::vector<Override> by_set = {parse_set("plan.sync.type=ps"), parse_set("plan.sync.workers=4")};
  EXPECT_EQ(parse_job(job_with_train("{}"), "job.json", by_set).plan.servers.value().shards, 4);
  EXPECT_EQ(parse_job(job_with_train("{}"), "job.json", parse_plan("federated,fraction=0.05"))
                .plan.servers.value()
                .shards_a_round(),
            1);
}

TEST(Job, AWordInAPlanTakesThePlaceOfTheJobsSync) {
  std::vector<Override> settings = {parse_set(R"(plan.sync={"type": "powersgd", "rank": 4})")};
  for (Override& setting : parse_plan("ps,workers=2")) settings.push_back(std::move(setting));
  EXPECT_EQ(parse_job(job_with_train("{}"), "job.json", settings).plan.servers.value().shards, 2);
}

TEST(Job, WrongWordsInAPlanAreNamed) {
  const auto error = [](const char* plan) -> std::string {
    try {
      parse_plan(plan);
    } catch (const Error& caught) {
      return caught.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error("pss,servers=2"),
            "--plan pss,servers=2: expected field=value or a type of sync, found 'pss'; did you mean 'ps'? (known: "
            "allreduce, topk, powersgd, local_sgd, ps, federated)");
  EXPECT_EQ(error("ps,topk"), "--plan ps,topk: 'ps' and 'topk' are two types of sync");
  EXPECT_EQ(error("dp=2,"), "--plan dp=2,: expected field=value,field=value");
}

TEST(Job, EqualityNotices) {
  const Job job = parse_job(job_with_train("{}"), "job.json");
  Job other = job;
  other.train.stop.minutes = 1;
  EXPECT_FALSE(other == job);
  other = job;
  other.data.source.values.set("seed", std::int64_t{99});
  EXPECT_FALSE(other == job);
  other = job;
  other.data.augment.emplace_back(Cutout{5});
  EXPECT_FALSE(other == job);
  other = job;
  other.data.augment_on = AugmentOn::device;
  EXPECT_FALSE(other == job);
  other = job;
  other.model.layers[1].values.set("out", std::int64_t{5});
  EXPECT_FALSE(other == job);
}

TEST(ByteSize, ReadsWhatPeopleWrite) {
  EXPECT_EQ(parse_byte_size("8GB"), 8'000'000'000);
  EXPECT_EQ(parse_byte_size("512 MiB"), 536'870'912);
  EXPECT_EQ(parse_byte_size("4096"), 4096);
  EXPECT_EQ(parse_byte_size("256 kB"), 256'000);
  EXPECT_EQ(parse_byte_size("1KB"), 1000);
  EXPECT_EQ(parse_byte_size("1KiB"), 1024);
  EXPECT_EQ(parse_byte_size("1kiB"), std::nullopt);
  EXPECT_EQ(parse_byte_size("1mB"), std::nullopt);
  EXPECT_EQ(parse_byte_size("8 gigs"), std::nullopt);
  EXPECT_EQ(parse_byte_size("-1GB"), std::nullopt);
  EXPECT_EQ(parse_byte_size(""), std::nullopt);
}

TEST(NearestName, FindsTypingErrorsAndNothingElse) {
  const std::vector<std::string> names = {"stride", "pad", "conv2d", "random_crop"};
  EXPECT_EQ(nearest_name("strid", names), "stride");
  EXPECT_EQ(nearest_name("pda", names), "pad");
  EXPECT_EQ(nearest_name("Conv2D", names), "conv2d");
  EXPECT_EQ(nearest_name("crop", names), "random_crop");
  EXPECT_EQ(nearest_name("zzzzzz", names), std::nullopt);
}

}  // namespace
}  // namespace trifold
