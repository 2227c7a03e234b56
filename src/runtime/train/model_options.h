// From a job to what the compiler needs of it.
#pragma once

#include <memory>
#include <span>

#include "runtime/config/job.h"
#include "runtime/train/model.h"

namespace trifold {

// Of the job on one rank; make_parallel_plan() makes those of a plan's ranks from it. `gpu`: that rank's, as
// choose_device() says.
ModelOptions model_options(const Job& job, int gpu = 0);

// Refuses a job that does not fit into the device's memory (or train.memory_limit), naming its largest consumers.
// `programs` are compiled, not yet in memory.
void check_memory(const Job& job, const ModelOptions& options, std::span<const Program* const> programs);
// Bytes that a rank may take.
std::size_t memory_limit(const Job& job, const Device& device);

// Compiles the job's programs, checks that they fit, and takes the memory. For one rank of a plan: its options.
std::unique_ptr<Model> make_model(const Job& job);
std::unique_ptr<Model> make_model(const Job& job, const ModelOptions& options);

// Bytes that the programs need together, as ModelMemory will take them.
std::size_t planned_bytes(std::span<const Program* const> programs);

}  // namespace trifold
