#include "parallel/servers/client/request.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace trifold {
namespace {

// They are one until their slices go apart.
Payload encodings_of(const Request& request) {
  std::size_t total = 0;
  std::vector<Payload> encodings;
  for (const SliceWork& item : request.work) total += item.encoded.size();
  if (total == request.encodings.size()) return request.encodings;
  encodings.reserve(request.work.size());
  for (const SliceWork& item : request.work) encodings.push_back(item.encoded);
  return join(encodings);
}

}  // namespace

Payload join(std::span<const Payload> parts) {
  if (parts.empty()) return {};
  std::size_t total = 0;
  bool adjacent = true;
  const Payload& first = parts.front();
  for (const Payload& part : parts) {
    adjacent = adjacent && part.owner() == first.owner() && part.bytes().data() == first.bytes().data() + total;
    total += part.size();
  }
  if (adjacent) return {first.owner(), {first.bytes().data(), total}};
  std::vector<std::byte> joined;
  joined.reserve(total);
  for (const Payload& part : parts) joined.insert(joined.end(), part.bytes().begin(), part.bytes().end());
  return Payload::own(std::move(joined));
}

SlicePlacement placement_of(const View& view, const std::vector<ServedTensor>& tensors,
                            const std::vector<Slice>& slices) {
  SlicePlacement placement{.view = view, .owner = {}};
  if (view.servers.empty()) return placement;
  for (const SlicePlace& place : place_slices(tensors, slices, view.server_ids()))
    placement.owner.push_back(place.primary);
  return placement;
}

std::vector<AddressedRequest> split_by_server(Request request, const SlicePlacement& placement) {
  std::vector<AddressedRequest> split;
  const auto owner = [&](const SliceWork& item) { return placement.owner[static_cast<std::size_t>(item.slice)]; };
  if (!request.work.empty())
    if (const int first = owner(request.work.front());
        std::ranges::all_of(request.work, [&](const SliceWork& item) { return owner(item) == first; })) {
      split.push_back({.server = first, .request = std::move(request)});
      return split;
    }
  std::vector<SliceWork> work = std::move(request.work);
  request.work.clear();
  for (SliceWork& item : work) {
    const int server = owner(item);
    auto found = std::ranges::find(split, server, &AddressedRequest::server);
    if (found == split.end()) {
      split.push_back({.server = server, .request = request});
      found = std::prev(split.end());
    }
    found->request.work.push_back(std::move(item));
  }
  return split;
}

Message message_of(const Request& request, std::uint64_t id, std::int64_t epoch) {
  Message message{.kind = request.kind, .fields = {{"id", id}}};
  if (request.kind == MessageKind::status) return message;
  nlohmann::json slices = nlohmann::json::array();
  for (const SliceWork& item : request.work) slices.push_back(item.slice);
  message.fields["epoch"] = epoch;
  message.fields["slices"] = std::move(slices);
  if (request.kind == MessageKind::fetch) {
    message.fields["cut"] = request.cut;
    return message;
  }
  message.fields["shard"] = request.shard;
  if (!request.shards.empty()) message.fields["shards"] = request.shards;
  if (request.again) message.fields["again"] = true;
  message.fields["clock"] = request.clock;
  if (request.kind == MessageKind::pull) return message;
  message.fields["weight"] = request.weight;
  message.fields["rate"] = request.rate;
  nlohmann::json sizes = nlohmann::json::array();
  for (const SliceWork& item : request.work) sizes.push_back(item.encoded.size());
  message.fields["sizes"] = std::move(sizes);
  message.payload = encodings_of(request);
  return message;
}

void put_fetched(FetchedModel& model, const Slice& slice, const nlohmann::json& info,
                 std::span<const std::byte> bytes) {
  FetchedTensor& tensor = model.tensors[static_cast<std::size_t>(slice.tensor)];
  const auto elements = static_cast<std::size_t>(slice.elements());
  const auto begin = static_cast<std::size_t>(slice.begin);
  const std::size_t array = elements * sizeof(float);
  if (array == 0 || bytes.empty() || bytes.size() % array != 0)
    fail_runtime("{} bytes are no arrays of {} numbers", bytes.size(), elements);
  const std::size_t states = bytes.size() / array - 1;
  if (states > 16) fail_runtime("{} arrays of state", states);
  if (tensor.states.size() < states) tensor.states.resize(states, std::vector<float>(tensor.values.size()));
  for (std::size_t i = 0; i <= states; ++i) {
    std::vector<float>& whole = i == 0 ? tensor.values : tensor.states[i - 1];
    std::memcpy(whole.data() + begin, bytes.data() + i * array, array);
  }
  const auto updates = info.at("updates").get<std::int64_t>();
  tensor.updates = tensor.updates < 0 ? updates : std::min(tensor.updates, updates);
  const auto applied = info.at("applied").get<std::vector<std::int64_t>>();
  if (model.applied.empty()) model.applied = applied;
  if (model.applied.size() != applied.size()) fail_runtime("{} shards", applied.size());
  for (std::size_t i = 0; i < applied.size(); ++i) model.applied[i] = std::min(model.applied[i], applied[i]);
}

}  // namespace trifold
