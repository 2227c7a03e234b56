#include "runtime/config/validate.h"

#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "runtime/config/byte_size.h"
#include "runtime/config/nearest_name.h"

namespace trifold {
namespace {

using Kind = JsonNode::Kind;

bool is_number(const JsonNode& node) {
  return node.kind == Kind::integer || node.kind == Kind::number;
}

// 3, and 3.0 and 3e2 too, as in JSON Schema.
std::optional<std::int64_t> whole_number(const JsonNode& node) {
  if (node.kind == Kind::integer) return node.integer;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (node.kind == Kind::number && std::abs(node.number) <= kExact && node.number == std::floor(node.number))
    return static_cast<std::int64_t>(node.number);
  return std::nullopt;
}

std::string limits(const Field& field) {
  if (field.minimum && field.maximum) return fmt::format(" from {} to {}", *field.minimum, *field.maximum);
  if (field.minimum) return fmt::format(" of at least {}", *field.minimum);
  if (field.maximum) return fmt::format(" of at most {}", *field.maximum);
  return "";
}

[[noreturn]] void fail_expected(const JsonNode& node, const Field& field) {
  fail_at(node, "expected {}, found {}", expectation(field), found(node));
}

void check_limits(const JsonNode& node, const Field& field, double value) {
  if ((field.minimum && value < *field.minimum) || (field.maximum && value > *field.maximum))
    fail_expected(node, field);
}

std::int64_t read_whole(const JsonNode& node, const Field& field) {
  const std::optional<std::int64_t> value = whole_number(node);
  if (!value) fail_expected(node, field);
  check_limits(node, field, static_cast<double>(*value));
  return *value;
}

double read_number(const JsonNode& node, const Field& field) {
  if (!is_number(node)) fail_expected(node, field);
  check_limits(node, field, node.number);
  return node.number;
}

std::string read_text(const JsonNode& node, const Field& field) {
  if (!node.is_text()) fail_expected(node, field);
  return node.text;
}

std::string read_choice(const JsonNode& node, const Field& field) {
  if (!node.is_text()) fail_expected(node, field);
  for (const std::string& choice : field.choices)
    if (choice == node.text) return choice;
  fail_at(node, "expected {}, found {}{}", expectation(field), found(node), did_you_mean(node.text, field.choices));
}

// Whether the value looks like the kind, right or wrong in detail: chooses between two forms of a field.
bool looks_like(const JsonNode& node, const Field& field) {
  switch (field.kind) {
    case FieldKind::boolean:
      return node.kind == Kind::boolean;
    case FieldKind::integer:
    case FieldKind::number:
      return is_number(node);
    case FieldKind::text:
    case FieldKind::choice:
      return node.is_text();
    case FieldKind::pair:
      return is_number(node) || node.is_array();
    case FieldKind::numbers:
      return node.is_array();
    case FieldKind::texts:
      return node.is_text() || node.is_array();
  }
  return false;
}

std::vector<std::string> type_names(const NestedType& type) {
  std::vector<std::string> names;
  for (const ObjectType& each : type.types) names.push_back(each.type);
  return names;
}

const ObjectType& choose_type(const JsonNode* object, const NestedType& nested) {
  if (nested.types.size() == 1 && nested.types.front().type.empty()) return nested.types.front();
  const std::vector<std::string> names = type_names(nested);
  const JsonNode* named = object != nullptr ? object->find("type") : nullptr;
  if (named == nullptr && nested.fallback_type.empty()) {
    TRIFOLD_CHECK(object != nullptr, "'{}' has no fallback type", nested.name);
    fail_at(*object, "'{}' needs a 'type': {}", nested.name, quoted_alternatives(names));
  }
  if (named != nullptr && !named->is_text())
    fail_at(*named, "expected {}, found {}", quoted_alternatives(names), found(*named));
  const std::string& wanted = named != nullptr ? named->text : nested.fallback_type;
  for (const ObjectType& each : nested.types)
    if (each.type == wanted) return each;
  fail_at(*named, "unknown {} type '{}'{} (known: {})", nested.name, wanted, did_you_mean(wanted, names),
          comma_list(names));
}

ObjectValues read_one(const JsonNode* object, const NestedType& nested) {
  if (object != nullptr) check_is_object(*object, "'" + nested.name + "'");
  const ObjectType& type = choose_type(object, nested);

  ObjectValues result;
  result.type = type.type;
  result.node = object;
  if (object == nullptr) {
    result.values = defaults_of(type.fields);
  } else {
    std::vector<std::string> also_known;
    if (!type.type.empty()) also_known.push_back("type");
    for (const NestedType& inner : type.nested) also_known.push_back(inner.name);
    // A field in its second form is kept from read_fields, which knows only the first.
    Fields fields = type.fields;
    for (const auto& [name, form] : type.second_forms) {
      const JsonNode* value = object->find(name);
      if (value == nullptr || !looks_like(*value, form)) continue;
      for (Field& field : fields)
        if (field.name == name) field = form;
    }
    for (const auto& [name, form] : type.second_forms) {
      const JsonNode* value = object->find(name);
      for (const Field& field : fields)
        if (value != nullptr && field.name == name && !looks_like(*value, field))
          fail_at(*value, "expected {} or {}, found {}", expectation(field), expectation(form), found(*value));
    }
    result.values = read_fields(*object, fields, type.noun, also_known);
  }
  for (const NestedType& inner : type.nested) {
    const JsonNode* member = object != nullptr ? object->find(inner.name) : nullptr;
    std::vector<ObjectValues>& values = result.nested[inner.name];
    if (!inner.list) {
      values.push_back(read_object(member, inner));
    } else if (member != nullptr) {
      if (!member->is_array()) fail_at(*member, "expected a list of objects, found {}", found(*member));
      for (const JsonNode& item : member->items) values.push_back(read_one(&item, inner));
    }
  }
  return result;
}

}  // namespace

std::string expectation(const Field& field) {
  switch (field.kind) {
    case FieldKind::boolean:
      return "true or false";
    case FieldKind::integer:
      return "an integer" + limits(field);
    case FieldKind::number:
      return "a number" + limits(field);
    case FieldKind::text:
      return "a text";
    case FieldKind::choice:
      return quoted_alternatives(field.choices);
    case FieldKind::pair:
      return fmt::format("an integer{} or [height, width]", limits(field));
    case FieldKind::numbers:
      return "a list of numbers" + limits(field);
    case FieldKind::texts:
      return "a text or a list of texts";
  }
  return "?";
}

FieldValue read_field(const JsonNode& value, const Field& field) {
  switch (field.kind) {
    case FieldKind::boolean:
      if (value.kind != Kind::boolean) fail_expected(value, field);
      return value.boolean;
    case FieldKind::integer:
      return read_whole(value, field);
    case FieldKind::number:
      return read_number(value, field);
    case FieldKind::text:
      return read_text(value, field);
    case FieldKind::choice:
      return read_choice(value, field);
    case FieldKind::pair: {
      if (!value.is_array()) {
        const std::int64_t both = read_whole(value, field);
        return Pair{both, both};
      }
      if (value.items.size() != 2) fail_expected(value, field);
      return Pair{read_whole(value.items[0], field), read_whole(value.items[1], field)};
    }
    case FieldKind::numbers: {
      if (!value.is_array()) fail_expected(value, field);
      Field each = field;
      each.kind = FieldKind::number;
      std::vector<double> numbers;
      for (const JsonNode& item : value.items) numbers.push_back(read_number(item, each));
      return numbers;
    }
    case FieldKind::texts: {
      if (value.is_text()) return std::vector<std::string>{value.text};
      if (!value.is_array()) fail_expected(value, field);
      Field each = field;
      each.kind = FieldKind::text;
      std::vector<std::string> texts;
      for (const JsonNode& item : value.items) texts.push_back(read_text(item, each));
      return texts;
    }
  }
  fail_expected(value, field);
}

void check_is_object(const JsonNode& node, const std::string& noun) {
  if (!node.is_object()) fail_at(node, "expected an object for {}, found {}", noun, found(node));
}

void check_keys(const JsonNode& object, std::span<const std::string> known, const std::string& noun) {
  for (const JsonNode& item : object.items) {
    bool is_known = false;
    for (const std::string& name : known) is_known = is_known || name == item.key;
    if (!is_known)
      throw Error(Fault::input, fmt::format("{}: unknown key '{}' in {}{} (known: {})", where_key(item), item.key, noun,
                                            did_you_mean(item.key, known), comma_list(known)));
  }
}

FieldValues read_fields(const JsonNode& object, const Fields& fields, const std::string& noun,
                        std::span<const std::string> also_known) {
  check_is_object(object, noun);
  std::vector<std::string> known(also_known.begin(), also_known.end());
  for (const Field& field : fields) known.push_back(field.name);
  check_keys(object, known, noun);

  FieldValues values = defaults_of(fields);
  for (const Field& field : fields) {
    const JsonNode* value = object.find(field.name);
    if (value != nullptr) {
      values.set(field.name, read_field(*value, field));
    } else if (!field.fallback && !field.optional) {
      fail_at(object, "{} needs '{}': {}{}", noun, field.name, expectation(field),
              field.help.empty() ? "" : " (" + field.help + ")");
    }
  }
  return values;
}

const ObjectValues& ObjectValues::object(const std::string& name) const {
  const auto found_member = nested.find(name);
  TRIFOLD_CHECK(found_member != nested.end() && found_member->second.size() == 1, "no object '{}'", name);
  return found_member->second.front();
}

const std::vector<ObjectValues>& ObjectValues::list(const std::string& name) const {
  const auto found_member = nested.find(name);
  TRIFOLD_CHECK(found_member != nested.end(), "no list '{}'", name);
  return found_member->second;
}

ObjectValues read_object(const JsonNode* object, const NestedType& type) {
  TRIFOLD_CHECK(!type.list, "'{}' is a list", type.name);
  return read_one(object, type);
}

std::int64_t read_bytes(const ObjectValues& object, const char* name, const JsonNode& section) {
  const FieldValue& value = object.values.all().find(name)->second;
  if (const auto* bytes = std::get_if<std::int64_t>(&value)) return *bytes;
  const std::string& text = std::get<std::string>(value);
  const std::optional<std::int64_t> bytes = parse_byte_size(text);
  if (!bytes) fail_field(object, name, section, "expected {}, found \"{}\"", kByteSizes, text);
  return *bytes;
}

}  // namespace trifold
