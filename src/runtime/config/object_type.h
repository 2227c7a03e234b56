// What the objects of a job may hold, beyond plain fields: fields with a second form, objects in objects, lists of
// objects, and objects whose "type" chooses their fields. Declared as data: validate.h reads JSON against it and
// schema.h writes it down as a JSON Schema.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/fields.h"

namespace trifold {

struct ObjectType;

// A member that is an object (or, with `list`, a list of them) of one of `types`.
struct NestedType {
  std::string name;
  std::string help = {};
  bool list = false;
  std::string fallback_type = {};  // of an object that is absent or does not say its type; empty: it must say
  bool required = false;
  std::vector<ObjectType> types;
};

// After NestedType, because its default for `nested` needs that type to be complete.
struct ObjectType {
  std::string type = {};  // the value of its "type" key; empty: it has none
  std::string noun;       // in errors: "an sgd optimizer", "the train section"
  std::string help = {};
  Fields fields = {};
  std::map<std::string, Field> second_forms = {};  // a field of that name may also be this
  std::vector<NestedType> nested = {};
};

}  // namespace trifold
