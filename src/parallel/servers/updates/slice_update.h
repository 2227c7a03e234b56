// What a server does with the combined push of a slice: the optimiser's step, or a federated round's. One file a kind.
// Element by element, so that slices of a tensor may lie anywhere.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops/optimizer.h"

namespace trifold {

struct SliceStep {
  double rate = 0;           // learning
  std::int64_t updates = 1;  // of this slice, this one included
  bool decays = true;
};

class SliceUpdate {
 public:
  virtual ~SliceUpdate() = default;
  // What checkpoints call the state's arrays, as long as the slice each; as optimizer_state_names() has them.
  virtual std::vector<std::string> state_names() const = 0;
  // What each of the states is filled with before the first update.
  virtual std::vector<float> initial_states() const { return std::vector<float>(state_names().size(), 0.0f); }
  // `values` from `before` and `push`: a gradient, or in federated rounds the clients' mean change of the model.
  // `values` may be `before`; `states` change in place.
  virtual void apply(std::span<const float> before, std::span<const float> push, std::span<float> values,
                     std::span<float* const> states, const SliceStep& step) const = 0;
};

// The optimiser of the job. Fails where it needs more than its slice (lars, clip_norm), saying so.
std::unique_ptr<SliceUpdate> make_optimizer_update(const OptimizerArgs& args);

// Reddi et al. 2021, "Adaptive Federated Optimization": algorithms 1 (with momentum: FedAvgM) and 2. Their rate is the
// server's own, whatever the step's: that one is the clients'. The paper has beta1 = 0 for fedadagrad.
struct FederatedArgs {
  std::string server = "fedavg";  // fedavg, fedadagrad, fedadam, fedyogi
  double rate = 1;                // of the server
  double momentum = 0;            // fedavg: FedAvgM
  double beta1 = 0.9, beta2 = 0.99, tau = 1e-3;

  bool operator==(const FederatedArgs&) const = default;
};
// Fails on an unknown server, with the known ones.
std::unique_ptr<SliceUpdate> make_federated_update(const FederatedArgs& args);
std::vector<std::string> federated_names();

}  // namespace trifold
