// What the processes of a job profiled, on process 0.
#pragma once

#include "insight/profile/profile.h"
#include "parallel/world.h"

namespace trifold {

// Process 0 gets every process's rows and spans. All call it.
void gather_rows(const World& world, Profile& profile);

}  // namespace trifold
