// Writes generated jobs as files, for other programs to run: generate_networks --seed 1 --count 500 --out DIR makes
// DIR/1.json and so on, with the rows that jobs of regression or of small images read.
#include <filesystem>
#include <fstream>

#include <CLI/CLI.hpp>

#include "core/error.h"
#include "networks/dice.h"
#include "networks/random_job.h"

namespace trifold::test {
namespace {

// A row for each sample: its numbers, then its targets or, where there are none, its label.
void write_rows(const std::filesystem::path& file, const Job& job, std::int64_t targets, std::uint64_t seed) {
  Dice dice(seed, 9);
  std::ofstream rows(file);
  const std::int64_t numbers = job.model.input.elements() + targets;
  for (std::int64_t i = 0; i < numbers; ++i) rows << (i > 0 ? "," : "") << "c" << i;
  if (targets == 0) rows << ",label";
  for (std::int64_t sample = 0; sample < 4 * job.train.batch; ++sample) {
    rows << "\n";
    for (std::int64_t i = 0; i < numbers; ++i) rows << (i > 0 ? "," : "") << dice.uniform(-1.7, 1.7);
    if (targets == 0) rows << "," << dice.below(static_cast<std::size_t>(job.model.classes));
  }
  rows << "\n";
}

void write(std::uint64_t seed, NetworkSize size, bool plans, const std::filesystem::path& folder) {
  JobJson json = random_job(seed, size);
  if (plans) json["plan"] = random_plan(parse_generated(json), seed);
  // The synthetic set refuses images of fewer than 8 pixels a side.
  const JobJson& input = json["model"]["input"];
  if (json["data"]["type"] == "csv" || input[1] < 8 || input[2] < 8) {
    const std::string rows = std::to_string(seed) + ".csv";
    const std::int64_t targets = json["data"].value("targets", std::int64_t{0});
    json["data"] = {{"type", "csv"}, {"path", rows}, {"test_path", rows}};
    if (targets > 0) json["data"]["targets"] = targets;
    write_rows(folder / rows, parse_generated(json), targets, seed);
  }
  std::ofstream(folder / (std::to_string(seed) + ".json")) << json.dump(2) << "\n";
}

}  // namespace
}  // namespace trifold::test

int main(int argc, char** argv) {
  std::uint64_t seed = 1;
  std::uint64_t count = 10;
  std::string out = ".";
  bool plans = false;
  bool large = false;
  CLI::App app("Writes random jobs, one for each seed");
  app.add_option("--seed", seed, "of the first job");
  app.add_option("--count", count, "jobs");
  app.add_option("--out", out, "folder");
  app.add_flag("--plans", plans, "with random plans");
  app.add_flag("--large", large, "with images and channels as real networks have them");
  CLI11_PARSE(app, argc, argv);
  std::filesystem::create_directories(out);
  for (std::uint64_t i = 0; i < count; ++i)
    trifold::test::write(seed + i, large ? trifold::test::NetworkSize::large : trifold::test::NetworkSize::small, plans,
                         out);
  return 0;
}
