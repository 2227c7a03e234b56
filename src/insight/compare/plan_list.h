// The plans of a comparison, as the command line lists them: "single; dp=2; pp=2,schedule=1f1b". Each is the job under
// that plan alone: the mesh and the schedule of the job's own plan section do not count.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/job.h"

namespace trifold {

struct ComparedPlan {
  std::string name;  // as it was listed, without spaces
  Job job;
};

struct PlanList {
  std::vector<ComparedPlan> plans;
  std::size_t single = 0;  // the plan that the others are held against; put in front where it was not listed
  bool has_batch_norm = false;
  std::int64_t asked_group = 1;  // train.bn_group of the job; all plans have their common one
  int cores = 1;                 // that a plan may use
};

// Every plan is known to be possible on return. An error names the plan that is not.
PlanList load_plans(const std::filesystem::path& job, std::vector<Override> settings, std::string_view plans);

// For a pipeline whose plan names none: twice the stages, or the most below that into which the batch divides.
std::int64_t default_micro_batches(const Job& job);

}  // namespace trifold
