#include "networks/local_server.h"

#include <span>
#include <utility>

namespace trifold::test {

LocalServer::LocalServer(const Job& job) : update_(make_optimizer_update(job.train.optimizer)) {}

void LocalServer::update(ParallelModel& model, const StepContext& context) {
  const std::vector<ServedTensor> tensors = model.served_tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].trained) continue;
    const auto elements = static_cast<std::size_t>(tensors[i].elements);
    std::vector<float> values(elements);
    std::vector<float> gradient(elements);
    model.read(static_cast<int>(i), values);
    model.read_result(static_cast<int>(i), gradient);
    std::vector<std::vector<float>>& states = states_of(tensors[i].name, elements);
    for (const auto& [begin, end] : {std::pair{std::size_t{0}, elements / 3}, std::pair{elements / 3, elements}}) {
      std::vector<float*> at;
      for (std::vector<float>& state : states) at.push_back(state.data() + begin);
      const std::span<float> slice = std::span(values).subspan(begin, end - begin);
      update_->apply(slice, std::span(gradient).subspan(begin, end - begin), slice, at,
                     {.rate = context.learning_rate, .updates = context.updates, .decays = tensors[i].decays});
    }
    model.write(static_cast<int>(i), values);
  }
}

void LocalServer::add_state(const ParallelModel& model, Tensors& tensors) {
  for (const ServedTensor& tensor : model.served_tensors()) {
    if (!tensor.trained) continue;
    const auto& states = states_of(tensor.name, static_cast<std::size_t>(tensor.elements));
    const std::vector<std::string> names = update_->state_names();
    for (std::size_t i = 0; i < names.size(); ++i)
      tensors["optimizer." + tensor.name + "." + names[i]] = {states[i].begin(), states[i].end()};
  }
}

std::vector<std::vector<float>>& LocalServer::states_of(const std::string& name, std::size_t elements) {
  const auto [found, added] = states_.try_emplace(name);
  if (added)
    for (const float first : update_->initial_states()) found->second.emplace_back(elements, first);
  return found->second;
}

}  // namespace trifold::test
