#include "runtime/config/schema.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "layers/layer.h"
#include "runtime/config/data_section.h"
#include "runtime/config/model_section.h"
#include "runtime/config/plan_section.h"
#include "runtime/config/train_section.h"

namespace trifold {
namespace {

using Json = nlohmann::ordered_json;

// 3.0 as 3: limits and defaults are kept as doubles.
Json number_json(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value >= -kExact && value <= kExact && value == static_cast<double>(static_cast<std::int64_t>(value)))
    return static_cast<std::int64_t>(value);
  return value;
}

Json default_json(const FieldValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return number_json(*number);
  if (const auto* pair = std::get_if<Pair>(&value); pair != nullptr && (*pair)[0] == (*pair)[1]) return (*pair)[0];
  return std::visit([](const auto& held) { return Json(held); }, value);
}

Json limited(const char* type, const Field& field) {
  Json json = {{"type", type}};
  if (field.minimum) json["minimum"] = number_json(*field.minimum);
  if (field.maximum) json["maximum"] = number_json(*field.maximum);
  return json;
}

Json kind_schema(const Field& field) {
  switch (field.kind) {
    case FieldKind::boolean:
      return {{"type", "boolean"}};
    case FieldKind::integer:
      return limited("integer", field);
    case FieldKind::number:
      return limited("number", field);
    case FieldKind::text:
      return {{"type", "string"}};
    case FieldKind::choice:
      return {{"enum", field.choices}};
    case FieldKind::numbers:
      return {{"type", "array"}, {"items", limited("number", field)}};
    case FieldKind::pair: {
      const Json one = limited("integer", field);
      return {{"anyOf", {one, {{"type", "array"}, {"items", one}, {"minItems", 2}, {"maxItems", 2}}}}};
    }
    case FieldKind::texts:
      return {{"anyOf", {{{"type", "string"}}, {{"type", "array"}, {"items", {{"type", "string"}}}}}}};
  }
  return Json::object();
}

Json described(Json schema, const std::string& help) {
  if (!help.empty()) schema["description"] = help;
  return schema;
}

Json field_schema(const Field& field, const Json& other_form = nullptr) {
  Json schema = kind_schema(field);
  if (!other_form.is_null()) schema = {{"anyOf", {schema, other_form}}};
  if (field.fallback) schema["default"] = default_json(*field.fallback);
  return described(std::move(schema), field.help);
}

bool is_required(const Field& field) {
  return !field.fallback && !field.optional;
}

Json nested_schema(const NestedType& nested);

Json object_schema(const ObjectType& type, bool must_say_type) {
  Json properties = Json::object();
  Json required = Json::array();
  if (!type.type.empty()) {
    properties["type"] = {{"const", type.type}};
    if (must_say_type) required.push_back("type");
  }
  for (const Field& field : type.fields) {
    const auto second = type.second_forms.find(field.name);
    properties[field.name] =
        field_schema(field, second != type.second_forms.end() ? kind_schema(second->second) : Json(nullptr));
    if (is_required(field)) required.push_back(field.name);
  }
  for (const NestedType& nested : type.nested) properties[nested.name] = nested_schema(nested);
  Json schema = {{"type", "object"}, {"properties", properties}};
  if (!required.empty()) schema["required"] = required;
  schema["additionalProperties"] = false;
  return described(std::move(schema), type.help);
}

Json nested_schema(const NestedType& nested) {
  Json one;
  if (nested.types.size() == 1) {
    one = object_schema(nested.types.front(), nested.fallback_type.empty());
  } else {
    one["oneOf"] = Json::array();
    for (const ObjectType& type : nested.types)
      one["oneOf"].push_back(object_schema(type, type.type != nested.fallback_type));
  }
  if (nested.list) one = {{"type", "array"}, {"items", one}};
  return described(std::move(one), nested.help);
}

Json reference(const std::string& name) {
  return {{"$ref", "#/$defs/" + name}};
}

Json layer_schema(const LayerType& type) {
  Json properties = {
      {"id", reference("id")}, {"type", {{"const", type.name}}}, {"in", reference("in")}, {"when", reference("when")}};
  Json required = {"type"};
  for (const Field& field : type.fields) {
    properties[field.name] = field_schema(field, reference("expression"));
    if (is_required(field)) required.push_back(field.name);
  }
  properties["precision"] = reference("precision");
  // One layer has nothing to join.
  if (type.inputs == kAnyInputs) {
    required.push_back("in");
    properties["in"] = {{"type", "array"}, {"items", {{"type", "string"}}}, {"minItems", 2}};
  }
  return described(
      {{"type", "object"}, {"properties", properties}, {"required", required}, {"additionalProperties", false}},
      type.help);
}

Json block_entry_schema() {
  return {{"type", "object"},
          {"description", "the layers of a block; other members are its parameters"},
          {"properties",
           {{"block", {{"type", "string"}}},
            {"id", reference("id")},
            {"in", {{"type", "string"}}},
            {"repeat", {{"anyOf", {{{"type", "integer"}, {"minimum", 1}}, reference("expression")}}}},
            {"first", {{"type", "object"}, {"description", "parameters of the first repetition only"}}},
            {"when", reference("when")}}},
          {"required", {"block"}}};
}

Json layer_definitions() {
  Json definitions;
  definitions["id"] = {{"type", "string"}, {"pattern", "^[A-Za-z0-9_.-]+$"}};
  definitions["precision"] = field_schema(layer_precision_field(), reference("expression"));
  definitions["expression"] = {{"type", "string"},
                               {"pattern", "\\$"},
                               {"description", "arithmetic on parameters: \"$mid * 4\", \"$stride != 1\""}};
  definitions["when"] = {{"anyOf", {{{"type", "boolean"}}, reference("expression")}},
                         {"description", "false: left out, and its id stands for what it would have read"}};
  definitions["in"] = {
      {"anyOf", {{{"type", "string"}}, {{"type", "array"}, {"items", {{"type", "string"}}}, {"minItems", 1}}}},
      {"description",
       "ids of layers; \"input\": the images; \"$in\": what the block reads; default: the layer before"}};
  Json one_of = Json::array();
  for (const auto& [name, type] : layer_types()) {
    definitions["layer_" + name] = layer_schema(type);
    one_of.push_back(reference("layer_" + name));
  }
  definitions["block_entry"] = block_entry_schema();
  one_of.push_back(reference("block_entry"));
  definitions["layer"] = {{"oneOf", one_of}};
  definitions["layers"] = {{"type", "array"}, {"items", reference("layer")}, {"minItems", 1}};
  definitions["block"] = {{"type", "object"},
                          {"properties",
                           {{"help", {{"type", "string"}}},
                            {"params", {{"type", "object"}, {"description", "with defaults; null: must be given"}}},
                            {"layers", reference("layers")}}},
                          {"required", {"layers"}},
                          {"additionalProperties", false}};
  return definitions;
}

Json input_schema() {
  Json schema = field_schema(input_field());
  schema["items"]["type"] = "integer";
  schema["minItems"] = 3;
  schema["maxItems"] = 3;
  return schema;
}

Json model_schema() {
  return {{"type", "object"},
          {"properties",
           {{"$schema", {{"type", "string"}}},
            {"input", input_schema()},
            {"classes", field_schema(classes_field())},
            {"blocks", {{"type", "object"}, {"additionalProperties", reference("block")}}},
            {"layers", reference("layers")}}},
          {"required", {"input", "classes", "layers"}},
          {"additionalProperties", false}};
}

Json model_file_schema() {
  return {{"type", "object"},
          {"properties",
           {{"file", {{"type", "string"}}}, {"input", input_schema()}, {"classes", field_schema(classes_field())}}},
          {"required", {"file"}},
          {"additionalProperties", false}};
}

}  // namespace

std::string json_schema() {
  Json schema;
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "A Trifold job";
  schema["type"] = "object";
  schema["properties"] = {
      {"$schema", {{"type", "string"}}},
      {"name", {{"type", "string"}, {"pattern", "^[A-Za-z0-9_-][A-Za-z0-9_.-]*$"}, {"description", "of the run"}}},
      {"model",
       {{"oneOf",
         {reference("model"), reference("model_file"), {{"type", "string"}, {"description", "path of a model file"}}}},
        {"description", "the network"}}},
      {"data", nested_schema(data_section())},
      {"train", nested_schema(train_section())},
      {"plan", nested_schema(plan_section())}};
  schema["required"] = {"model", "data"};
  schema["additionalProperties"] = false;
  schema["$defs"] = layer_definitions();
  schema["$defs"]["model"] = model_schema();
  schema["$defs"]["model_file"] = model_file_schema();
  return schema.dump(2) + "\n";
}

}  // namespace trifold
