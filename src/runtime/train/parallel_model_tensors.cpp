// A folded model's tensors for others: one by one between steps, or while steps go on.
#include "core/error.h"
#include "runtime/train/parallel_model.h"
#include "runtime/train/step_exchange.h"

namespace trifold {

// A part of the network is a chunk of the same number on the ranks of one stage.
ServedTensors& ParallelModel::served() const {
  if (served_) return *served_;
  if (world_ != nullptr || plan_.zero > 0)
    fail_input("{}: tensors can only be exchanged one by one where they are whole in one process: {}",
               job_.file.string(), plan_.zero > 0 ? "set plan.zero to 0" : "start it without mpirun");
  auto served = std::make_unique<ServedTensors>();
  for (int part = 0; part < plan_.cut.parts; ++part)
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const MeshPlace& place = ranks_[rank].groups->place();
      if (place.pipeline != part % plan_.mesh.pipeline) continue;
      const int chunk = part / plan_.mesh.pipeline;
      served->add(*ranks_[rank].chunks[static_cast<std::size_t>(chunk)], static_cast<int>(rank), chunk, place,
                  job_.train.decay_bias);
    }
  served_ = std::move(served);
  return *served_;
}

std::vector<ServedTensor> ParallelModel::served_tensors() const {
  std::vector<ServedTensor> tensors;
  for (const ServedTensors::Tensor& tensor : served().all()) tensors.push_back(tensor.served);
  return tensors;
}

// Every device is spoken to on its rank's thread, one after the other: their parts may share cache lines.
void ParallelModel::read(int tensor, std::span<float> values) const {
  average_replicas({});
  for (const ServedTensors::Holder& holder : served()[tensor].holders)
    if (holder.is_primary)
      team_->run([&](int rank) {
        if (rank == holder.rank) served().take(holder, holder.values, values);
      });
}

void ParallelModel::read_result(int tensor, std::span<float> values) const {
  for (const ServedTensors::Holder& holder : served()[tensor].holders)
    if (holder.is_primary)
      team_->run([&](int rank) {
        if (rank == holder.rank) served().take(holder, holder.result(), values);
      });
}

std::vector<std::vector<float>> ParallelModel::results() const {
  std::vector<std::vector<float>> all;
  for (const ServedTensors::Tensor& tensor : served().all()) {
    all.emplace_back(static_cast<std::size_t>(tensor.served.elements));
    read_result(static_cast<int>(all.size()) - 1, all.back());
  }
  return all;
}

void ParallelModel::write(int tensor, std::span<const float> values) {
  average_replicas({});
  const ServedTensors::Tensor& written = served()[tensor];
  team_->run([&](int rank) {
    for (const ServedTensors::Holder& holder : written.holders)
      if (holder.rank == rank) served().put(holder, values);
  });
}

void ParallelModel::exchange_with(ParameterExchange* exchange) {
  TRIFOLD_CHECK(exchange == nullptr || updates_elsewhere_, "the model has an optimiser of its own");
  const bool early = plan_.mesh.pipeline == 1 && plan_.pipeline.micro_batches == 1;
  exchange_ = exchange == nullptr ? nullptr : std::make_unique<StepExchange>(served(), *exchange, early);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    for (std::size_t chunk = 0; chunk < ranks_[rank].chunks.size(); ++chunk)
      ranks_[rank].chunks[chunk]->training().watch_nodes(
          exchange_ ? exchange_->watcher(static_cast<int>(rank), static_cast<int>(chunk)) : nullptr);
}

}  // namespace trifold
