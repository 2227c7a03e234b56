// Every registered schedule, for tests that hold all of them to the same: a new schedule is covered without further
// work.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/config/plan_section.h"

namespace trifold::test {

// 1 to 4 stages with 1 to 9 micro-batches, as far as the schedules take them, with 2 or 3 chunks where they have
// chunks.
std::vector<Pipeline> pipelines_of_schedules();

std::string describe(const Pipeline& pipeline);

// A plan of 4 micro-batches for each schedule that can have so many on these stages, with 2 chunks where it has chunks.
std::vector<PlanConfig> plans_of_schedules(std::int64_t stages);

// Those that update the model once per batch, and so give the losses of one device.
std::vector<PlanConfig> folding_plans_of_schedules(std::int64_t stages);

std::string test_name(const PlanConfig& plan);  // "pp2_zero_bubble": what a test's name may hold

}  // namespace trifold::test
