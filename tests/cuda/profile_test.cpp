// The profile of a job on GPUs: what each node launches, and what the launches did. Simulated GPUs count, so everything
// here can be exact.
#include "insight/profile/profile.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "gpusim/include/gpusim_client.h"
#include "insight/profile/gpu_rows.h"
#include "insight/work/traffic.h"
#include "kernels/gpu_plugin.h"
#include "runtime/train/job_data.h"
#include "runtime/train/parallel_model.h"
#include "support/folding.h"
#include "support/job_fixture.h"
#include "support/networks.h"

namespace trifold::test {
namespace {

Job gpu_job(const PlanConfig& plan) {
  Job job = fold_job(small_tutorial(), plan, {});
  job.plan.device = "cuda";
  job.data.source = synthetic_source(job.model, 64);
  return job;
}

const std::vector<PlanConfig> kPlans = {{}, {.dp = 2}, {.tp = 2}, {.pp = 2, .micro_batches = 2}};

std::string name_of(const PlanConfig& plan) {
  return "dp=" + std::to_string(plan.dp) + ",tp=" + std::to_string(plan.tp) + ",pp=" + std::to_string(plan.pp);
}

// Set for the time of a test's block.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Environment() { ::unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

struct Sums {
  double launches = 0;
  double instructions = 0;
  double sectors = 0;
};
Sums operator-(const Sums& a, const Sums& b) {
  return {a.launches - b.launches, a.instructions - b.instructions, a.sectors - b.sectors};
}

Sums of_nodes(const Profile& profile) {
  Sums sums;
  for (const ProfileRow& row : profile.rows) {
    const GpuKernel all = row.gpu.all();
    if (row.name == "outside of nodes") continue;
    sums.launches += static_cast<double>(all.counted);
    sums.instructions += all.counts.warp_instructions;
    sums.sectors += all.counts.read_sectors + all.counts.write_sectors;
  }
  return sums;
}

struct Counted {
  Sums nodes = {};      // by the profile
  Sums simulator = {};  // by the simulator, with what comes before the steps
};
Counted count(const Job& job, int steps) {
  gpusim_client::statistics(true);
  Counted counted{.nodes = of_nodes(profile(job, {.warmup = 1, .steps = steps}))};
  gpusim_client::statistics(false);
  for (const GpusimLaunch& launch : gpusim_client::launches()) {
    counted.simulator.launches += 1;
    counted.simulator.instructions += static_cast<double>(launch.warp_instructions);
    counted.simulator.sectors += static_cast<double>(launch.global_read_sectors + launch.global_write_sectors);
  }
  return counted;
}

// Two more steps: the simulator's figures grow by what the nodes' lines do.
TEST(CudaProfile, EveryLaunchBelongsToANode) {
  for (const PlanConfig& plan : kPlans) {
    SCOPED_TRACE(name_of(plan));
    const Job job = gpu_job(plan);
    const Counted one = count(job, 1);
    const Counted three = count(job, 3);
    const Sums nodes = three.nodes - one.nodes;
    const Sums simulator = three.simulator - one.simulator;
    EXPECT_GT(nodes.launches, 0);
    EXPECT_EQ(nodes.launches, simulator.launches);
    EXPECT_EQ(nodes.instructions, simulator.instructions);
    EXPECT_EQ(nodes.sectors, simulator.sectors);
  }
}

TEST(CudaProfile, SaysTheSameTwice) {
  for (const PlanConfig& plan : kPlans) {
    const Job job = gpu_job(plan);
    const ProfileOptions options{.warmup = 1, .steps = 2};
    EXPECT_EQ(to_json_text(profile(job, options)), to_json_text(profile(job, options))) << name_of(plan);
  }
}

TEST(CudaProfile, HasTheArithmeticOfItsPrograms) {
  for (const PlanConfig& plan : kPlans) {
    const Job job = gpu_job(plan);
    const Profile found = profile(job, {.warmup = 0, .steps = 2});
    double expected = 0;
    {
      const ParallelModel model(job);
      for (int rank = 0; rank < model.plan().mesh.size(); ++rank)
        for (const auto& chunk : model.chunks(rank)) {
          const Program& program = chunk->training().program();
          for (std::size_t i = 0; i < program.graph.nodes.size(); ++i) {
            const Node& node = program.graph.nodes[i];
            if (node.phase != Phase::update && program.kernels[i] && exchange_of(node) == nullptr)
              expected += program.flops(node) * static_cast<double>(plan.micro_batches) * 2;
          }
        }
    }
    double flops = 0;
    for (const ProfileRow& row : found.rows)
      if (row.phase != "update") flops += row.flops;
    EXPECT_NEAR(flops, expected, 1e-9 * expected) << name_of(plan);
  }
}

TEST(CudaProfile, KnowsWhatAKernelTakes) {
  const Profile found = profile(gpu_job({}), {.warmup = 0, .steps = 1});
  ASSERT_TRUE(found.gpu);
  EXPECT_TRUE(found.gpu->simulated);
  EXPECT_EQ(found.gpu->method, "CUPTI");
  EXPECT_EQ(found.gpu->spec.name, "A100");
  int own = 0;
  for (const ProfileRow& row : found.rows)
    for (const GpuKernel& kernel : row.gpu.kernels) {
      EXPECT_EQ(kernel.name.find("_Z"), std::string::npos) << kernel.name;
      if (kernel.counted == 0) continue;  // a library's
      ++own;
      EXPECT_GT(kernel.grid[0], 0) << kernel.name;
      EXPECT_GT(kernel.block[0], 0) << kernel.name;
      EXPECT_GT(kernel.registers, 0) << kernel.name;
      EXPECT_LT(kernel.registers, 256) << kernel.name;
      EXPECT_GT(kernel.occupancy, 0) << kernel.name;
      EXPECT_LE(kernel.occupancy, 1) << kernel.name;
      EXPECT_GT(kernel.counts.warp_instructions, 0) << kernel.name;
      EXPECT_LE(lane_percent(kernel.counts), 100) << kernel.name;
    }
  EXPECT_GT(own, 3);
}

// As on a real GPU, with the simulated clock's times: lines and idle time are all of the wall's.
TEST(CudaProfile, TimedLinesAddUp) {
  const Job job = gpu_job({.dp = 2});
  ParallelModel model(job);
  model.initialize(1);
  const auto loader = make_training_loader(job, open_split(job, Split::train), 0, 0, model.batch_share());
  const auto recorder =
      find_gpus().plugin->make_recorder({&model.chunks(0).front()->device(), &model.chunks(1).front()->device()});
  std::vector<SpanLog> logs = {SpanLog(0, recorder.get()), SpanLog(1, recorder.get())};
  GpuRows rows(model, true, find_gpu_spec("a100"));
  constexpr int kSteps = 2;
  constexpr double kWallMs = 1000;  // far more than the steps take
  model.time_steps(true, logs);
  for (int step = 0; step < kSteps; ++step) {
    model.start_step(&loader->next(), {.seed = 1, .learning_rate = 0.01, .updates = step + 1});
    loader->release();
    model.finish_step();
    rows.add_step(logs, recorder->take());
    for (SpanLog& log : logs) log.clear();
  }
  model.time_steps(false);
  std::map<int, double> ms;
  std::map<int, double> idle;
  for (const ProfileRow& row : rows.rows(kWallMs)) {
    ms[row.rank] += row.total_ms;
    if (row.phase == "idle") idle[row.rank] = row.total_ms;
    EXPECT_LE(row.min_ms, row.mean_ms() + 1e-9) << row.name;
    EXPECT_GE(row.max_ms, row.mean_ms() - 1e-9) << row.name;
    EXPECT_GE(row.total_ms, 0) << row.name;
    EXPECT_TRUE(row.name != "all_reduce" || row.bound == "waiting");
  }
  ASSERT_EQ(ms.size(), 2u);
  for (const auto& [rank, sum] : ms) {
    EXPECT_GE(sum, kWallMs - 1e-6) << "copies may overlap kernels: never less";
    EXPECT_NEAR(sum, kWallMs, 0.01 * kWallMs) << rank;
    EXPECT_LT(idle[rank], kWallMs) << rank;
  }
}

// --- without CUPTI

TEST(CudaProfile, EventsStandInForCupti) {
  const Environment none("TRIFOLD_CUPTI", "/nowhere/libcupti.so");
  const Profile found = profile(gpu_job({}), {.warmup = 0, .steps = 1});
  EXPECT_EQ(found.gpu->method, "CUDA events");
  EXPECT_TRUE(says(found.gpu->why_not_better, "/nowhere/libcupti.so"));
  EXPECT_EQ(of_nodes(found).launches, 0);
  EXPECT_GT(found.wall_ms, 0) << "the estimate needs the programs only";
  EXPECT_TRUE(says(to_text(found, {}), "single kernels are not seen: CUPTI cannot be loaded"));
}

TEST(CudaProfile, EventsStandInWhereCuptiRefuses) {
  const Environment refuse("GPUSIM_CUPTI", "refuse");
  const Profile found = profile(gpu_job({}), {.warmup = 0, .steps = 1});
  EXPECT_EQ(found.gpu->method, "CUDA events");
  EXPECT_TRUE(says(found.gpu->why_not_better, "CUPTI refuses: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"));
}

// A library that is there, but is not CUPTI.
TEST(CudaProfile, EventsStandInForAStrangeLibrary) {
  const Environment strange("TRIFOLD_CUPTI", "libm.so.6");
  std::string why;
  Device& device = find_gpus().plugin->device(0);
  EXPECT_TRUE(says(find_gpus().plugin->make_recorder({&device})->why_not(),
                   "'libm.so.6' has no cuptiActivityRegisterCallbacks"));
}

TEST(CudaRecorder, ByEventsTimesTaggedWork) {
  const Environment none("TRIFOLD_CUPTI", "/nowhere/libcupti.so");
  Device& device = find_gpus().plugin->device(0);
  const auto recorder = find_gpus().plugin->make_recorder({&device});
  const DeviceMemory memory(device, 1 << 20);
  for (int step = 0; step < 2; ++step) {
    for (const std::uint64_t tag : {7u, 9u}) {
      recorder->enter(device, tag);
      device.clear(memory.data(), memory.bytes());
      recorder->leave(device);
    }
    const std::vector<DeviceActivity> seen = recorder->take();
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0].tag, 7u);
    EXPECT_EQ(seen[1].tag, 9u);
    for (const DeviceActivity& each : seen) {
      EXPECT_EQ(each.kind, DeviceActivity::Kind::work);
      EXPECT_GT(each.ms(), 0);
    }
    EXPECT_LE(seen[0].end_ns, seen[1].begin_ns);
  }
}

