// Reads fields of JSON that others wrote: whatever is in it, the result is a value of the kind asked for or an Error
// that names the field and what is wrong with it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace trifold {

// An object, or an Error that begins with `what`: "the view is no JSON object".
nlohmann::json parse_object(const std::string& text, std::string_view what);

std::string text_field(const nlohmann::json& object, const char* name);
bool flag_field(const nlohmann::json& object, const char* name);
// At least `least`.
std::int64_t integer_field(const nlohmann::json& object, const char* name, std::int64_t least = 0);
std::vector<std::string> texts_field(const nlohmann::json& object, const char* name);
const nlohmann::json& object_field(const nlohmann::json& object, const char* name);
const nlohmann::json& array_field(const nlohmann::json& object, const char* name);

}  // namespace trifold
