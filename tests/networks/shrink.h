// Makes a failing job smaller as long as it fails.
#pragma once

#include <string>

#include "networks/network_check.h"
#include "networks/random_job.h"

namespace trifold::test {

// The first difference, or the error that the job ends with; empty: none.
std::string what_is_wrong(const JobJson& job, std::uint64_t seed, NetworkCheck* check = nullptr);

// Stops after so many seconds.
JobJson shrink(JobJson job, std::uint64_t seed, double seconds = 120);

}  // namespace trifold::test
