// Generated jobs: random networks over every registered layer, with random optimisers, batches and precisions, and
// random plans to run them under. All of them are valid: a refusal is a fault, of the generator or of the program.
#pragma once

#include <nlohmann/json.hpp>

#include "runtime/config/job.h"

namespace trifold::test {

using JobJson = nlohmann::ordered_json;

// How large the images and channels of generated networks are.
enum class NetworkSize {
  small,  // for the plain network, whose convolutions are loops in double
  large,  // as in real networks: whole tiles, several cache blocks, enough work for every thread
};

// A job for one rank, the same for the same seed and size.
JobJson random_job(std::uint64_t seed, NetworkSize size = NetworkSize::small);

// A plan that divides this job among 2 to 4 ranks (1: only accumulated or recomputed).
JobJson random_plan(const Job& job, std::uint64_t seed);

Job parse_generated(const JobJson& json);

}  // namespace trifold::test
