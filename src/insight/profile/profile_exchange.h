// What the processes of a job profiled, on process 0.
#pragma once

#include "parallel/world.h"
#include "insight/profile/profile.h"

namespace trifold {

// Process 0 gets every process's rows and spans. All call it.
void gather_rows(const World& world, Profile& profile);

}  // namespace trifold
