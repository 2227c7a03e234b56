// JSON objects against their declaration. The result holds only declared values, with defaults filled in; anything else
// is one Error with file, line, JSON pointer, what was expected and the nearest valid name.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/fields.h"
#include "runtime/config/json_source.h"
#include "runtime/config/object_type.h"

namespace trifold {

// One value. Numbers are checked against the field's limits, texts against its choices.
FieldValue read_field(const JsonNode& value, const Field& field);

// "expected an integer of at least 1", for messages: what `field` takes.
std::string expectation(const Field& field);

// The fields of one object. `also_known` are keys that the caller reads itself.
FieldValues read_fields(const JsonNode& object, const Fields& fields, const std::string& noun,
                        std::span<const std::string> also_known);

// Refuses a key that is not in `known`. `noun`: "a conv2d layer".
void check_keys(const JsonNode& object, std::span<const std::string> known, const std::string& noun);
void check_is_object(const JsonNode& node, const std::string& noun);

struct ObjectValues {
  std::string type;
  FieldValues values;
  std::map<std::string, std::vector<ObjectValues>> nested;  // one element unless it is a list
  const JsonNode* node = nullptr;                           // null: absent, all defaults

  const ObjectValues& object(const std::string& name) const;
  const std::vector<ObjectValues>& list(const std::string& name) const;
};

ObjectValues read_object(const JsonNode* object, const NestedType& type);

// Something is wrong with field `name` of an object although it is valid alone. The place is that of the field, or of
// the object when the field is a default, or of `section` when the object is absent too.
template <class... Args>
[[noreturn]] void fail_field(const ObjectValues& object, std::string_view name, const JsonNode& section,
                             fmt::format_string<Args...> format, Args&&... args) {
  const JsonNode* field = object.node != nullptr ? object.node->find(name) : nullptr;
  fail_at(field != nullptr         ? *field
          : object.node != nullptr ? *object.node
                                   : section,
          format, std::forward<Args>(args)...);
}

// A field in bytes, or as a text like "8GB".
std::int64_t read_bytes(const ObjectValues& object, const char* name, const JsonNode& section);

}  // namespace trifold
