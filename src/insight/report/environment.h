// environment.json: what a run was made by and on, kept with it because a report may be written elsewhere, later.
#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

namespace trifold {

// {"trifold", "compiler", "cpu", "cores", "instruction_set", "memory_bytes", "system", "host", "gpus": [..], "date"}.
nlohmann::ordered_json environment();

void write_environment(const std::filesystem::path& folder);

}  // namespace trifold
