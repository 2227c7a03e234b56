// The JSON Schema (draft 2020-12) of a job, made from the same declarations that the parser validates against. It is
// written to models/schema.json by every build.
#pragma once

#include <string>

namespace trifold {

// A model file is described by its "#/$defs/model".
std::string json_schema();

}  // namespace trifold
