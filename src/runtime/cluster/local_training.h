// Several steps of a worker on its own, from the servers' values on. It stands between the model and the servers: the
// model sees parameters that move with every step, the servers what came of them all.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "parallel/servers/slices/slice.h"
#include "parallel/servers/updates/slice_update.h"
#include "runtime/train/parameter_exchange.h"

namespace trifold {

struct LocalTrainingArgs {
  // Null: plain steps along the gradients, whose sum is pushed (period); the optimiser is the servers'. Else the
  // client's optimiser, which begins anew in every round, and the change of the model is pushed (federated).
  std::shared_ptr<const SliceUpdate> optimizer = {};
  // FedProx (Li et al. 2020): mu times the way from the servers' values is added to each gradient.
  double proximal = 0;
};

class LocalTraining final : public ParameterExchange {
 public:
  LocalTraining(std::vector<ServedTensor> tensors, LocalTrainingArgs args);

  // A round: begin, any number of steps of the model with this as its exchange, end. By tensor: whether it begins with
  // the servers' values, or goes on from this training's own; and whether what came of it is pushed, or kept.
  void begin(ParameterExchange& servers, const std::vector<bool>& from_servers);
  void next_step(double rate);  // before each of them
  void end(ParameterExchange& servers, const std::vector<bool>& pushed);

  std::vector<std::vector<float>> values() const;  // by tensor, as they are now

  bool need_parameter(int tensor, std::span<float> values) override;
  void gradient_ready(int tensor, std::span<const float> values) override;

 private:
  struct Tensor {
    std::vector<float> first;  // as the servers had it
    std::vector<float> values;
    std::vector<float> sum;  // of gradients since then; or what the optimiser is given
    std::vector<std::vector<float>> states;
  };

  const std::vector<ServedTensor> tensors_;
  const LocalTrainingArgs args_;
  std::vector<Tensor> local_;
  double rate_ = 0;
  std::int64_t steps_ = 0;  // of the round
};

}  // namespace trifold
