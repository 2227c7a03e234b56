// The files that a comparison writes its plans' traces to.
#pragma once

#include <string>
#include <vector>

namespace trifold {

// One a plan, "trace-dp=2.json": what may not be in a file's name is replaced, and no two are alike.
std::vector<std::string> trace_files_of(const std::vector<std::string>& plans);

}  // namespace trifold
