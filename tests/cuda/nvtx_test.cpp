// Tools that watch a GPU see a step's phases and nodes by name. A log that NVTX loads as it would load Nsight says so.
#include <algorithm>
#include <map>
#include <sstream>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "kernels/gpu_plugin.h"
#include "support/networks.h"
#include "support/paths.h"
#include "support/training.h"

namespace trifold::test {
namespace {

struct Ranges {
  std::vector<std::string> paths;  // "forward/conv1 conv2d.forward", in the order of their beginnings
  bool balanced = true;
};

Ranges take_ranges() {
  Ranges ranges;
  void* log = ::dlopen(nvtx_log_path().c_str(), RTLD_NOW);
  auto* take = reinterpret_cast<std::size_t (*)(char*, std::size_t)>(::dlsym(log, "nvtx_log_take"));
  std::string text(std::size_t{1} << 22, '\0');
  EXPECT_LT(take(text.data(), text.size()), text.size());
  std::map<std::string, std::vector<std::string>> open;  // by thread
  std::istringstream lines(text.c_str());
  for (std::string thread, what; lines >> thread >> what;) {
    std::vector<std::string>& names = open[thread];
    if (what == "pop") {
      if (names.empty()) ranges.balanced = false;
      if (!names.empty()) names.pop_back();
      continue;
    }
    std::string name;
    std::getline(lines >> std::ws, name);
    names.push_back(names.empty() ? name : names.back() + "/" + name);
    ranges.paths.push_back(names.back());
  }
  for (const auto& [thread, names] : open) ranges.balanced = ranges.balanced && names.empty();
  return ranges;
}

ModelOptions gpu_options(bool graphs) {
  ModelOptions options;
  options.backend = &find_gpus().plugin->backend(false);
  options.device = &find_gpus().plugin->device(0);
  options.batch = 4;
  options.graphs = graphs;
  return options;
}

void run_steps(const ModelOptions& options, int steps) {
  Model model = make_model(small_tutorial(), options);
  model.initialize(3);
  for (int step = 0; step < steps; ++step) run_step(model, options, step);
}

TEST(CudaNvtx, APhaseIsARangeAndANodeIsOneInIt) {
  take_ranges();
  run_steps(gpu_options(false), 2);
  const Ranges ranges = take_ranges();
  EXPECT_TRUE(ranges.balanced);
  ASSERT_FALSE(ranges.paths.empty());
  std::map<std::string, int> times;
  for (const std::string& path : ranges.paths) ++times[path];
  for (const char* path :
       {"forward", "backward", "update", "forward/conv1 conv2d.forward", "backward/conv1 conv2d.backward_weights"})
    EXPECT_EQ(times[path], 2) << path;
  for (const auto& [path, count] : times)
    EXPECT_EQ(std::ranges::count(path, '/'), path == "forward" || path == "backward" || path == "update" ? 0 : 1)
        << path;
}

// The second step is captured, with its nodes' names, and launched; the third is only launched.
TEST(CudaNvtx, AReplayedStepIsOneRange) {
  take_ranges();
  run_steps(gpu_options(true), 3);
  const Ranges ranges = take_ranges();
  EXPECT_TRUE(ranges.balanced);
  EXPECT_EQ(std::ranges::count(ranges.paths, "step"), 2);
  EXPECT_EQ(std::ranges::count(ranges.paths, "forward"), 2);
  ASSERT_FALSE(ranges.paths.empty());
  EXPECT_EQ(ranges.paths.back(), "step");
}

}  // namespace
}  // namespace trifold::test
