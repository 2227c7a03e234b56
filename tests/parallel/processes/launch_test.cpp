#include "parallel/processes/launch.h"

#include <map>

#include <gtest/gtest.h>

#include "core/error.h"

namespace trifold {
namespace {

using Variables = std::map<std::string, std::string>;

Launch launch_with(const Variables& variables) {
  return find_launch([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal_of(const Variables& variables) {
  try {
    launch_with(variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::input);
    return error.what();
  }
  return "";
}

TEST(Launch, WithoutVariablesAProcessIsAlone) {
  EXPECT_EQ(launch_with({}), Launch{});
  EXPECT_EQ(launch_with({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}), Launch{});
}

TEST(Launch, MpirunWinsOverTheSlurmJobItRunsIn) {
  const Launch launch = launch_with({{"OMPI_COMM_WORLD_SIZE", "4"},
                                     {"OMPI_COMM_WORLD_RANK", "3"},
                                     {"SLURM_STEP_NUM_TASKS", "2"},
                                     {"SLURM_PROCID", "0"}});
  EXPECT_EQ(launch.by, Launch::By::mpi);
  EXPECT_EQ(launch.starter, "mpirun");
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.size, 4);
}

TEST(Launch, SrunNeedsPmix) {
  Variables variables = {{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}};
  EXPECT_NE(refusal_of(variables).find("srun --mpi=pmix"), std::string::npos);
  variables["PMIX_RANK"] = "1";
  EXPECT_EQ(launch_with(variables).starter, "srun");
  EXPECT_EQ(launch_with(variables).rank, 1);
}

TEST(Launch, TorchrunsVariablesNameAMeetingPoint) {
  Variables variables = {{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
  const Launch launch = launch_with(variables);
  EXPECT_EQ(launch.by, Launch::By::rendezvous);
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.size, 3);
  EXPECT_EQ(launch.host, "node7");
  EXPECT_EQ(launch.port, 29500);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(launch_with(variables).port, 29501);
  variables.erase("MASTER_ADDR");
  EXPECT_NE(refusal_of(variables).find("MASTER_ADDR is not set"), std::string::npos);
}

TEST(Launch, TfConfigCountsTheChiefFirst) {
  const std::string cluster = R"({"cluster": {"chief": ["a:1000"], "worker": ["b:2000", "c:3000"]}, "task": )";
  const Launch worker = launch_with({{"TF_CONFIG", cluster + R"({"type": "worker", "index": 1}})"}});
  EXPECT_EQ(worker.rank, 2);
  EXPECT_EQ(worker.size, 3);
  EXPECT_EQ(worker.host, "a");
  EXPECT_EQ(worker.port, 1000);
  EXPECT_EQ(launch_with({{"TF_CONFIG", cluster + R"({"type": "chief", "index": 0}})"}}).rank, 0);
  EXPECT_NE(refusal_of({{"TF_CONFIG", cluster + R"({"type": "ps", "index": 0}})"}}).find("'ps'"), std::string::npos);
  EXPECT_NE(refusal_of({{"TF_CONFIG", "{"}}).find("TF_CONFIG cannot be read"), std::string::npos);
}

TEST(Launch, ContradictionsAreRefused) {
  EXPECT_NE(refusal_of({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "2"}}).find("number 2 of 2"),
            std::string::npos);
  EXPECT_NE(refusal_of({{"RANK", "one"}, {"WORLD_SIZE", "2"}}).find("RANK is 'one'"), std::string::npos);
}

}  // namespace
}  // namespace trifold
