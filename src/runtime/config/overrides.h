// Settings from the command line, applied to the JSON tree of a job before it is validated: `--set train.batch=256`,
// `--plan dp=2,pp=2`. A path has dots; a part of it may be the index of a list, or the id of a layer in one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/json_source.h"

namespace trifold {

struct Override {
  std::vector<std::string> path;  // {"train", "batch"}
  JsonNode value;                 // its places say the option
  std::string option;             // "--set train.batch=256"
};

// The text after --set. The value is JSON; text that is not JSON is taken as it is.
Override parse_set(std::string_view text);
// The text after --plan: settings of the plan section, with commas between them. A type of sync may be one of them, and
// its fields then need no "sync." before them: "ps,servers=2,mode=ssp", "dp=2,topk,keep=0.1".
std::vector<Override> parse_plan(std::string_view text);

void apply_override(JsonNode& job, const Override& override_);

}  // namespace trifold
