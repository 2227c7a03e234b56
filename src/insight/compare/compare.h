// Trains a job under several plans, from the same weights and on the same samples, and says which is fastest. The plans
// take turns of a few steps, in rounds, so that what disturbs the machine disturbs them alike; every other round goes
// backwards.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "insight/compare/comparison.h"
#include "insight/compare/plan_list.h"

namespace trifold {

struct CompareOptions {
  int steps = 20;  // of each plan, in all rounds together
  int rounds = 5;
  // Models stay in memory between turns while all of them take no more than half of it. One that does not fit is put
  // into a file here, until its next turn.
  std::filesystem::path folder;
  bool trace = false;  // writes a trace of each plan's timed steps there; none where other processes do them
  std::filesystem::path program = {};  // trifold itself: what servers and workers are started from
  // Hears the images/s of every plan after each round.
  std::function<void(int round, const std::vector<double>& images_per_s)> on_round = {};
};

Comparison compare(const PlanList& list, const CompareOptions& options);

}  // namespace trifold
