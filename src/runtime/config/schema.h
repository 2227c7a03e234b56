// The JSON Schema (draft 2020-12) of a job, made from the same declarations that the parser validates against. It is
// committed as models/schema.json: `trifold schema > models/schema.json`.
#pragma once

#include <string>

namespace trifold {

// A model file is described by its "#/$defs/model".
std::string json_schema();

}  // namespace trifold