TEST(CudaRecorder, ByCuptiSeesCopiesAndFills) {
  Device& device = find_gpus().plugin->device(1);
  const auto recorder = find_gpus().plugin->make_recorder({&device});
  EXPECT_EQ(recorder->method(), "CUPTI");
  EXPECT_EQ(recorder->why_not(), "");
  const DeviceMemory memory(device, 4096);
  std::vector<char> host(4096, 'x');
  recorder->enter(device, 5);
  device.clear(memory.data(), 1024);
  device.upload(memory.data(), host.data(), 4096);
  recorder->leave(device);
  device.download(host.data(), memory.data(), 512);
  const std::vector<DeviceActivity> seen = recorder->take();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].kind, DeviceActivity::Kind::fill);
  EXPECT_EQ(seen[0].bytes, 1024);
  EXPECT_EQ(seen[1].kind, DeviceActivity::Kind::copy_in);
  EXPECT_EQ(seen[1].bytes, 4096);
  EXPECT_EQ(seen[2].kind, DeviceActivity::Kind::copy_out);
  EXPECT_EQ(seen[2].bytes, 512);
  EXPECT_EQ(seen[0].tag, 5u);
  EXPECT_EQ(seen[1].tag, 5u);
  EXPECT_EQ(seen[2].tag, 0u);
  EXPECT_EQ(recorder->take().size(), 0u) << "taken once";
}

