// Paths in a job: relative to the file they are written in, or, from the command line, to the current folder.
#pragma once

#include <filesystem>

#include "runtime/config/json_source.h"

namespace trifold {

std::filesystem::path written_path(const JsonNode& text);   // as short as it was written, for messages and reading
std::filesystem::path absolute_path(const JsonNode& text);  // for the resolved job, which lies in another folder

}  // namespace trifold
