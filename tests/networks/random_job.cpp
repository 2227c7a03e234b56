#include "networks/random_job.h"

#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "networks/dice.h"
#include "networks/random_network.h"

namespace trifold::test {
namespace {

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> found;
  for (std::int64_t i = 1; i <= number; ++i)
    if (number % i == 0) found.push_back(i);
  return found;
}

JobJson random_optimizer(Dice& dice) {
  const auto type = dice.pick<std::string>({"sgd", "sgd", "adam", "adamw", "lars", "adagrad"});
  JobJson json = {{"type", type}, {"lr", dice.uniform(0.001, 0.05)}};
  if (dice.chance(0.5)) json["weight_decay"] = dice.uniform(0, 0.1);
  if (dice.chance(0.3)) json["decay_bias"] = true;
  if (type == "sgd" || type == "lars") {
    if (dice.chance(0.7)) {
      json["momentum"] = dice.uniform(0.1, 0.95);
      if (dice.chance(0.4)) json["nesterov"] = true;
    }
    if (type == "lars" && dice.chance(0.5)) json["trust"] = dice.uniform(0.001, 0.1);
  } else {
    if (dice.chance(0.4)) json["eps"] = dice.pick({1e-8, 1e-5, 1e-3});
    if (type != "adagrad" && dice.chance(0.4)) {
      json["beta1"] = dice.pick({0.5, 0.9, 0.99});
      json["beta2"] = dice.pick({0.9, 0.99, 0.999, 0.99999});
    }
    if (type == "adagrad" && dice.chance(0.5)) json["initial_accumulator"] = dice.uniform(0.01, 1);
  }
  return json;
}

}  // namespace

JobJson random_job(std::uint64_t seed, NetworkSize size) {
  Dice dice(seed);
  const RandomNetwork network = random_network(dice, size);
  const auto batch = size == NetworkSize::large ? dice.pick<std::int64_t>({4, 6, 8, 12, 16, 16})
                                                : dice.pick<std::int64_t>({2, 3, 4, 4, 6, 8, 8});
  std::vector<std::int64_t> accumulations;
  for (const std::int64_t parts : divisors(batch))
    if (batch / parts >= network.smallest_bn_group) accumulations.push_back(parts);
  const std::int64_t accumulate = dice.chance(0.7) ? 1 : dice.pick(accumulations);
  std::vector<std::int64_t> groups;
  for (const std::int64_t group : divisors(batch / accumulate))
    if (group >= network.smallest_bn_group) groups.push_back(group);
  JobJson train = {{"epochs", 1},
                   {"batch", batch},
                   {"accumulate", accumulate},
                   {"bn_group", dice.chance(0.5) ? batch / accumulate : dice.pick(groups)},
                   {"seed", static_cast<std::int64_t>(seed % 1000)},
                   {"optimizer", random_optimizer(dice)}};
  if (dice.chance(0.2)) train["clip_norm"] = dice.uniform(0.05, 5);
  if (dice.chance(0.3)) train["math"] = "strict";
  if (dice.chance(0.5)) train["recompute"] = dice.pick<std::string>({"never", "always"});
  if (dice.chance(0.15)) {
    train["precision"] = dice.pick<std::string>({"fp16", "bf16"});
    train["loss_scale"] = {{"initial", 256}};
  }
  train["threads"] = dice.pick({1, 2});
  JobJson data = {{"type", "synthetic"}, {"train_samples", 4 * batch}, {"test_samples", batch}};
  if (network.regression)
    data = {{"type", "csv"}, {"path", "rows.csv"}, {"test_path", "rows.csv"}, {"targets", network.outputs}};
  return {{"name", "generated_" + std::to_string(seed)}, {"model", network.model}, {"data", data}, {"train", train}};
}

Job parse_generated(const JobJson& json) {
  return parse_job(json.dump(), "generated.json");
}

}  // namespace trifold::test