// --- the command

class CudaProfileCommand : public JobFixture {
 protected:
  void SetUp() override { write_job(small_job()); }
};

TEST_F(CudaProfileCommand, ShowsReplicas) {
  const ProgramResult result =
      trifold({"profile", "job.json", "--devices", "cuda:2", "--plan", "dp=2", "--steps", "2", "--csv", "lines.csv"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"ESTIMATE for an A100", "on 2 GPUs", "not replayed as a CUDA graph", "warp instr", "est. ms",
                           "conv2d.forward", "all_reduce", "copy to the GPU"})
    EXPECT_TRUE(says(result.out, part));
  std::ifstream csv(directory() / "lines.csv");
  std::string head;
  std::getline(csv, head);
  EXPECT_TRUE(says(head, "estimated_total_ms"));
}

TEST_F(CudaProfileCommand, GroupsByLaunchAndNamesAGpu) {
  const ProgramResult result =
      trifold({"profile", "job.json", "--devices", "cuda", "--steps", "1", "--group", "launch", "--gpu", "h100"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* part : {"ESTIMATE for an H100", "registers", "cudnnConvolution"})
    EXPECT_TRUE(says(result.out, part));
}

TEST_F(CudaProfileCommand, RefusesWhatItDoesNotKnow) {
  const auto refusal = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"profile", "job.json"});
    const ProgramResult result = trifold(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.out;
    return result.err;
  };
  EXPECT_TRUE(
      says(refusal({"--devices", "cuda", "--gpu", "voodoo2"}), "--gpu voodoo2: no such GPU is known; there are t4"));
  EXPECT_TRUE(says(refusal({"--devices", "cpu", "--gpu", "a100"}), "these are the CPU's"));
}

}  // namespace
}  // namespace trifold::test
