// A plan with parameter servers: servers and workers are processes of this machine, and this one is their manager.
// Between turns the workers wait. What they send, how stale what they pulled was and how much memory they took is what
// they report; how their time divides is not known here.
#pragma once

#include <filesystem>
#include <memory>

#include "insight/compare/contestant.h"
#include "runtime/data/dataset.h"

namespace trifold {

struct ServedContestantArgs {
  const ComparedPlan& plan;
  std::shared_ptr<const Dataset> data = {};
  int cores = 1;                       // that the workers share
  int steps = 0;                       // of all turns together: an input error where the job has fewer
  std::filesystem::path program = {};  // that has the commands "server" and "worker"
};

std::unique_ptr<Contestant> make_served_contestant(ServedContestantArgs args);

}  // namespace trifold
