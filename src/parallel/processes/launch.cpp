#include "parallel/processes/launch.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace trifold {
namespace {

std::optional<int> number_in(const Environment& environment, const char* name) {
  const char* text = environment(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 0)
    fail_input("the variable {} is '{}', which is no whole number from 0 on", name, digits);
  return number;
}

std::optional<Launch> by_mpirun(const Environment& environment) {
  const auto size = number_in(environment, "OMPI_COMM_WORLD_SIZE");
  const auto rank = number_in(environment, "OMPI_COMM_WORLD_RANK");
  if (!size || !rank) return std::nullopt;
  return Launch{.by = Launch::By::mpi, .starter = "mpirun", .rank = *rank, .size = *size, .host = ""};
}

std::optional<Launch> by_srun(const Environment& environment) {
  const auto size = number_in(environment, "SLURM_STEP_NUM_TASKS");
  const auto rank = number_in(environment, "SLURM_PROCID");
  if (!size || !rank) return std::nullopt;
  if (*size > 1 && environment("PMIX_RANK") == nullptr)
    fail_input(
        "srun started {} processes without a way to find each other; start them with: srun --mpi=pmix trifold ...",
        *size);
  return Launch{.by = Launch::By::mpi, .starter = "srun", .rank = *rank, .size = *size, .host = ""};
}

std::optional<Launch> by_torchrun_variables(const Environment& environment) {
  const auto rank = number_in(environment, "RANK");
  const auto size = number_in(environment, "WORLD_SIZE");
  const char* host = environment("MASTER_ADDR");
  auto port = number_in(environment, "MASTER_PORT");
  if (!rank && !size) return std::nullopt;
  if (!rank || !size || (*size > 1 && (host == nullptr || !port)))
    fail_input("RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT go together, but {} is not set", !rank   ? "RANK"
                                                                                               : !size ? "WORLD_SIZE"
                                                                                               : host == nullptr
                                                                                                   ? "MASTER_ADDR"
                                                                                                   : "MASTER_PORT");
  // torchrun itself listens at MASTER_PORT.
  if (port && environment("TORCHELASTIC_USE_AGENT_STORE") != nullptr) port = *port + 1;
  return Launch{.by = Launch::By::rendezvous,
                .starter = "RANK and WORLD_SIZE",
                .rank = *rank,
                .size = *size,
                .host = host == nullptr ? "" : host,
                .port = port.value_or(0)};
}

// {"cluster": {"chief": [..], "worker": ["host:port", ..]}, "task": {"type": "worker", "index": 1}}
std::optional<Launch> by_tf_config(const Environment& environment) {
  const char* text = environment("TF_CONFIG");
  if (text == nullptr || *text == '\0') return std::nullopt;
  try {
    const nlohmann::json config = nlohmann::json::parse(text);
    std::vector<std::string> workers;
    const nlohmann::json& task = config.at("task");
    const auto type = task.at("type").get<std::string>();
    int rank = -1;
    for (const char* kind : {"chief", "worker"}) {
      if (!config.at("cluster").contains(kind)) continue;
      if (type == kind) rank = static_cast<int>(workers.size()) + task.at("index").get<int>();
      for (const auto& address : config.at("cluster").at(kind)) workers.push_back(address.get<std::string>());
    }
    if (rank < 0) fail_input("TF_CONFIG makes this process a '{}'; trifold has chiefs and workers only", type);
    const std::size_t colon = workers.empty() ? std::string::npos : workers.front().rfind(':');
    if (colon == std::string::npos) fail_input("TF_CONFIG names no worker as host:port");
    return Launch{.by = Launch::By::rendezvous,
                  .starter = "TF_CONFIG",
                  .rank = rank,
                  .size = static_cast<int>(workers.size()),
                  .host = workers.front().substr(0, colon),
                  .port = std::stoi(workers.front().substr(colon + 1))};
  } catch (const nlohmann::json::exception& error) {
    fail_input("TF_CONFIG cannot be read: {}", error.what());
  } catch (const std::logic_error&) {  // of stoi
    fail_input("TF_CONFIG's first worker has no port number");
  }
}

}  // namespace

Launch find_launch(const Environment& environment) {
  // In this order: mpirun inside a Slurm job sees srun's variables too.
  for (const auto& find : {by_mpirun, by_srun, by_torchrun_variables, by_tf_config}) {
    const std::optional<Launch> launch = find(environment);
    if (!launch) continue;
    if (launch->size < 1 || launch->rank >= launch->size)
      fail_input("{} makes this process number {} of {}, counted from 0", launch->starter, launch->rank, launch->size);
    if (launch->size > 1) return *launch;
  }
  return {};
}

void refuse_several_processes(const char* command) {
  const Launch launch = find_launch([](const char* name) -> const char* { return std::getenv(name); });
  if (launch.size > 1)
    fail_input("{} runs every rank in its own process, but {} started {} processes: start one", command, launch.starter,
               launch.size);
}

}  // namespace trifold
