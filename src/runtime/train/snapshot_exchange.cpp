#include "runtime/train/snapshot_exchange.h"

#include <nlohmann/json.hpp>

#include "parallel/tensor/shard.h"

namespace trifold {
namespace {

std::string encode_manifest(const Model::Snapshot& snapshot) {
  nlohmann::json manifest = nlohmann::json::array();
  for (const NamedTensor& tensor : snapshot.tensors()) {
    const Shard shard = snapshot.shard_of(tensor.name);
    nlohmann::json dims = nlohmann::json::array();
    for (int dim = 0; dim < tensor.shape.rank(); ++dim) dims.push_back(tensor.shape[dim]);
    manifest.push_back({{"name", tensor.name},
                        {"dims", dims},
                        {"shard", {shard.dim, shard.index, shard.count, shard.column, shard.columns}}});
  }
  return manifest.dump();
}

void send_text(const std::string& text, Communicator& ranks, int to) {
  const std::uint64_t length = text.size();
  ranks.wait(ranks.send(std::as_bytes(std::span(&length, 1)), to));
  ranks.wait(ranks.send(std::as_bytes(std::span(text)), to));
}

std::string receive_text(Communicator& ranks, int from) {
  std::uint64_t length = 0;
  ranks.wait(ranks.receive(std::as_writable_bytes(std::span(&length, 1)), from));
  std::string text(length, '\0');
  ranks.wait(ranks.receive(std::as_writable_bytes(std::span(text)), from));
  return text;
}

}  // namespace

void send_snapshot(const Model::Snapshot& snapshot, Communicator& ranks, int to) {
  send_text(encode_manifest(snapshot), ranks, to);
  for (const NamedTensor& tensor : snapshot.tensors()) {
    const std::span<const float> whole(reinterpret_cast<const float*>(tensor.data.data()),
                                       tensor.data.size() / sizeof(float));
    const Shard shard = snapshot.shard_of(tensor.name);
    if (shard.dim < 0) {
      ranks.wait(ranks.send(tensor.data, to));
      continue;
    }
    const std::vector<float> part = take_shard(whole, tensor.shape, shard);
    ranks.wait(ranks.send(std::as_bytes(std::span(part)), to));
  }
}

Model::Snapshot receive_snapshot(Communicator& ranks, int from) {
  Model::Snapshot snapshot;
  const nlohmann::json manifest = nlohmann::json::parse(receive_text(ranks, from));
  for (const nlohmann::json& entry : manifest) {
    Shape shape;
    for (const std::int64_t dim : entry.at("dims")) shape.push_back(dim);
    const nlohmann::json& numbers = entry.at("shard");
    const Shard shard{.dim = numbers.at(0),
                      .index = numbers.at(1),
                      .count = numbers.at(2),
                      .column = numbers.at(3),
                      .columns = numbers.at(4)};
    std::vector<float> part(static_cast<std::size_t>(shape.elements() / shard.parts()));
    ranks.wait(ranks.receive(std::as_writable_bytes(std::span(part)), from));
    snapshot.add(entry.at("name"), shape, shard, std::move(part));
  }
  return snapshot;
}

}  // namespace trifold
