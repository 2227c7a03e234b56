#include "runtime/cluster/local_training.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace trifold {

LocalTraining::LocalTraining(std::vector<ServedTensor> tensors, LocalTrainingArgs args)
    : tensors_(std::move(tensors)), args_(std::move(args)) {
  const std::size_t states = args_.optimizer ? args_.optimizer->state_names().size() : 0;
  for (const ServedTensor& tensor : tensors_) {
    const auto elements = static_cast<std::size_t>(tensor.elements);
    Tensor& local = local_.emplace_back();
    local.first.resize(elements);
    local.values.resize(elements);
    if (!tensor.trained) continue;
    local.sum.resize(elements);
    local.states.resize(states, std::vector<float>(elements));
  }
}

void LocalTraining::begin(ParameterExchange& servers, const std::vector<bool>& from_servers) {
  const std::vector<float> initial = args_.optimizer ? args_.optimizer->initial_states() : std::vector<float>{};
  for (std::size_t i = 0; i < local_.size(); ++i) {
    Tensor& local = local_[i];
    for (std::size_t k = 0; k < local.states.size(); ++k) std::ranges::fill(local.states[k], initial[k]);
    if (!from_servers[i]) continue;
    const bool given = servers.need_parameter(static_cast<int>(i), local.first);
    TRIFOLD_CHECK(given, "a round begins with values of the servers");
    local.values = local.first;
    std::ranges::fill(local.sum, 0.0F);
  }
  steps_ = 0;
}

void LocalTraining::next_step(double rate) {
  rate_ = rate;
  steps_ += 1;
}

std::vector<std::vector<float>> LocalTraining::values() const {
  std::vector<std::vector<float>> all;
  for (const Tensor& local : local_) all.push_back(local.values);
  return all;
}

bool LocalTraining::need_parameter(int tensor, std::span<float> values) {
  std::ranges::copy(local_[static_cast<std::size_t>(tensor)].values, values.begin());
  return true;
}

void LocalTraining::gradient_ready(int tensor, std::span<const float> values) {
  const ServedTensor& served = tensors_[static_cast<std::size_t>(tensor)];
  Tensor& local = local_[static_cast<std::size_t>(tensor)];
  if (!served.trained) {
    std::ranges::copy(values, local.values.begin());
    return;
  }
  if (!args_.optimizer) {
    const auto rate = static_cast<float>(rate_);
    for (std::size_t i = 0; i < values.size(); ++i) {
      local.sum[i] += values[i];
      local.values[i] -= rate * values[i];
    }
    return;
  }
  const auto mu = static_cast<float>(args_.proximal);
  for (std::size_t i = 0; i < values.size(); ++i) local.sum[i] = values[i] + mu * (local.values[i] - local.first[i]);
  std::vector<float*> states;
  for (std::vector<float>& state : local.states) states.push_back(state.data());
  args_.optimizer->apply(local.values, local.sum, local.values, states,
                         {.rate = rate_, .updates = steps_, .decays = served.decays});
}

// In the order of a backward pass, as servers and the network are used to.
void LocalTraining::end(ParameterExchange& servers, const std::vector<bool>& pushed) {
  for (std::size_t i = local_.size(); i-- > 0;) {
    if (!pushed[i]) continue;
    Tensor& local = local_[i];
    if (tensors_[i].trained && args_.optimizer)
      for (std::size_t k = 0; k < local.sum.size(); ++k) local.sum[k] = local.values[k] - local.first[k];
    servers.gradient_ready(static_cast<int>(i), tensors_[i].trained ? local.sum : local.values);
  }
}

}  // namespace trifold
