// Compares generated jobs with the plain network, in the order of their seeds: check_networks --seed 1 --count 2000.
// The first line of a failure names the seed; what follows is the job, as small as it could be made. That job, kept in
// a file, runs alone with --job FILE --seed SEED, which prints every difference.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>

#include <CLI/CLI.hpp>
#include <spdlog/spdlog.h>

#include "core/stopwatch.h"
#include "networks/network_check.h"
#include "networks/random_job.h"
#include "networks/shrink.h"

namespace trifold::test {
namespace {

struct Options {
  std::uint64_t seed = 1;
  std::int64_t count = 200;
  double seconds = 0;  // 0: as many as `count` says
  bool plans = false;
  std::string device;
  std::string job;  // a file; else jobs are generated
  bool each = false;
  bool shrink = true;
  bool stop = false;
};

JobJson job_of(const Options& options, std::uint64_t seed) {
  JobJson job = random_job(seed);
  if (options.plans) job["plan"] = random_plan(parse_generated(job), seed);
  if (!options.device.empty()) job["plan"]["device"] = options.device;
  return job;
}

int run_file(const Options& options) {
  std::ifstream file(options.job);
  if (!file) {
    fmt::print(stderr, "check_networks: cannot read {}\n", options.job);
    return 2;
  }
  NetworkCheck check;
  const std::string wrong = what_is_wrong(JobJson::parse(file), options.seed, &check);
  if (wrong.starts_with("refused")) {
    fmt::print("{}\n", wrong);
    return 1;
  }
  fmt::print("{}closest to what is allowed: {:.2f} of it, at {}\n", to_string(check), check.closest, check.tightest);
  return check.differences.empty() ? 0 : 1;
}

int run(const Options& options) {
  const Stopwatch stopwatch;
  std::int64_t passed = 0;
  std::int64_t failed = 0;
  std::int64_t kinked = 0;
  std::int64_t kernels = 0;
  std::int64_t overflowed = 0;
  double closest = 0;
  std::string tightest;
  for (std::uint64_t seed = options.seed;; ++seed) {
    const bool more = options.seconds > 0 ? stopwatch.seconds() < options.seconds : passed + failed < options.count;
    if (!more) break;
    const JobJson job = job_of(options, seed);
    const Stopwatch one;
    NetworkCheck check;
    const std::string wrong = what_is_wrong(job, seed, &check);
    kinked += check.kinked_steps;
    kernels += check.nodes;
    if (check.overflowed) ++overflowed;
    if (check.closest > closest) {
      closest = check.closest;
      tightest = "seed " + std::to_string(seed) + " " + check.tightest;
    }
    std::fflush(stdout);
    if (options.each)
      fmt::print("{}: {:.2f} s, {} kernels, closest {:.2f} at {}\n", seed, one.seconds(), check.nodes, check.closest,
                 check.tightest);
    if (wrong.empty()) {
      ++passed;
      continue;
    }
    ++failed;
    fmt::print("FAILED seed {}: {}\n", seed, wrong);
    if (options.shrink) {
      const JobJson least = shrink(job, seed);
      fmt::print("the smallest job that fails: {}\n{}\n", what_is_wrong(least, seed), least.dump(2));
    }
    if (options.stop) break;
  }
  fmt::print("closest to what is allowed: {:.2f} of it, at {}\n", closest, tightest);
  fmt::print(
      "{} kernels compared; gradients of {} steps left out, too close to a kink; {} networks left where they grew "
      "beyond fp16; {:.0f} s\n",
      kernels, kinked, overflowed, stopwatch.seconds());
  fmt::print("networks: {} passed, {} failed, 0 skipped\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace trifold::test

int main(int argc, char** argv) {
  trifold::test::Options options;
  CLI::App app(
      "Compares generated jobs with the same network in double precision, without any of the compiler's passes");
  app.add_option("--seed", options.seed, "of the first job");
  app.add_option("--count", options.count, "jobs");
  app.add_option("--seconds", options.seconds, "go on for so long");
  app.add_option("--job", options.job, "a job file, in place of generated jobs");
  app.add_flag("--plans", options.plans, "under random plans");
  app.add_option("--device", options.device, "as in plan.device");
  app.add_flag("--each", options.each, "a line for each job");
  app.add_flag("--stop", options.stop, "at the first failure");
  app.add_flag("!--no-shrink", options.shrink, "leave failing jobs as they are");
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(spdlog::level::warn);
  return options.job.empty() ? trifold::test::run(options) : trifold::test::run_file(options);
}
