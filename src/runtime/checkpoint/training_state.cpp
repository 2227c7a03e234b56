#include "runtime/checkpoint/training_state.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace trifold {
namespace {

using nlohmann::json;

// JSON has no infinities and no NaN, and a best loss begins at infinity.
json exact(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

// The library's own conversions would round, wrap round or read true as 1.
template <class Integer>
Integer whole_from(const json& value) {
  const bool fits = value.is_number_unsigned()
                        ? value.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<Integer>::max()}
                        : value.is_number_integer() && std::is_signed_v<Integer>;
  if (!fits) fail_input("a whole number in range is expected, not this {}", value.type_name());
  return value.get<Integer>();
}

std::vector<std::uint64_t> whole_list_from(const json& list) {
  if (!list.is_array()) fail_input("a list is expected, not this {}", list.type_name());
  std::vector<std::uint64_t> values;
  for (const json& value : list) values.push_back(whole_from<std::uint64_t>(value));
  return values;
}

double exact_from(const json& value) {
  if (!value.is_string() && !value.is_number()) fail_input("a number is expected, not this {}", value.type_name());
  if (!value.is_string()) return value.get<double>();
  const auto text = value.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  fail_input("'{}' is not a number", text);
}

json exact(const std::map<std::string, double>& values) {
  json object = json::object();
  for (const auto& [name, value] : values) object[name] = exact(value);
  return object;
}

std::map<std::string, double> exact_map_from(const json& object) {
  if (!object.is_object()) fail_input("an object is expected, not this {}", object.type_name());
  std::map<std::string, double> values;
  for (const auto& [name, value] : object.items()) values[name] = exact_from(value);
  return values;
}

}  // namespace

std::string to_json_text(const TrainingState& state) {
  const json object = {{"step", state.step},
                       {"epoch", state.epoch},
                       {"position_in_epoch", state.position_in_epoch},
                       {"seed", state.seed},
                       {"rng", state.rng},
                       {"best_metrics", exact(state.best_metrics)},
                       {"loss_scale", exact(state.loss_scale)},
                       {"steps_since_overflow", state.steps_since_overflow},
                       {"counters", exact(state.counters)}};
  return object.dump();
}

TrainingState training_state_from_json(const std::string& text, const std::string& file) {
  try {
    const json object = json::parse(text);
    return {.step = whole_from<std::int64_t>(object.at("step")),
            .epoch = whole_from<std::int64_t>(object.at("epoch")),
            .position_in_epoch = whole_from<std::int64_t>(object.at("position_in_epoch")),
            .seed = whole_from<std::uint64_t>(object.at("seed")),
            .rng = whole_list_from(object.at("rng")),
            .best_metrics = exact_map_from(object.at("best_metrics")),
            .loss_scale = exact_from(object.at("loss_scale")),
            .steps_since_overflow = whole_from<std::int64_t>(object.at("steps_since_overflow")),
            .counters = exact_map_from(object.at("counters"))};
  } catch (const json::exception& error) {
    fail_input("the training state in '{}' cannot be read: {}", file, error.what());
  } catch (const Error& error) {
    fail_input("the training state in '{}' cannot be read: {}", file, error.what());
  }
}

}  // namespace trifold
