// The "layers" of a model file, with blocks and repeats unfolded, into a flat list in an order in which inputs come
// first. See docs in models/schema.json for what an entry may say.
//
// A block is a named list of layers with parameters. An entry {"block": "b", "id": "s", "repeat": 2, "mid": 64} becomes
// the layers s.0.<id>, s.1.<id>; without "repeat", s.<id>. The entry's id stands for the output of its last layer. In a
// block, "$mid" is a parameter's value, "$index" the number of the repetition, "$in" (in an `in`) the block's input.
// A layer (or block) whose "when" is false is left out, and its id then stands for what it would have read.
#pragma once

#include <string>
#include <vector>

#include "runtime/config/json_source.h"

namespace trifold {

struct ExpandedLayer {
  std::string id;
  JsonNode entry;               // as written, expressions replaced by their values
  std::vector<std::string> in;  // full ids, or "input"
};

// `model` is the whole model object; `classes` is known to all expressions as "$classes".
std::vector<ExpandedLayer> expand_blocks(const JsonNode& model, std::int64_t classes);

}  // namespace trifold
