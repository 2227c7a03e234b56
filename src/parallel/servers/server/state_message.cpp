#include "parallel/servers/server/state_message.h"

#include <cstring>

#include "core/error.h"

namespace trifold {
namespace {

int slice_number(const nlohmann::json& value, const ServedLayout& layout) {
  const auto slice = value.get<std::int64_t>();
  if (slice < 0 || slice >= static_cast<std::int64_t>(layout.slices.size()))
    fail_runtime("there is no slice {}: the model has {}", slice, layout.slices.size());
  return static_cast<int>(slice);
}

}  // namespace

void put_states(Message& message, const std::vector<NumberedState>& states, const ServedLayout& layout,
                bool with_history) {
  nlohmann::json slices = nlohmann::json::array();
  nlohmann::json sizes = nlohmann::json::array();
  std::vector<const std::vector<float>*> numbers;
  std::size_t bytes = 0;
  const auto add = [&](int slice, const SliceState& state) -> nlohmann::json& {
    std::size_t size = layout.state_bytes(slice);
    slices.push_back({{"slice", slice},
                      {"epoch", state.epoch},
                      {"version", state.version},
                      {"updates", state.updates},
                      {"applied", state.applied}});
    for (const auto& [round, shards] : state.left_out) slices.back()["left_out"].push_back({round, shards});
    if (state.choice.clock >= 0) slices.back()["choice"] = {state.choice.clock, state.choice.shard};
    numbers.push_back(state.values.get());
    for (const SharedFloats& of_optimizer : state.states) numbers.push_back(of_optimizer.get());
    if (with_history && state.before != nullptr) {
      slices.back()["before"] = true;
      numbers.push_back(state.before.get());
      size += layout.elements_of(slice) * sizeof(float);
    }
    sizes.push_back(size);
    bytes += size;
    return slices.back();
  };
  for (const auto& [slice, state] : states) {
    add(slice, state);
    if (!with_history) continue;
    for (const auto& [clock, cut] : state.cuts) add(slice, *cut)["cut"] = clock;
  }
  std::vector<std::byte> payload(bytes);
  std::size_t at = 0;
  for (const std::vector<float>* part : numbers) {
    std::memcpy(payload.data() + at, part->data(), part->size() * sizeof(float));
    at += part->size() * sizeof(float);
  }
  TRIFOLD_CHECK(at == bytes, "states of {} bytes, not {}", at, bytes);
  message.fields["slices"] = std::move(slices);
  message.fields["sizes"] = std::move(sizes);
  message.payload = Payload::own(std::move(payload));
}

std::vector<NumberedState> take_states(const Message& message, const ServedLayout& layout) {
  std::vector<NumberedState> states;
  std::size_t at = 0;
  try {
    for (const nlohmann::json& entry : message.fields.at("slices")) {
      const int slice = slice_number(entry.at("slice"), layout);
      const bool has_before = entry.value("before", false);
      const std::size_t bytes =
          layout.state_bytes(slice) + (has_before ? layout.elements_of(slice) * sizeof(float) : 0);
      if (message.payload.size() - at < bytes)
        fail_runtime("a message of {} bytes ends within slice {}", message.payload.size(), slice);
      const auto take = [&] {
        auto numbers = std::make_shared<std::vector<float>>(layout.elements_of(slice));
        std::memcpy(numbers->data(), message.payload.bytes().data() + at, numbers->size() * sizeof(float));
        at += numbers->size() * sizeof(float);
        return numbers;
      };
      SliceState state{.epoch = entry.at("epoch"),
                       .version = entry.at("version"),
                       .updates = entry.at("updates"),
                       .applied = entry.at("applied").get<std::vector<std::int64_t>>()};
      if (static_cast<int>(state.applied.size()) != layout.shards)
        fail_runtime("slice {} comes with the clocks of {} shards, not {}", slice, state.applied.size(), layout.shards);
      if (const auto rounds = entry.find("left_out"); rounds != entry.end())
        for (const nlohmann::json& round : *rounds)
          state.left_out[round.at(0).get<std::int64_t>()] = round.at(1).get<std::vector<int>>();
      if (const auto choice = entry.find("choice"); choice != entry.end())
        state.choice = {.clock = choice->at(0), .shard = choice->at(1)};
      state.values = take();
      for (int i = 0; i < layout.states_of(slice); ++i) state.states.push_back(take());
      if (has_before) state.before = take();
      if (!entry.contains("cut")) {
        states.emplace_back(slice, std::move(state));
        continue;
      }
      if (states.empty() || states.back().first != slice) fail_runtime("a cut of slice {} comes without it", slice);
      states.back().second.cuts.insert_or_assign(entry.at("cut").get<std::int64_t>(),
                                                 std::make_shared<const SliceState>(std::move(state)));
    }
  } catch (const nlohmann::json::exception& error) {
    fail_runtime("a message of states lacks something: {}", error.what());
  }
  if (at != message.payload.size())
    fail_runtime("a message of states has {} bytes too many", message.payload.size() - at);
  return states;
}

std::vector<int> take_slices(const Message& message, const ServedLayout& layout) {
  std::vector<int> slices;
  try {
    for (const nlohmann::json& entry : message.fields.at("slices")) slices.push_back(slice_number(entry, layout));
  } catch (const nlohmann::json::exception& error) {
    fail_runtime("a message names no slices: {}", error.what());
  }
  return slices;
}

}  // namespace trifold
