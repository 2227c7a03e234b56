// What each layer of a job costs on this machine, measured: plan.stages = "measured" balances stages by it.
#pragma once

#include <vector>

#include "runtime/config/job.h"
#include "runtime/train/model.h"

namespace trifold {

// Seconds of training one micro-batch on one rank of `threads` threads, a number a layer of the job.
std::vector<double> measure_layers(const Job& job, const ModelOptions& job_options, std::int64_t micro_batch,
                                   int threads);

}  // namespace trifold
