// A test of parameter servers and workers that are processes: a job for them, and who takes part, started one by one as
// on several machines.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/job_fixture.h"

namespace trifold::test {

class ClusterFixture : public JobFixture {
 protected:
  // Dropout and batch norm: what depends on a sample's place in the batch must not depend on who computes it.
  static Json cluster_job();
  void SetUp() override { write_job(cluster_job()); }

  // Until a few steps of a run are done, or the program has ended.
  void wait_for_steps(RunningProgram& program, const std::string& run) const;

  std::vector<double> losses(const std::string& run) const;
  // `unreported`: steps of which a killed worker may have kept its part of the loss to itself.
  void expect_same_losses(const std::string& a, const std::string& b, double tolerance, int unreported = 0) const;

  // `trifold` with these arguments, the first of which names what it is; its output does not meet that of others.
  // `under`: what starts it, with its arguments.
  std::unique_ptr<RunningProgram> start(std::vector<std::string> arguments, std::vector<std::string> under = {}) const;
  // So many of them.
  std::vector<std::unique_ptr<RunningProgram>> start(int count, const std::vector<std::string>& arguments) const;

 private:
  mutable int started_ = 0;
};

// A port of this machine that nobody listens on.
int free_port();

// Each must end with exit code 0 by itself.
void expect_good_end(const std::vector<std::unique_ptr<RunningProgram>>& programs);

}  // namespace trifold::test
