// A job's network as the page draws it: layers with their inputs, shapes and figures, and where the plan puts them.
#pragma once

#include <nlohmann/json.hpp>

#include "runtime/config/job.h"

namespace trifold {

// {"layers": [{"id", "type", "family", "in": [..], "shape": [..], "parameters", "flops", "stage", "split"}], "stages",
// "plan"}. The family is "activation" or "", for the page to tell by the type. Where a plan cannot be made here (its
// devices are elsewhere, or its stages are measured), stages are left out and "note" says why.
nlohmann::ordered_json network_picture(const Job& job);

}  // namespace trifold
