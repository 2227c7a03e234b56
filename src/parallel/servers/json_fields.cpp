#include "parallel/servers/json_fields.h"

#include <limits>

#include "core/error.h"

namespace trifold {
namespace {

const nlohmann::json& field_of(const nlohmann::json& object, const char* name) {
  if (!object.is_object()) fail_runtime("there is no object that could have '{}'", name);
  const auto found = object.find(name);
  if (found == object.end()) fail_runtime("'{}' is missing", name);
  return *found;
}

}  // namespace

nlohmann::json parse_object(const std::string& text, std::string_view what) {
  auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) fail_runtime("{} is no JSON object", what);
  return json;
}

std::string text_field(const nlohmann::json& object, const char* name) {
  const auto& value = field_of(object, name);
  if (!value.is_string()) fail_runtime("'{}' is no text", name);
  return value.get<std::string>();
}

bool flag_field(const nlohmann::json& object, const char* name) {
  const auto& value = field_of(object, name);
  if (!value.is_boolean()) fail_runtime("'{}' is neither true nor false", name);
  return value.get<bool>();
}

std::int64_t integer_field(const nlohmann::json& object, const char* name, std::int64_t least) {
  const auto& value = field_of(object, name);
  if (!value.is_number_integer()) fail_runtime("'{}' is no whole number", name);
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
    fail_runtime("'{}' is too large", name);
  const auto number = value.get<std::int64_t>();
  if (number < least) fail_runtime("'{}' is {}, and must be at least {}", name, number, least);
  return number;
}

const nlohmann::json& object_field(const nlohmann::json& object, const char* name) {
  const auto& value = field_of(object, name);
  if (!value.is_object()) fail_runtime("'{}' is no object", name);
  return value;
}

const nlohmann::json& array_field(const nlohmann::json& object, const char* name) {
  const auto& value = field_of(object, name);
  if (!value.is_array()) fail_runtime("'{}' is no list", name);
  return value;
}

std::vector<std::string> texts_field(const nlohmann::json& object, const char* name) {
  std::vector<std::string> texts;
  for (const auto& value : array_field(object, name)) {
    if (!value.is_string()) fail_runtime("'{}' holds something that is no text", name);
    texts.push_back(value.get<std::string>());
  }
  return texts;
}

}  // namespace trifold
