#include "runtime/config/overrides.h"

#include <algorithm>
#include <charconv>
#include <memory>

#include <fmt/format.h>

#include "runtime/config/nearest_name.h"
#include "runtime/config/plan_section.h"

namespace trifold {
namespace {

Override parse_setting(std::string_view text, const std::string& prefix, const std::string& option) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    fail_input("{}: expected {}", option, prefix.empty() ? "section.field=value" : "field=value,field=value");
  Override result;
  result.option = option;
  const std::string path = prefix + std::string(text.substr(0, equals));
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    if (end == begin) fail_input("{}: '{}' has an empty part", option, path);
    result.path.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }

  const std::string value(text.substr(equals + 1));
  const bool must_be_json = !value.empty() && std::string_view("{[\"").find(value.front()) != std::string_view::npos;
  try {
    result.value = parse_json(value, option, false);
  } catch (const Error&) {
    if (must_be_json) throw;
    result.value.kind = JsonNode::Kind::text;
    result.value.text = value;
    result.value.place.origin = std::make_shared<const std::string>(option);
  }
  return result;
}

// The element of a list that `part` names, by index or by its "id".
JsonNode& element(JsonNode& list, const std::string& part, const std::string& option) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
  if (error == std::errc() && end == part.data() + part.size()) {
    if (index >= list.items.size())
      fail_input("{}: {} has {} elements, so there is no {} (the first is 0)", option, list.pointer, list.items.size(),
                 index);
    return list.items[index];
  }
  for (JsonNode& item : list.items)
    if (const JsonNode* id = item.find("id"); id != nullptr && id->is_text() && id->text == part) return item;
  fail_input("{}: {} is a list; '{}' is neither an index nor the id of an element", option, list.pointer, part);
}

JsonNode& member(JsonNode& object, const std::string& part, const JsonPlace& place) {
  if (JsonNode* existing = object.find(part)) return *existing;
  JsonNode added;
  added.kind = JsonNode::Kind::object;
  added.key = part;
  added.place = place;
  added.key_place = place;
  added.pointer = child_pointer(object.pointer, part);
  object.items.push_back(std::move(added));
  return object.items.back();
}

void set_origin(JsonNode& node, const JsonPlace& place) {
  node.place = place;
  node.key_place = place;
  for (JsonNode& item : node.items) set_origin(item, place);
}

// The next comma that stands in no list or object: "stages=[3,4],pp=2".
std::size_t end_of_setting(std::string_view text, std::size_t begin) {
  int depth = 0;
  for (std::size_t at = begin; at < text.size(); ++at) {
    if (text[at] == '[' || text[at] == '{') ++depth;
    if (text[at] == ']' || text[at] == '}') --depth;
    if (text[at] == ',' && depth <= 0) return at;
  }
  return text.size();
}

const NestedType& sync_types() {
  for (const NestedType& nested : plan_section().types.front().nested)
    if (nested.name == "sync") return nested;
  TRIFOLD_CHECK(false, "plans have a sync");
}

const ObjectType& sync_named(const std::string& name, const std::string& option) {
  std::vector<std::string> known;
  for (const ObjectType& type : sync_types().types) {
    if (type.type == name) return type;
    known.push_back(type.type);
  }
  fail_input("{}: expected field=value or a type of sync, found '{}'{} (known: {})", option, name,
             did_you_mean(name, known), comma_list(known));
}

bool has_field(const ObjectType& type, std::string_view name) {
  return std::ranges::any_of(type.fields, [&](const Field& field) { return field.name == name; });
}

}  // namespace

Override parse_set(std::string_view text) {
  return parse_setting(text, "", fmt::format("--set {}", text));
}

std::vector<Override> parse_plan(std::string_view text) {
  const std::string option = fmt::format("--plan {}", text);
  std::vector<std::string_view> settings;
  const ObjectType* sync = nullptr;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = end_of_setting(text, begin);
    settings.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  std::vector<Override> result;
  // The type goes first, and takes the place of a whole sync of the job: fields of another type mean nothing to it.
  for (const std::string_view setting : settings) {
    if (setting.empty() || setting.find('=') != std::string_view::npos) continue;
    if (sync != nullptr) fail_input("{}: '{}' and '{}' are two types of sync", option, sync->type, setting);
    sync = &sync_named(std::string(setting), option);
    result.push_back(parse_setting(fmt::format("sync={{\"type\": \"{}\"}}", setting), "plan.", option));
  }
  for (const std::string_view setting : settings) {
    if (sync != nullptr && setting == sync->type) continue;
    const bool of_sync = sync != nullptr && has_field(*sync, setting.substr(0, setting.find('=')));
    result.push_back(parse_setting(setting, of_sync ? "plan.sync." : "plan.", option));
  }
  return result;
}

void apply_override(JsonNode& job, const Override& override_) {
  const JsonPlace place{override_.value.place.origin, 0, 0};
  JsonNode* at = &job;
  for (const std::string& part : override_.path) {
    if (at->is_array())
      at = &element(*at, part, override_.option);
    else if (at->is_object())
      at = &member(*at, part, place);
    else
      fail_input("{}: {} is {}, which has no '{}' in it", override_.option, at->pointer, found(*at), part);
  }
  JsonNode value = override_.value;
  set_origin(value, place);
  value.key = at->key;
  set_pointer(value, at->pointer);
  *at = std::move(value);
}

}  // namespace trifold
