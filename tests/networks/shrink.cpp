#include "networks/shrink.h"

#include <algorithm>
#include <exception>
#include <functional>

#include <fmt/format.h>

#include "core/stopwatch.h"

namespace trifold::test {

std::string what_is_wrong(const JobJson& job, std::uint64_t seed, NetworkCheck* check) {
  try {
    NetworkCheck found = check_network(parse_generated(job), seed);
    std::string wrong = found.differences.empty() ? "" : to_string(found);
    if (check != nullptr) *check = std::move(found);
    return wrong.substr(0, wrong.find('\n'));
  } catch (const std::exception& error) {
    return fmt::format("refused: {}", error.what());
  }
}

namespace {

// A refusal is another fault than a wrong number, and than another refusal: one must not turn into the other while the
// job shrinks. What a refusal quotes and counts may change.
std::string kind_of(const std::string& wrong) {
  if (wrong.empty()) return "right";
  if (!wrong.starts_with("refused: ")) return "different";
  std::string kind;
  bool quoted = false;
  for (const char letter : wrong) {
    if (letter == '\'' || letter == '"') quoted = !quoted;
    if (!quoted && !(letter >= '0' && letter <= '9')) kind += letter;
  }
  return kind;
}

std::vector<std::string> inputs_of(const JobJson& layer) {
  if (!layer.contains("in")) return {};
  if (layer["in"].is_string()) return {layer["in"].get<std::string>()};
  return layer["in"].get<std::vector<std::string>>();
}

// The job without layer `index`, whose readers now read its first input.
JobJson without_layer(JobJson job, std::size_t index) {
  JobJson& layers = job["model"]["layers"];
  const std::string id = layers[index]["id"];
  const std::vector<std::string> inputs = inputs_of(layers[index]);
  for (JobJson& layer : layers) {
    std::vector<std::string> in = inputs_of(layer);
    std::ranges::replace(in, id, inputs.empty() ? std::string("input") : inputs[0]);
    if (in.size() == 1) layer["in"] = in[0];
    if (in.size() > 1) layer["in"] = in;
  }
  layers.erase(index);
  return job;
}

// Every job that is one change smaller, the boldest first.
std::vector<JobJson> smaller(const JobJson& job) {
  std::vector<JobJson> jobs;
  const auto change = [&](const std::function<void(JobJson&)>& how) {
    JobJson changed = job;
    how(changed);
    if (changed != job) jobs.push_back(std::move(changed));
  };
  const std::size_t layers = job["model"]["layers"].size();
  for (std::size_t i = 0; i < layers; ++i) jobs.push_back(without_layer(job, i));
  if (job.contains("plan"))
    for (const auto& [key, value] : job["plan"].items())
      if (key != "device") change([&, name = key](JobJson& it) { it["plan"].erase(name); });
  for (const auto& [key, value] : job["train"].items())
    if (key != "batch" && key != "epochs") change([&, name = key](JobJson& it) { it["train"].erase(name); });
  change([](JobJson& it) { it["train"]["optimizer"] = {{"type", "sgd"}, {"lr", 0.01}}; });
  for (std::size_t i = 0; i < layers; ++i)
    for (const auto& [key, value] : job["model"]["layers"][i].items()) {
      if (key == "id" || key == "type" || key == "in") continue;
      change([&, i, name = key](JobJson& it) { it["model"]["layers"][i].erase(name); });
      if (!value.is_number_integer()) continue;
      for (const std::int64_t less : {value.get<std::int64_t>() / 2, value.get<std::int64_t>() - 1})
        if (less >= 1) change([&, i, less, name = key](JobJson& it) { it["model"]["layers"][i][name] = less; });
    }
  for (std::size_t dim = 0; dim < 3; ++dim)
    for (const std::int64_t less :
         {job["model"]["input"][dim].get<std::int64_t>() / 2, job["model"]["input"][dim].get<std::int64_t>() - 1})
      if (less >= 1) change([&, dim, less](JobJson& it) { it["model"]["input"][dim] = less; });
  const auto batch = job["train"]["batch"].get<std::int64_t>();
  for (const std::int64_t less : {batch / 2, batch - 1})
    if (less >= 1)
      change([&, less](JobJson& it) {
        it["train"]["batch"] = less;
        it["train"].erase("bn_group");
      });
  return jobs;
}

}  // namespace

JobJson shrink(JobJson job, std::uint64_t seed, double seconds) {
  const Stopwatch stopwatch;
  const std::string first = kind_of(what_is_wrong(job, seed));
  // Round and round through the changes, until none of them has made it smaller since the last that did.
  std::size_t since = 0;
  for (std::size_t at = 0; stopwatch.seconds() < seconds; ++at) {
    std::vector<JobJson> candidates = smaller(job);
    if (since++ >= candidates.size()) break;
    if (at >= candidates.size()) at = 0;
    if (kind_of(what_is_wrong(candidates[at], seed)) != first) continue;
    job = std::move(candidates[at--]);
    since = 0;
  }
  return job;
}

}  // namespace trifold::test
