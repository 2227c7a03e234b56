// What a run folder holds, as one JSON object that the page draws. Every file of a folder is optional, but one of
// metrics.jsonl, compare.json and profile.json must be there.
#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

namespace trifold {

// {"name", "folder", "job", "network", "environment", "metrics", "evaluation", "compare", "profile"}; what is missing
// is left out. A profile's kernels are columns: {"count", "columns": {key: [..]}}. A file that is no JSON is an input
// error with its name.
nlohmann::ordered_json run_data(const std::filesystem::path& folder);

}  // namespace trifold
