// The optimiser of a model whose updates are elsewhere: what parameter servers do with a worker's gradients, without
// the network between them. Each tensor is updated in two slices.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "networks/plain_network.h"
#include "parallel/servers/updates/slice_update.h"
#include "runtime/train/parallel_model.h"

namespace trifold::test {

class LocalServer {
 public:
  explicit LocalServer(const Job& job);

  void update(ParallelModel& model, const StepContext& context);
  // Adds the optimiser's state under the names that checkpoints use.
  void add_state(const ParallelModel& model, Tensors& tensors);

 private:
  std::vector<std::vector<float>>& states_of(const std::string& name, std::size_t elements);

  std::unique_ptr<SliceUpdate> update_;
  std::map<std::string, std::vector<std::vector<float>>> states_;  // by tensor
};

}  // namespace trifold::test
